// In place of <ATen/cuda/Exceptions.h>: the check for the CUDA runtime, without those for its libraries, unless the
// source names one of them.
#pragma once
#include "kbench_needs.h"
#ifdef KBENCH_NEEDS_CUDA_LIBRARIES
#include_next <ATen/cuda/Exceptions.h>
#else
#include <c10/cuda/CUDAException.h>

#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#endif
