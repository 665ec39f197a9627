// What torch has for CUDA, on tensors of the CPU: streams, guards, checks.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/AccumulateType.h>
#include <ATen/OpMathType.h>

#include "api.h"

namespace torch {
using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;
constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
template <class T>
using OptionalRef = std::optional<std::reference_wrapper<T>>;
namespace nn::functional {}
}  // namespace torch

namespace c10::cuda {

class CUDAStream {
public:
    CUDAStream() = default;
    explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
    cudaStream_t stream() const { return stream_; }
    operator cudaStream_t() const { return stream_; }
    void synchronize() const { cudaStreamSynchronize(stream_); }
    bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
    int device_index() const { return 0; }
    bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }

private:
    cudaStream_t stream_ = nullptr;
};
inline CUDAStream& kb_current() {
    static CUDAStream current;
    return current;
}
inline CUDAStream getCurrentCUDAStream(int = -1) { return kb_current(); }
inline CUDAStream getDefaultCUDAStream(int = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, int = -1) { return CUDAStream(static_cast<cudaStream_t>(kbench::stream_create(false))); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, int = -1) { return CUDAStream(stream); }
inline void setCurrentCUDAStream(CUDAStream stream) { kb_current() = stream; }
inline int current_device() { return 0; }
inline int device_count() { return 1; }
inline void device_synchronize() { cudaDeviceSynchronize(); }
struct CUDAGuard {
    CUDAGuard() = default;
    template <class T>
    explicit CUDAGuard(const T&) {}
};
using OptionalCUDAGuard = CUDAGuard;
struct CUDAStreamGuard {
    explicit CUDAStreamGuard(CUDAStream stream) : before(kb_current()) { kb_current() = stream; }
    ~CUDAStreamGuard() { kb_current() = before; }
    CUDAStream before;
};
inline void check(cudaError_t error) { TORCH_CHECK(error == cudaSuccess, "CUDA error: ", cudaGetErrorString(error)); }

}  // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;
struct CUDAEvent {
    cudaEvent_t handle = nullptr;
    explicit CUDAEvent(unsigned = cudaEventDisableTiming) { cudaEventCreate(&handle); }
    cudaEvent_t event() const { return handle; }
    operator cudaEvent_t() const { return handle; }
    void record(const CUDAStream& stream = getCurrentCUDAStream()) { cudaEventRecord(handle, stream); }
    void recordOnce(const CUDAStream& stream) { record(stream); }
    void block(const CUDAStream& stream) { cudaStreamWaitEvent(stream, handle); }
    void synchronize() const { cudaEventSynchronize(handle); }
    bool query() const { return cudaEventQuery(handle) == cudaSuccess; }
};
struct OptionalCUDAGuard : c10::cuda::CUDAGuard { using c10::cuda::CUDAGuard::CUDAGuard; };
inline cudaDeviceProp* getCurrentDeviceProperties() {
    static cudaDeviceProp properties;
    return &properties;
}
inline cudaDeviceProp* getDeviceProperties(int) { return getCurrentDeviceProperties(); }
inline int warp_size() { return 32; }
}  // namespace at::cuda
namespace torch::cuda {
inline bool is_available() { return true; }
inline void synchronize(int = -1) { cudaDeviceSynchronize(); }
}

namespace at {
inline bool kb_is_cuda(const Tensor&) { return true; }
using CUDAGuard = c10::cuda::CUDAGuard;
template <class T>
struct RestrictPtrTraits {
    using PtrType = T* __restrict;
};
}  // namespace at

#define C10_CUDA_CHECK(...) c10::cuda::check(__VA_ARGS__)
#define AT_CUDA_CHECK(...) c10::cuda::check(__VA_ARGS__)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() c10::cuda::check(cudaGetLastError())
#define TORCH_CUDA_CHECK(...) c10::cuda::check(__VA_ARGS__)
#define CUDA_KERNEL_LAUNCH_CHECK() c10::cuda::check(cudaGetLastError())
