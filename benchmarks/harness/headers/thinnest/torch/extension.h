// The thinnest stand-in for <torch/extension.h>: the tensor class with its methods, the dispatch macros, the Python
// binding, and of the operators only those that the source names (kbench_operators.h is written for each source).
// A source that needs more is compiled again with the thin header and then with the stock one.
#pragma once
#include <Python.h>

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "kbench_operators.h"

namespace torch {
using namespace at;  // NOLINT: the stock header does the same
}
