// All that a translated CUDA source needs, precompiled once: torch's tensors, CUDA's names, and the binding.
#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <math.h>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/api.h"
#include "emulator/binding.h"
#include "emulator/device.h"
#include "emulator/groups.h"
#include "emulator/pipeline.h"
#include "emulator/ptx.h"
#include "emulator/tensors.h"
#include "emulator/wmma.h"

#undef __global__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local
#define __forceinline__ inline
#undef __noinline__
#define __noinline__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __managed__
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#define __CUDA_ARCH_SPECIFIC__ 900
#define CUDART_VERSION 12080
#define CUDA_VERSION 12080
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 8
#define CUDART_INF_F std::numeric_limits<float>::infinity()
#define CUDART_NAN_F std::numeric_limits<float>::quiet_NaN()
#define CUDART_PI_F 3.141592654f
// tensors of the CPU say that they are CUDA's
#define is_cuda is_cpu
#define kCUDA kCPU
#define CUDA CPU
