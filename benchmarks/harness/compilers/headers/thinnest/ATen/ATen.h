// In place of <ATen/ATen.h>, which declares every operator: tensors, and the operators that the source names.
#pragma once
#define AT_PER_OPERATOR_HEADERS
#include <ATen/Context.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/irange.h>

#include "kbench_operators.h"
