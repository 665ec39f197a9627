// In place of <ATen/cuda/CUDAContextLight.h>: device properties without the headers of cuBLAS, cuSPARSE and cuSOLVER,
// unless the source names one of them.
#pragma once
#include "kbench_needs.h"
#ifdef KBENCH_NEEDS_CUDA_LIBRARIES
#include_next <ATen/cuda/CUDAContextLight.h>
#else
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>

namespace at::cuda {
inline int64_t getNumGPUs() { return c10::cuda::device_count(); }
inline bool is_available() { return c10::cuda::device_count() > 0; }
TORCH_CUDA_CPP_API cudaDeviceProp* getCurrentDeviceProperties();
TORCH_CUDA_CPP_API cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device);
TORCH_CUDA_CPP_API int warp_size();
TORCH_CUDA_CPP_API c10::Allocator* getCUDADeviceAllocator();
}  // namespace at::cuda
#endif
