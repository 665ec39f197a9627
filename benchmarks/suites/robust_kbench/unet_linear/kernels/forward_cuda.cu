// Linear layer at every position of a feature map: y = x W^T + b.
//
// Bound by memory and by its start: 17 MB for 16,384 rows of 128 to 128 take 4 us at the best rate, an empty launch 2.5,
// and all of W has to be there, cut, before the first product.
// Work:     two float16 for each float32, on the tensor cores. A block per multiprocessor cuts W once into shared memory,
//           and the rows of x that it needs are under way before, as bulk copies (up to 256 rows of 128). A warpgroup
//           multiplies 64 rows by all columns, x from registers, W where it lies, and waits for nobody; the first
//           products start when an eighth of a tile is cut.
//           The four neighbouring terms of a 16-byte load serve as the terms 2q, 2q + 1, 2q + 8, 2q + 9 of an
//           instruction (the order of the terms is free if W has the same), and the columns are in that order too,
//           so that a thread holds four neighbouring results.
//           What is read of x may be replaced first in L2, so that fewer dirty lines are written back meanwhile.
// Numerics: each row of x and of W is scaled by a power of two to below 2^15 and cut into two float16, head and rest;
//           head head + head rest + rest head leaves out 2^-22 of a product. Tensor cores round sums towards zero;
//           12 or 24 additions meet here: 0.14 of the tolerance at most on an H200.
// Measured: scripts/kernel_lab.py, H200, 16,384 rows of 128 to 128: 12.6 us (3xTF32 in registers 17.6, cuBLAS 21.8), 8,192 of
//           64 to 64: 6.6 (8.1, 9.4). Slower: x straight into registers 13.6, results as bulk copies 14.6, mma.sync
//           14.1, two warpgroups per tile 22.2.
// Dispatch: `halves` for 64 or 128 terms and columns, a multiple of 64 rows, 16-byte alignment and compute capability 9.0;
//           `floats` (3xTF32 on mma.sync) for everything else.
// Limits:   float32, contiguous; an infinite input makes its row NaN.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

