// A thin stand-in for <torch/extension.h>: tensors, operators, parallel_for and the Python binding, without the
// C++ front end (torch::nn, autograd, optimisers), which is what makes the stock header slow to compile.
// A source that needs more than this is compiled again with the stock header, so nothing legal is refused.
#pragma once
#include <Python.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "../../names.h"
