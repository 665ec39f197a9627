// Enough of CUDA's runtime to run plain kernels on a CPU: the threads of a block are fibers that hand over at barriers
// and shuffles, blocks and launches follow one another. For tests of results on small shapes; it shows no races, no
// time and no limits of a device. Launches have to be rewritten to `emulate(grid, block, bytes, stream, call)`.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#define __global__ [[maybe_unused]] static
#define __device__
#define __host__
#define __grid_constant__
#define __restrict__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

using std::max;
using std::min;

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};

using cudaStream_t = void*;
using cudaError_t = int;
constexpr int cudaSuccess = 0, cudaDevAttrMultiProcessorCount = 16, cudaFuncAttributeMaxDynamicSharedMemorySize = 8;

inline dim3 gridDim, blockDim, blockIdx, threadIdx;
inline char* emulated_shared = nullptr;

namespace emulation {

struct Barrier {
    int arrived = 0, turn = 0;
};

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    dim3 index;
    bool done = false;
};

struct Warp {
    Barrier barrier;
    int64_t values[32];
    unsigned a[32][4], b[32][2];
};

inline std::vector<Fiber> fibers;
inline std::vector<Warp> warps;
inline Barrier block_barrier;
inline ucontext_t scheduler;
inline int current = 0;
inline void (*entry)(void*) = nullptr;
inline void* entry_data = nullptr;

inline void hand_over() {
    const int own = current;
    swapcontext(&fibers[own].context, &scheduler);
}

inline int living(int first, int last) {
    int count = 0;
    for (int i = first; i < last; ++i) count += !fibers[i].done;
    return count;
}

inline void wait(Barrier& barrier, int first, int last) {
    const int turn = barrier.turn;
    ++barrier.arrived;
    while (barrier.turn == turn) {
        if (barrier.arrived >= living(first, last)) {
            barrier.arrived = 0;
            ++barrier.turn;
            return;
        }
        hand_over();
    }
}

inline void run_fiber() {
    entry(entry_data);
    fibers[current].done = true;
    hand_over();
}

inline void run_block(int threads) {
    block_barrier = {};
    warps.assign((threads + 31) / 32, {});
    for (int i = 0; i < threads; ++i) {
        Fiber& fiber = fibers[i];
        fiber.done = false;
        fiber.index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
        getcontext(&fiber.context);
        fiber.context.uc_stack = {fiber.stack.get(), 0, 1 << 17};
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, run_fiber, 0);
    }
    for (int left = threads, rounds = 0; left > 0; left = living(0, threads)) {
        if (++rounds > 10'000'000) std::abort();
        for (current = 0; current < threads; ++current) {
            if (fibers[current].done) continue;
            threadIdx = fibers[current].index;
            swapcontext(&scheduler, &fibers[current].context);
        }
    }
}

inline void wait_for_warp() {
    const int first = current / 32 * 32;
    wait(warps[current / 32].barrier, first, std::min<int>(first + 32, int(fibers.size())));
}

template <class T>
T exchange(T value, int from) {
    static_assert(sizeof(T) <= 8);
    Warp& warp = warps[current / 32];
    std::memcpy(&warp.values[current % 32], &value, sizeof(T));
    wait_for_warp();
    std::memcpy(&value, &warp.values[from], sizeof(T));
    wait_for_warp();
    return value;
}

}  // namespace emulation

template <class Call>
void emulate(dim3 grid, dim3 block, size_t bytes, cudaStream_t, Call call) {
    const int threads = int(block.x * block.y * block.z);
    if (threads == 0 || threads > 1024 || grid.x * grid.y * grid.z == 0) std::abort();
    std::vector<char> shared(bytes + 128);
    emulated_shared = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(shared.data()) + 127) / 128 * 128);
    emulation::fibers.clear();
    emulation::fibers.resize(threads);
    for (auto& fiber : emulation::fibers) fiber.stack.reset(new char[1 << 17]);
    for (auto& fiber : emulation::fibers) fiber.done = true;
    emulation::entry = [](void* data) { (*static_cast<Call*>(data))(); };
    emulation::entry_data = &call;
    gridDim = grid;
    blockDim = block;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                blockIdx = dim3(x, y, z);
                std::memset(emulated_shared, 0xff, bytes);  // NaN: what is read must have been written
                emulation::run_block(threads);
            }
}

inline void __syncthreads() {
    emulation::wait(emulation::block_barrier, 0, int(emulation::fibers.size()));
}
inline void __syncwarp(unsigned = ~0u) {
    emulation::wait_for_warp();
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int step) {
    value = emulation::exchange(value, emulation::current % 32 ^ step);
    return value;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    value = emulation::exchange(value, lane);
    return value;
}

// mma.m16n8k8 of TF32 values, whose lower 13 bits are not read.
inline void emulated_mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    emulation::Warp& warp = emulation::warps[emulation::current / 32];
    const int lane = emulation::current % 32, group = lane / 4, quad = lane % 4;
    std::memcpy(warp.a[lane], a, sizeof a);
    std::memcpy(warp.b[lane], b, sizeof b);
    emulation::wait_for_warp();
    const auto tf32 = [](unsigned bits) {
        bits &= 0xffffe000u;
        float v;
        std::memcpy(&v, &bits, 4);
        return v;
    };
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 8; ++k) {
            const int row = group + i / 2 * 8, column = 2 * quad + i % 2;
            d[i] += tf32(warp.a[row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]) * tf32(warp.b[column * 4 + k % 4][k / 4]);
        }
    emulation::wait_for_warp();
}

template <class T>
T __ldg(const T* from) { return *from; }
template <class T>
T __ldcs(const T* from) { return *from; }
template <class T>
T __ldcg(const T* from) { return *from; }
template <class T>
void __stcs(T* to, T value) { *to = value; }
template <class T>
T atomicAdd(T* to, T value) {
    const T old = *to;
    *to += value;
    return old;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline float rsqrtf(float v) { return 1.0f / std::sqrt(v); }
inline double rsqrt(double v) { return 1.0 / std::sqrt(v); }
inline float __expf(float v) { return std::exp(v); }
inline float __logf(float v) { return std::log(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline unsigned __float_as_uint(float v) {
    unsigned bits;
    std::memcpy(&bits, &v, 4);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline int cudaGetLastError() { return cudaSuccess; }
inline int cudaGetDevice(int* device) { return *device = 0; }
inline int cudaDeviceGetAttribute(int* value, int, int) { return *value = 2, cudaSuccess; }
template <class Kernel>
int cudaFuncSetAttribute(Kernel, int, int) { return cudaSuccess; }
inline int cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
    std::memset(to, value, bytes);
    return cudaSuccess;
}

struct cudaLaunchAttributeValue {
    int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
    int id;
    cudaLaunchAttributeValue val;
};
constexpr int cudaLaunchAttributeProgrammaticStreamSerialization = 6;
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes = 0;
    cudaStream_t stream = nullptr;
    cudaLaunchAttribute* attrs = nullptr;
    unsigned numAttrs = 0;
};
template <class... Parameters, class... Arguments>
int cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments... arguments) {
    emulate(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream,
            [=] { kernel(arguments...); });
    return cudaSuccess;
}
