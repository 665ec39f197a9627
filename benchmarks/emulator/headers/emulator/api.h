// The CUDA runtime as far as submissions call it: launches, memory, streams, events, attributes. Everything is done when
// a call returns, on one emulated device.
#pragma once
#include <chrono>
#include <cstdlib>
#include <new>
#include <tuple>
#include <utility>

#include "device.h"

using cudaError_t = int;
using cudaError = int;
enum : int {
    cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101, cudaErrorNotReady = 600, cudaErrorIllegalAddress = 700, cudaErrorNotSupported = 801,
    cudaErrorCooperativeLaunchTooLarge = 720, cudaErrorUnknown = 999
};
struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum : unsigned { cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 15
};
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxRegistersPerBlock = 12, cudaDevAttrClockRate = 13, cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38, cudaDevAttrMaxThreadsPerMultiProcessor = 39, cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76, cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrCooperativeLaunch = 95, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97, cudaDevAttrMaxBlocksPerMultiprocessor = 106
};
struct cudaDeviceProp {
    char name[256] = "emulated GPU";
    size_t totalGlobalMem = size_t(1) << 30, sharedMemPerBlock = 48 << 10, sharedMemPerBlockOptin = 227 << 10, sharedMemPerMultiprocessor = 228 << 10;
    int major = 9, minor = 0, multiProcessorCount = 132, warpSize = 32, maxThreadsPerBlock = 1024, regsPerBlock = 65536;
    int maxThreadsPerMultiProcessor = 2048, l2CacheSize = 50 << 20, maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {0x7fffffff, 65535, 65535};
    int cooperativeLaunch = 1, clockRate = 1980000, regsPerMultiprocessor = 65536, persistingL2CacheMaxSize = 0, accessPolicyMaxWindowSize = 0;
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes = 0, constSizeBytes = 0, localSizeBytes = 0;
    int maxThreadsPerBlock = 1024, numRegs = 64, maxDynamicSharedSizeBytes = 48 << 10;
};

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore, cudaLaunchAttributeAccessPolicyWindow, cudaLaunchAttributeCooperative,
    cudaLaunchAttributeSynchronizationPolicy, cudaLaunchAttributeClusterDimension,
    cudaLaunchAttributeClusterSchedulingPolicyPreference, cudaLaunchAttributeProgrammaticStreamSerialization,
    cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
    struct { unsigned x, y, z; } clusterDim;
    int cooperative, programmaticStreamSerializationAllowed, priority, clusterSchedulingPolicyPreference;
    char room[64];
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes = 0;
    cudaStream_t stream = nullptr;
    cudaLaunchAttribute* attrs = nullptr;
    unsigned numAttrs = 0;
};

