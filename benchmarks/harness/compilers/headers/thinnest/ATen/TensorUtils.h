// In place of <ATen/TensorUtils.h>, which every operator's header includes and none of them needs.
#pragma once
#include <ATen/core/Tensor.h>
