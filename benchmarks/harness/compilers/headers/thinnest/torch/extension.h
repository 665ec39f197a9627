// The thinnest stand-in for <torch/extension.h>: the tensor class with its methods, the dispatch macros, the Python
// binding, and of the operators only those that the source names (kbench_operators.h is written for each source).
// A source that needs more is compiled again with the thin header and then with the stock one.
#pragma once
#include <torch/csrc/utils/pybind.h>

#include <ATen/ATen.h>

#include "../../names.h"