namespace kbench {

extern cudaError_t last_error;
inline cudaError_t noted(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

template <class F, class... Args>
cudaError_t launch(const char* kernel, int line, const Shape& shape, F f, Args... args) {
    struct Call {
        F f;
        std::tuple<Args...> args;
        __attribute__((no_sanitize("thread"))) static void invoke(void* call) {
            auto* self = static_cast<Call*>(call);
            std::apply(self->f, self->args);
        }
    };
    auto* call = new (parameter_room(sizeof(Call))) Call{f, std::tuple<Args...>(args...)};
    const cudaError_t error = run_grid(kernel, line, shape, &Call::invoke, call);
    call->~Call();
    return noted(error);
}

inline Index index_of(dim3 d) { return {d.x, d.y, d.z}; }

// What stands between <<< and >>>, and then the call.
struct Launcher {
    const char* kernel;
    int line;
    Shape shape;
    Launcher(const char* k, int l, dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
        : kernel(k), line(l), shape{index_of(grid), index_of(block), {1, 1, 1}, shared_bytes, false, stream} {}
    Launcher& clustered(unsigned x, unsigned y = 1, unsigned z = 1) {
        shape.cluster = {x, y, z};
        return *this;
    }
    Launcher& bounded(unsigned threads) {
        shape.bound = threads;
        return *this;
    }
    template <class F>
    struct Bound {
        const Launcher& launcher;
        F f;
        template <class... Args>
        void operator()(Args... args) const { launch(launcher.kernel, launcher.line, launcher.shape, f, args...); }
    };
    template <class F>
    Bound<F> of(F f) const { return {*this, f}; }
};

template <class... P, class... A>
cudaError_t launch_pointer(const Shape& shape, int line, void (*kernel)(P...), A&&... args) {
    return launch("the kernel launched", line, shape, kernel, std::decay_t<P>(std::forward<A>(args))...);
}

}  // namespace kbench

template <class... P, class... A>
cudaError_t kb_cudaLaunchKernelEx(int line, const cudaLaunchConfig_t* c, void (*kernel)(P...), A&&... args) {
    kbench::Shape shape{kbench::index_of(c->gridDim), kbench::index_of(c->blockDim), {1, 1, 1}, c->dynamicSmemBytes, false, c->stream};
    for (unsigned i = 0; i < c->numAttrs; ++i) {
        const auto& a = c->attrs[i];
        if (a.id == cudaLaunchAttributeClusterDimension) shape.cluster = {a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
        if (a.id == cudaLaunchAttributeCooperative) shape.cooperative = a.val.cooperative != 0;
    }
    return kbench::launch_pointer(shape, line, kernel, std::forward<A>(args)...);
}
#define cudaLaunchKernelEx(...) kb_cudaLaunchKernelEx(__LINE__, __VA_ARGS__)

namespace kbench {
template <class... P, size_t... I>
cudaError_t launch_array(const Shape& shape, int line, void (*kernel)(P...), void** args, std::index_sequence<I...>) {
    return launch_pointer(shape, line, kernel, *static_cast<std::decay_t<P>*>(args[I])...);
}
}  // namespace kbench
template <class... P>
cudaError_t kb_launch_kernel(int line, bool cooperative, void (*kernel)(P...), dim3 grid, dim3 block, void** args, size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
    const kbench::Shape shape{kbench::index_of(grid), kbench::index_of(block), {1, 1, 1}, shared_bytes, cooperative, stream};
    return kbench::launch_array(shape, line, kernel, args, std::index_sequence_for<P...>());
}
inline cudaError_t kb_launch_kernel(int line, bool, const void*, dim3, dim3, void**, size_t = 0, cudaStream_t = nullptr) {
    kbench::abstain(line, "a kernel is launched through an untyped pointer");
}
#define cudaLaunchKernel(...) kb_launch_kernel(__LINE__, false, __VA_ARGS__)
#define cudaLaunchCooperativeKernel(...) kb_launch_kernel(__LINE__, true, __VA_ARGS__)

inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

// ---- errors ------------------------------------------------------------------------------------------------------------

inline cudaError_t cudaPeekAtLastError() { return kbench::last_error; }
inline cudaError_t cudaGetLastError() { return kbench::last_error == cudaErrorIllegalAddress ? kbench::last_error : std::exchange(kbench::last_error, 0); }
inline const char* cudaGetErrorString(cudaError_t e) {
    switch (e) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
        case cudaErrorCooperativeLaunchTooLarge: return "too many blocks in cooperative launch";
        default: return "unknown error";
    }
}
inline const char* cudaGetErrorName(cudaError_t e) { return cudaGetErrorString(e); }

// ---- memory ------------------------------------------------------------------------------------------------------------

template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
    *p = static_cast<T*>(kbench::device_allocate(bytes, false));
    return *p == nullptr && bytes > 0 ? kbench::noted(cudaErrorMemoryAllocation) : cudaSuccess;
}
template <class T>
cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
template <class T>
cudaError_t cudaMallocManaged(T** p, size_t bytes, unsigned = 0) { return cudaMalloc(p, bytes); }
template <class T>
cudaError_t cudaMallocHost(T** p, size_t bytes) { return cudaMalloc(p, bytes); }
inline cudaError_t cudaFree(void* p) {
    kbench::host_waits_for_all();
    return kbench::device_free(p) ? cudaSuccess : kbench::noted(cudaErrorInvalidValue);
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return kbench::device_free(p) ? cudaSuccess : kbench::noted(cudaErrorInvalidValue); }
inline cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t = nullptr) {
    kbench::raw_copy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind k) {
    kbench::host_waits_for_stream(nullptr);
    return cudaMemcpyAsync(to, from, bytes, k);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind, cudaStream_t = nullptr) {
    for (size_t row = 0; row < height; ++row)
        kbench::raw_copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void* p, int v, size_t bytes) {
    std::memset(p, v, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* p, int v, size_t bytes, cudaStream_t = nullptr) { return cudaMemset(p, v, bytes); }
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) {
    kbench::raw_copy(reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(&symbol)) + offset, from, bytes);
    return cudaSuccess;
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind k = cudaMemcpyHostToDevice, cudaStream_t = nullptr) {
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, k);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    kbench::raw_copy(to, reinterpret_cast<const char*>(&symbol) + offset, bytes);
    return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** p, const T& symbol) {
    *p = const_cast<void*>(static_cast<const void*>(&symbol));
    return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    *free = *total = size_t(1) << 30;
    return cudaSuccess;
}