namespace {

struct Layer {  // y (rows, out) = x (rows, in) w (out, in)^T + bias
    const float *x, *w, *bias;
    float* y;
    int rows, out, in;
};

namespace halves {

// ---- instructions ---------------------------------------------------------------------------------------------------

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
__device__ void wait_for(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
__device__ void begin_barrier(unsigned barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ void show_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
__device__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ void copy_in(unsigned to, const void* from, int bytes, unsigned barrier) {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}
// A load that stays where it stands: of plain loads the compiler leaves some for later, and their latency adds up.
__device__ float4 load_now(const float4* p) {
    float4 v;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
}
// What this thread wrote to shared memory may be read by wgmma and bulk copies after the next barrier.
__device__ void show_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void meet(int group, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(threads) : "memory");
}

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b, for 64 rows, 16 terms and 128 or 64 columns; a thread's share of the results is d.
__device__ void multiply_async(float (&d)[64], const unsigned (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}"
        : OF_16(d, 0), OF_16(d, 16), OF_16(d, 32), OF_16(d, 48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}
__device__ void multiply_async(float (&d)[32], const unsigned (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
        : OF_16(d, 0), OF_16(d, 16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
template <int kCount>
__device__ void end_products(float (&d)[kCount]) {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");  // not to be read before
}

// ---- layout ---------------------------------------------------------------------------------------------------------

constexpr int kRows = 64, kStages = 4, kThreads = 256, kTeam = 128, kTeams = kThreads / kTeam;  // kRows of x per tile

template <int kIn, int kOut>
struct Shape {
    static constexpr int kSteps = kIn / 16, kBlocks = kIn / 64;
    static constexpr int kHalfBytes = kIn * kOut * 2, kTileBytes = kRows * kIn * 4;
    static constexpr int kSharedBytes = 1024 + 2 * kHalfBytes + kStages * kTileBytes;
};

// W in halves: [head, rest][block of 64 terms][column][term], rows of 128 bytes in the swizzle of 128 bytes. Of 16
// terms, 4q + 2h + e lies in place 8h + 2q + e; of 16 columns too.
__device__ int place(int column) {
    return (column & ~15) | (column >> 1 & 1) << 3 | (column >> 2 & 3) << 1 | (column & 1);
}
__device__ int chunk_bytes(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }
__device__ uint64_t descriptor(unsigned address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

// ---- numbers --------------------------------------------------------------------------------------------------------

__device__ float largest(float top, float4 v) {
    return fmaxf(fmaxf(fmaxf(top, fabsf(v.x)), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

struct Scale {
    float factor, inverse;  // powers of two
};

// What brings a row whose four threads met `top` to below 2^15.
__device__ Scale scale_of(float top) {
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    const unsigned exponent = min(268 - (__float_as_uint(top) >> 23), 253u);
    return {__uint_as_float(exponent << 23), __uint_as_float((254 - exponent) << 23)};
}

__device__ void split(float x, float y, unsigned& head, unsigned& rest) {
    const __half2 h = __floats2half2_rn(x, y);
    const float2 f = __half22float2(h);
    const __half2 r = __floats2half2_rn(x - f.x, y - f.y);
    head = reinterpret_cast<const unsigned&>(h);
    rest = reinterpret_cast<const unsigned&>(r);
}

// ---- work -----------------------------------------------------------------------------------------------------------

// Four threads cut a row of W, 16 terms of each block.
template <int kIn, int kOut>
__device__ void cut_weights(const Layer& p, char* image, float* inverses, float* biases) {
    using S = Shape<kIn, kOut>;
    constexpr int kTogether = kThreads / 4, kTurns = (kOut + kTogether - 1) / kTogether;
    const int quarter = threadIdx.x % 4, first = threadIdx.x / 4;
    const float bias = __ldg(p.bias + min(int(threadIdx.x), kOut - 1));
    float4 v[kTurns][S::kBlocks][4];
#pragma unroll
    for (int i = 0; i < kTurns * S::kBlocks * 4; ++i) {
        const int turn = i / 4 / S::kBlocks, block = i / 4 % S::kBlocks;
        const int column = min(first + turn * kTogether, kOut - 1);
        const float* from = p.w + column * kIn + block * 64 + quarter * 16;
        v[turn][block][i % 4] = load_now(reinterpret_cast<const float4*>(from) + i % 4);
    }
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
        const int column = first + turn * kTogether;
        if (kOut % kTogether != 0 && column >= kOut) break;  // whole warps
        float top = 0;
#pragma unroll
        for (int i = 0; i < S::kBlocks * 4; ++i) top = largest(top, v[turn][i / 4][i % 4]);
        const Scale scale = scale_of(top);
        if (quarter == 0) inverses[column] = scale.inverse;
#pragma unroll
        for (int block = 0; block < S::kBlocks; ++block) {
            unsigned head[8], rest[8];
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const float4 f = v[turn][block][q];
                split(f.x * scale.factor, f.y * scale.factor, head[q], rest[q]);
                split(f.z * scale.factor, f.w * scale.factor, head[q + 4], rest[q + 4]);
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                char* to = image + block * kOut * 128 + chunk_bytes(place(column), quarter * 2 + h);
                *reinterpret_cast<uint4*>(to) = {head[h * 4], head[h * 4 + 1], head[h * 4 + 2], head[h * 4 + 3]};
                *reinterpret_cast<uint4*>(to + S::kHalfBytes) = {rest[h * 4], rest[h * 4 + 1], rest[h * 4 + 2],
                                                                 rest[h * 4 + 3]};
            }
        }
    }
    if (threadIdx.x < kOut) biases[threadIdx.x] = bias;
}

// A thread's share of 64 rows: of two, eight apart, every fourth group of four terms.
template <int kSteps>
using Share = float4[2][kSteps];

__device__ int own_row() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }

template <int kSteps>
__device__ void load_share(Share<kSteps>& v, const float* tile) {
    const float4* from = reinterpret_cast<const float4*>(tile) + own_row() * kSteps * 4 + threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) v[i / kSteps][i % kSteps] = from[i / kSteps * 8 * kSteps * 4 + i % kSteps * 4];
}

template <int kSteps>
__device__ void find_scales(const Share<kSteps>& v, Scale (&scales)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float top = 0;
#pragma unroll
        for (int s = 0; s < kSteps; ++s) top = largest(top, v[r][s]);
        scales[r] = scale_of(top);
    }
}

template <int kSteps>
__device__ void cut_step(const Share<kSteps>& v, const Scale (&scales)[2], int s, unsigned (&head)[4],
                         unsigned (&rest)[4]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        split(v[r][s].x * scales[r].factor, v[r][s].y * scales[r].factor, head[r], rest[r]);
        split(v[r][s].z * scales[r].factor, v[r][s].w * scales[r].factor, head[r + 2], rest[r + 2]);
    }
}

// sums = x W^T. Cuts x step by step, each just before its products.
template <int kIn, int kOut>
__device__ void multiply_share(float (&sums)[kOut / 2], const Share<kIn / 16>& v, const Scale (&scales)[2],
                               unsigned weights) {
    constexpr int kSteps = kIn / 16;
    unsigned head[kSteps][4], rest[kSteps][4];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        const unsigned at = weights + s / 4 * kOut * 128 + s % 4 * 32;
        cut_step<kSteps>(v, scales, s, head[s], rest[s]);
        begin_products();
        multiply_async(sums, rest[s], descriptor(at), s > 0);
        multiply_async(sums, head[s], descriptor(at + Shape<kIn, kOut>::kHalfBytes), true);
        multiply_async(sums, head[s], descriptor(at), true);
    }
    end_products(sums);
}

// Takes the scales back, adds the bias, writes to a tile of kOut columns.
template <int kOut>
__device__ void finish(const float (&sums)[kOut / 2], const Scale (&scales)[2], const float* inverses,
                       const float* biases, float* tile) {
#pragma unroll
    for (int i = 0; i < kOut / 16; ++i) {
        const int column = i * 16 + threadIdx.x % 4 * 4;
        const float4 f = *reinterpret_cast<const float4*>(inverses + column);
        const float4 b = *reinterpret_cast<const float4*>(biases + column);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float back = scales[r].inverse, *sum = sums + i * 8 + r * 2;
            *reinterpret_cast<float4*>(tile + (own_row() + r * 8) * kOut + column) = {
                sum[0] * (f.x * back) + b.x, sum[1] * (f.y * back) + b.y, sum[4] * (f.z * back) + b.z,
                sum[5] * (f.w * back) + b.w};
        }
    }
}

// Block b has the tiles b, b + blocks, ...; its teams take them by turns. Tile `turn` lies in stage turn % kStages,
// which is always the same team's.
template <int kIn, int kOut>
__global__ void __launch_bounds__(kThreads, 1) multiply(const Layer p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using S = Shape<kIn, kOut>;
    extern __shared__ char raw[];
    __shared__ __align__(16) float inverses[kOut], biases[kOut];
    __shared__ __align__(8) uint64_t barriers[kStages];
    char* const image = raw + (1024 - shared_address(raw) % 1024) % 1024;
    const int team = threadIdx.x / kTeam, mine = (p.rows / kRows - 1 - int(blockIdx.x)) / int(gridDim.x) + 1;  // tiles
    const auto tile_of = [&](int turn) { return int64_t(blockIdx.x + turn * gridDim.x); };
    const auto stage_of = [&](int turn) { return image + 2 * S::kHalfBytes + turn % kStages * S::kTileBytes; };
    const auto fetch = [&](int turn) {
        const unsigned barrier = shared_address(barriers + turn % kStages);
        expect(barrier, S::kTileBytes);
        copy_in(shared_address(stage_of(turn)), p.x + tile_of(turn) * kRows * kIn, S::kTileBytes, barrier);
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; ++i) begin_barrier(shared_address(barriers + i));
        show_barriers();
        for (int turn = 0; turn < min(kStages, mine); ++turn) fetch(turn);
    }
    cut_weights<kIn, kOut>(p, image, inverses, biases);
    show_writes();
    __syncthreads();
    for (int turn = team; turn < mine; turn += kTeams) {
        wait_for(shared_address(barriers + turn % kStages), turn / kStages & 1);
        Share<S::kSteps> v;
        load_share<S::kSteps>(v, reinterpret_cast<const float*>(stage_of(turn)));
        Scale scales[2];
        float sums[kOut / 2];
        find_scales<S::kSteps>(v, scales);
        multiply_share<kIn, kOut>(sums, v, scales, shared_address(image));
        if (turn + kStages < mine) {
            meet(team, kTeam);  // everybody has read the stage
            if (threadIdx.x % kTeam == 0) fetch(turn + kStages);
        }
        finish<kOut>(sums, scales, inverses, biases, p.y + tile_of(turn) * kRows * kOut);
    }
#endif
}

// ---- host -----------------------------------------------------------------------------------------------------------

int device_attribute(cudaDeviceAttr attribute) {
    int device, value;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
    return value;
}

template <int kIn, int kOut>
void launch(const Layer& p) {
    const auto kernel = multiply<kIn, kOut>;
    constexpr int kSharedBytes = Shape<kIn, kOut>::kSharedBytes;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    const int blocks = std::min(p.rows / kRows, device_attribute(cudaDevAttrMultiProcessorCount));
    kernel<<<blocks, kThreads, kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

bool is_aligned(const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Whether this way could be taken, and was.
bool launched(const Layer& p) {
    if (p.rows == 0 || p.rows % kRows != 0 || !is_aligned(p.x) || !is_aligned(p.w)) return false;
    if (device_attribute(cudaDevAttrComputeCapabilityMajor) != 9) return false;
    if (p.in == 128 && p.out == 128) launch<128, 128>(p);
    else if (p.in == 128 && p.out == 64) launch<128, 64>(p);
    else if (p.in == 64 && p.out == 128) launch<64, 128>(p);
    else if (p.in == 64 && p.out == 64) launch<64, 64>(p);
    else return false;
    return true;
}

}  // namespace halves

namespace floats {  // for all other shapes

constexpr int kThreads = 256, kRows = 64, kDepth = 32, kStages = 4;  // kRows of x per block
constexpr int kChunks = kDepth / 4;                                  // of 16 bytes in a row of a tile
constexpr int kRowsPerPass = kThreads / kChunks;                     // rows that the block copies at once

template <int bytes>
__device__ void copy_async(void* to, const void* from, bool inside) {
    const unsigned address = unsigned(__cvta_generic_to_shared(to));
    const int valid = inside ? bytes : 0;  // what is not valid becomes zero
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(bytes), "r"(valid)
                 : "memory");
}

__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int pending>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void cut(float v, unsigned& head, unsigned& rest) {
    head = __float_as_uint(v) & 0xffffe000u;
    rest = __float_as_uint(v - __uint_as_float(head));
}

__device__ int place(int row, int chunk) { return row * kChunks + (chunk ^ ((row & 1) << 2)); }

// Copies kCount rows of an operand, from row `first` of `rows` on, 32 terms of each.
template <int kCount, int kCopyBytes>
__device__ void fetch(float4* tile, const float* base, int first, int rows, int terms, int k) {
    const int chunk = threadIdx.x % kChunks, at = k + chunk * 4;
#pragma unroll
    for (int i = 0; i < kCount; i += kRowsPerPass) {
        const int row = threadIdx.x / kChunks + i;
        float4* to = tile + place(row, chunk);
        const float* from = base + int64_t(first + row) * terms + at;
        const bool row_inside = first + row < rows;
        if constexpr (kCopyBytes == 16) {
            const bool inside = row_inside && at < terms;
            copy_async<16>(to, inside ? from : base, inside);
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const bool inside = row_inside && at + j < terms;
                copy_async<4>(reinterpret_cast<float*>(to) + j, inside ? from + j : base, inside);
            }
        }
    }
}

// A warp computes 16 kHigh rows by 32 columns.
template <int kHigh>
using Sums = float[kHigh][4][4];  // [16 rows][8 columns][element of the thread]

// Adds the products of one stage, 32 terms.
template <int kHigh>
__device__ void accumulate(Sums<kHigh>& sums, const float4* a_tile, const float4* b_tile) {
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
    Sums<kHigh> part{};
#pragma unroll
    for (int half = 0; half < kChunks; half += 4) {
        float4 a[kHigh][2], b[4];
#pragma unroll
        for (int i = 0; i < kHigh; ++i) {
            a[i][0] = a_tile[place(i * 16 + group, half + quad)];
            a[i][1] = a_tile[place(i * 16 + group + 8, half + quad)];
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) b[j] = b_tile[place(j * 8 + group, half + quad)];
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            unsigned b_head[4][2], b_rest[4][2];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                cut(step == 0 ? b[j].x : b[j].z, b_head[j][0], b_rest[j][0]);
                cut(step == 0 ? b[j].y : b[j].w, b_head[j][1], b_rest[j][1]);
            }
#pragma unroll
            for (int i = 0; i < kHigh; ++i) {
                unsigned head[4], rest[4];
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    cut(step == 0 ? a[i][e].x : a[i][e].z, head[e], rest[e]);
                    cut(step == 0 ? a[i][e].y : a[i][e].w, head[e + 2], rest[e + 2]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_add(part[i][j], rest, b_head[j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_add(part[i][j], head, b_rest[j]);
#pragma unroll
                for (int j = 0; j < 4; ++j) multiply_add(part[i][j], head, b_head[j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kHigh * 16; ++i) sums[i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
}

template <int kHigh>
__device__ void store_sums(const Layer& p, const Sums<kHigh>& sums, int first_row, int first_column) {
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int column = first_column + j * 8 + quad * 2;
        const float2 bias{column < p.out ? __ldg(p.bias + column) : 0,
                          column + 1 < p.out ? __ldg(p.bias + column + 1) : 0};
#pragma unroll
        for (int i = 0; i < kHigh * 2; ++i) {
            const int row = first_row + i * 8 + group;
            if (row >= p.rows || column >= p.out) continue;
            const float2 v{sums[i / 2][j][i % 2 * 2] + bias.x, sums[i / 2][j][i % 2 * 2 + 1] + bias.y};
            float* to = p.y + int64_t(row) * p.out + column;
            if (p.out % 2 == 0) {
                *reinterpret_cast<float2*>(to) = v;
            } else {
                to[0] = v.x;
                if (column + 1 < p.out) to[1] = v.y;
            }
        }
    }
}

template <int kColumns>
constexpr int kStageChunks = (kRows + kColumns) * kChunks;

template <int kColumns, int kCopyBytes>
__global__ void __launch_bounds__(kThreads, 2) multiply(const Layer p) {
    constexpr int kWarpsAcross = kColumns / 32, kHigh = kRows / 16 * kWarpsAcross / 8;
    extern __shared__ float4 stages[];
    const int first_row = blockIdx.x * kRows, first_column = blockIdx.y * kColumns;
    const int tiles = (p.in + kDepth - 1) / kDepth, warp = threadIdx.x / 32;
    const auto fetch_tile = [&](int tile) {
        float4* stage = stages + tile % kStages * kStageChunks<kColumns>;
        if (tile < tiles) {
            fetch<kRows, kCopyBytes>(stage, p.x, first_row, p.rows, p.in, tile * kDepth);
            fetch<kColumns, kCopyBytes>(stage + kRows * kChunks, p.w, first_column, p.out, p.in, tile * kDepth);
        }
        commit_copies();
    };
    for (int tile = 0; tile < kStages - 1; ++tile) fetch_tile(tile);
    Sums<kHigh> sums{};
    const int warp_row = warp / kWarpsAcross * kHigh * 16, warp_column = warp % kWarpsAcross * 32;
    for (int tile = 0; tile < tiles; ++tile) {
        fetch_tile(tile + kStages - 1);
        wait_for_copies<kStages - 1>();
        __syncthreads();  // the tile is there
        const float4* stage = stages + tile % kStages * kStageChunks<kColumns>;
        accumulate<kHigh>(sums, stage + warp_row * kChunks, stage + (kRows + warp_column) * kChunks);
        if (tile + kStages < tiles) __syncthreads();  // its stage is filled again in the next round
    }
    store_sums<kHigh>(p, sums, first_row + warp_row, first_column + warp_column);
}

template <int kColumns>
void launch(const Layer& p) {
    constexpr int kSharedBytes = kStages * kStageChunks<kColumns> * int(sizeof(float4));
    const auto kernel = p.in % 4 == 0 ? multiply<kColumns, 16> : multiply<kColumns, 4>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    const dim3 grid((p.rows + kRows - 1) / kRows, (p.out + kColumns - 1) / kColumns);
    kernel<<<grid, kThreads, kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace floats
}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    weights = weights.contiguous();
    biases = biases.contiguous();
    const int out = int(weights.size(0)), in = int(weights.size(1)), rows = int(x.numel() / in);
    auto y = torch::empty({x.size(0), x.numel() / x.size(0) / in, out}, x.options());
    const Layer layer{x.const_data_ptr<float>(),
                      weights.const_data_ptr<float>(),
                      biases.const_data_ptr<float>(),
                      y.mutable_data_ptr<float>(),
                      rows,
                      out,
                      in};
    if (halves::launched(layer)) return y;
    if (out <= 64) {
        floats::launch<64>(layer);
    } else {
        floats::launch<128>(layer);
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
