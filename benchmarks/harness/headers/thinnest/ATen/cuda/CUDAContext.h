// In place of <ATen/cuda/CUDAContext.h>: streams, device properties and error checks, without the headers of cuBLAS,
// cuSPARSE and cuSOLVER. A source that asks for their handles is compiled again with torch's own header.
#pragma once
#include <ATen/cuda/Exceptions.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace at::cuda {
inline int64_t getNumGPUs() { return c10::cuda::device_count(); }
inline bool is_available() { return c10::cuda::device_count() > 0; }
TORCH_CUDA_CPP_API cudaDeviceProp* getCurrentDeviceProperties();
TORCH_CUDA_CPP_API cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device);
TORCH_CUDA_CPP_API int warp_size();
TORCH_CUDA_CPP_API c10::Allocator* getCUDADeviceAllocator();
}  // namespace at::cuda