// ---- streams, events, the device ----------------------------------------------------------------------------------------

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
    *s = static_cast<cudaStream_t>(kbench::stream_create(flags == cudaStreamDefault));
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, cudaStreamDefault); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int) { return cudaStreamCreateWithFlags(s, flags); }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { *least = 0, *greatest = -5; return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t kb_after_waiting() { return cudaPeekAtLastError() == cudaErrorIllegalAddress ? cudaErrorIllegalAddress : cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) { kbench::host_waits_for_stream(s); return kb_after_waiting(); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned = 0) { kbench::stream_wait(s, e); return cudaSuccess; }
inline cudaError_t cudaStreamQuery(cudaStream_t s) { return cudaStreamSynchronize(s); }
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { *e = static_cast<cudaEvent_t>(kbench::event_create()); return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return cudaEventCreate(e); }
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr) { kbench::event_record(e, s); return cudaSuccess; }
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s = nullptr, unsigned = 0) { return cudaEventRecord(e, s); }
inline cudaError_t cudaEventSynchronize(cudaEvent_t e) { kbench::host_waits_for_event(e); return kb_after_waiting(); }
inline cudaError_t cudaEventQuery(cudaEvent_t e) { return cudaEventSynchronize(e); }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { *ms = 1; return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { kbench::host_waits_for_all(); return kb_after_waiting(); }
inline cudaError_t cudaGetDevice(int* d) { *d = 0; return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* n) { *n = 1; return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) { *p = {}; return cudaSuccess; }
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    const cudaDeviceProp p;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrClockRate: *value = p.clockRate; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = int(p.sharedMemPerMultiprocessor); break;
        case cudaDevAttrCooperativeLaunch: *value = 1; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(p.sharedMemPerBlockOptin); break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; break;
        default: return kbench::noted(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
template <class K>
cudaError_t cudaFuncSetAttribute(K, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value > (227 << 10)) return kbench::noted(cudaErrorInvalidValue);
    kbench::allow_shared_bytes(size_t(value));
    return cudaSuccess;
}
template <class K>
cudaError_t cudaFuncSetCacheConfig(K, cudaFuncCache) { return cudaSuccess; }
template <class K>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, K) { *a = {}; return cudaSuccess; }
template <class K>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, K, int threads, size_t shared_bytes) {
    *blocks = std::min(32, 2048 / std::max(32, (threads + 31) / 32 * 32));
    if (shared_bytes > 0) *blocks = std::min(*blocks, int((227u << 10) / shared_bytes));
    return cudaSuccess;
}
template <class K>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, K, size_t = 0, int limit = 0) {
    *block = limit > 0 ? limit : 1024, *grid = 132 * (2048 / *block);
    return cudaSuccess;
}
