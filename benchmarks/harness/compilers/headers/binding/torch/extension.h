// The lightest stand-in for <torch/extension.h>: tensors, operators, and a small binding in place of pybind11, whose code
// takes most of the time that a short kernel needs to compile. A source that needs more is compiled again with larger
// headers. In CUDA, where ATen.h is that of `thinnest`, the file with the operators is written for each source.
#pragma once
#include <Python.h>

#include <ATen/ATen.h>
#ifndef __CUDACC__
#include <ATen/Parallel.h>
#endif
#include <pybind11/pybind11.h>

#include "../../names.h"
