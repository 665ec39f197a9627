// In place of <pybind11/stl.h>: pybind11.h beside it knows lists, tuples and optional values.
#pragma once
#include <pybind11/pybind11.h>
