// In place of <ATen/cuda/Exceptions.h>: the check for the CUDA runtime, without those for its libraries.
#pragma once
#include <c10/cuda/CUDAException.h>

#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
