// Gated feed-forward layer: y = (silu(x G^T) * (x U^T)) D^T.
//
// Bound by arithmetic: 90 billion operations at 256 tokens. The float32 units of an H200 are slower than its tensor
// cores even at three products for one, so this is 3xTF32: each float is cut into a TF32 head and a TF32 rest, and a b
// = head head + head rest + rest head, which is short of float32 by about 2^-21. Tensor cores round sums towards zero,
// so a sum in them covers 32 terms only; those are added up in float32 registers with rounding to nearest.
// Work:     one block of 8 warps computes 128 x 128 results, a warp 64 x 32. Tiles of 32 terms arrive by asynchronous
//           copies, four stages deep. A row of a tile holds 8 chunks of 16 bytes, chunk c in place c ^ 4 (row % 2):
//           then the 16-byte reads of the fragments hit every bank once. The order of the terms does not matter, so a
//           thread takes four neighbours as its terms of two instructions. In the first product the rows of G and U
//           alternate in groups of 8, so that a thread holds gate and up of the same result and writes silu(gate) * up.
// Dispatch: up to 8 tokens: one warp per result column reads the weights once. Otherwise as many tiles as fill whole
//           rounds of the multiprocessors are computed by one block each; the terms of the tiles that are left are
//           split between blocks, so that they take less than a round, and a last kernel adds their parts in a fixed
//           order. Rows whose length is no multiple of 4 are not aligned and are copied float by float.
// Limits:   float32, contiguous; subnormal rests are lost.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 256, kTile = 128, kDepth = 32, kStages = 4;
constexpr int kChunks = kDepth / 4;               // of 16 bytes in a row of a tile
constexpr int kTileChunks = kTile * kChunks;      // in a tile
constexpr int kRowsPerPass = kThreads / kChunks;  // rows that the block copies at once
constexpr int kPasses = kTile / kRowsPerPass;
constexpr int kSharedBytes = kStages * 2 * kTileChunks * 16;
constexpr int kMaxFewRows = 8;

struct Product {  // c (m, n) = a (m, k) b (n, k)^T, or silu(a b^T) * (a up^T) where there is an up
    const float *a, *b, *up;
    float* c;
    int m, n, k, k_per_split;
    int row_tiles, first_tile;  // tiles of c are numbered down its columns
    float4* parts;              // the sums of every split, tile and thread, where there are several splits
};

__device__ float silu(float v) { return v / (1.0f + __expf(-v)); }

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

// The rows of an operand that a thread copies: every kRowsPerPass-th row of the tile, always the same chunk.
struct Source {
    const float* first;
    int64_t step;
    int rows, rows_per_step;  // rows of the operand from the first on

    template <int kCopyBytes>
    __device__ void fetch(float4* tile, int k, int k_end) const {
        const int chunk = threadIdx.x % kChunks, at = k + chunk * 4;
#pragma unroll
        for (int i = 0; i < kPasses; ++i) {
            const bool row_inside = i * rows_per_step < rows;
            float4* to = tile + place(threadIdx.x / kChunks + i * kRowsPerPass, chunk);
            const float* from = row_inside ? first + i * step : first;
            if constexpr (kCopyBytes == 16) {
                const bool inside = row_inside && at < k_end;
                copy_async<16>(to, inside ? from + at : first, inside);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const bool inside = row_inside && at + j < k_end;
                    copy_async<4>(reinterpret_cast<float*>(to) + j, inside ? from + at + j : first, inside);
                }
            }
        }
    }
};

__device__ Source source(const float* base, int row, int rows, int k, int rows_per_step) {
    return {base + int64_t(min(row, rows - 1)) * k, int64_t(rows_per_step) * k, rows - row, rows_per_step};
}

template <bool kGated>
__device__ Source source_b(const Product& p, int tile_column) {
    const int row = threadIdx.x / kChunks;
    if (!kGated) return source(p.b, tile_column * kTile + row, p.n, p.k, kRowsPerPass);
    const int column = tile_column * (kTile / 2) + row / 16 * 8 + row % 8;
    return source(row % 16 < 8 ? p.b : p.up, column, p.n, p.k, kRowsPerPass / 2);
}

using Sums = float[4][4][4];  // [16 rows][8 columns][element of the thread]

// Adds the products of one stage: 64 rows of a, 32 rows of b, 32 terms.
__device__ void accumulate(Sums& sums, const float4* a_tile, const float4* b_tile) {
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
    Sums part{};
#pragma unroll
    for (int half = 0; half < kChunks; half += 4) {
        float4 a[4][2], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a[i][0] = a_tile[place(i * 16 + group, half + quad)];
            a[i][1] = a_tile[place(i * 16 + group + 8, half + quad)];
            b[i] = b_tile[place(i * 8 + group, half + quad)];
        }
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            unsigned b_head[4][2], b_rest[4][2];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                cut(step == 0 ? b[j].x : b[j].z, b_head[j][0], b_rest[j][0]);
                cut(step == 0 ? b[j].y : b[j].w, b_head[j][1], b_rest[j][1]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
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
    for (int i = 0; i < 64; ++i) sums[i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
}

__device__ void store(const Product& p, int row, int column, float value) {
    if (row < p.m && column < p.n) p.c[int64_t(row) * p.n + column] = value;
}

__device__ int first_row_of_warp() { return threadIdx.x / 128 * 64; }
__device__ int first_column_of_warp() { return threadIdx.x / 32 % 4 * 32; }

template <bool kGated>
__device__ void store_sums(const Product& p, const Sums& sums, int tile) {
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
    const int first_row = tile % p.row_tiles * kTile + first_row_of_warp();
    const int first_column = (tile / p.row_tiles * kTile + first_column_of_warp()) / (kGated ? 2 : 1);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int row = first_row + i * 16 + group + e / 2 * 8, column = first_column + quad * 2 + e % 2;
#pragma unroll
            for (int j = 0; j < 4; j += kGated ? 2 : 1) {
                const float value = kGated ? silu(sums[i][j][e]) * sums[i][kGated ? j + 1 : j][e] : sums[i][j][e];
                store(p, row, column + j * (kGated ? 4 : 8), value);
            }
        }
}

// The sums of a thread in a part: 16 packs, those of neighbouring threads beside each other.
__device__ float4* own_part(const Product& p, int split, int tile, int tiles) {
    return p.parts + (int64_t(split) * tiles + tile) * 16 * kThreads + threadIdx.x;
}

template <bool kGated, int kCopyBytes>
__global__ void __launch_bounds__(kThreads, 1) multiply(const Product p) {
    extern __shared__ float4 stages[];
    const int k_begin = blockIdx.y * p.k_per_split, k_end = min(p.k, k_begin + p.k_per_split);
    const int steps = (k_end - k_begin + kDepth - 1) / kDepth, tile = p.first_tile + blockIdx.x;
    const int row = tile % p.row_tiles * kTile + threadIdx.x / kChunks;
    const Source a = source(p.a, row, p.m, p.k, kRowsPerPass), b = source_b<kGated>(p, tile / p.row_tiles);
    const auto fetch = [&](int step) {
        float4* stage = stages + step % kStages * 2 * kTileChunks;
        if (step < steps) {
            a.template fetch<kCopyBytes>(stage, k_begin + step * kDepth, k_end);
            b.template fetch<kCopyBytes>(stage + kTileChunks, k_begin + step * kDepth, k_end);
        }
        commit_copies();
    };
    for (int step = 0; step < kStages - 1; ++step) fetch(step);
    Sums sums{};
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();  // the stage is there, and everybody is done with the one before, which is filled now
        fetch(step + kStages - 1);
        const float4* stage = stages + step % kStages * 2 * kTileChunks;
        accumulate(sums, stage + first_row_of_warp() * kChunks, stage + kTileChunks + first_column_of_warp() * kChunks);
    }
    if (p.parts == nullptr) return store_sums<kGated>(p, sums, tile);
    float4* part = own_part(p, blockIdx.y, blockIdx.x, gridDim.x);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const float (&v)[4] = sums[i / 4][i % 4];
        part[i * kThreads] = {v[0], v[1], v[2], v[3]};
    }
}

// One block per tile, its threads as in multiply.
template <bool kGated>
__global__ void __launch_bounds__(kThreads) add_parts(const Product p, int splits) {
    Sums sums{};
    for (int split = 0; split < splits; ++split) {
        const float4* part = own_part(p, split, blockIdx.x, gridDim.x);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float4 v = __ldcs(part + i * kThreads);
            float (&sum)[4] = sums[i / 4][i % 4];
            sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        }
    }
    store_sums<kGated>(p, sums, p.first_tile + blockIdx.x);
}

// One warp per column of the result.
template <bool kGated>
__global__ void __launch_bounds__(kThreads) multiply_few_rows(const Product p) {
    const int column = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (column >= p.n) return;
    const float *b = p.b + int64_t(column) * p.k, *up = kGated ? p.up + int64_t(column) * p.k : nullptr;
    float sums[kMaxFewRows]{}, up_sums[kMaxFewRows]{};
#pragma unroll(kGated ? 4 : 2)
    for (int k = lane; k < p.k; k += 32) {
        const float weight = __ldcs(b + k), up_weight = kGated ? __ldcs(up + k) : 0;
#pragma unroll
        for (int row = 0; row < kMaxFewRows; ++row) {
            const float v = row < p.m ? __ldg(p.a + int64_t(row) * p.k + k) : 0;
            sums[row] += v * weight;
            if (kGated) up_sums[row] += v * up_weight;
        }
    }
    for (int row = 0; row < kMaxFewRows; ++row)
        for (int offset = 16; offset > 0; offset /= 2) {
            sums[row] += __shfl_xor_sync(0xffffffff, sums[row], offset);
            up_sums[row] += __shfl_xor_sync(0xffffffff, up_sums[row], offset);
        }
    if (lane != 0) return;
    for (int row = 0; row < kMaxFewRows; ++row)
        if (row < p.m) p.c[int64_t(row) * p.n + column] = kGated ? silu(sums[row]) * up_sums[row] : sums[row];
}

int multiprocessor_count() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// The number of splits for which the blocks fill whole rounds of the multiprocessors best.
int best_splits(int tiles, int k) {
    const int multiprocessors = multiprocessor_count();
    const auto cost = [&](int splits) { return float(ceil_div(tiles * splits, multiprocessors)) / float(splits); };
    int best = 1;
    for (int splits = 2; splits <= std::min(16, k / 256); ++splits)
        if (cost(splits) < 0.9f * cost(best)) best = splits;
    return best;
}

template <bool kGated>
void launch_tiles(Product p, int first_tile, int tiles, int splits, float* parts) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const auto kernel = p.k % 4 == 0 ? multiply<kGated, 16> : multiply<kGated, 4>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    p.first_tile = first_tile;
    p.k_per_split = ceil_div(ceil_div(p.k, splits), kDepth) * kDepth;
    p.parts = splits > 1 ? reinterpret_cast<float4*>(parts) : nullptr;
    kernel<<<dim3(tiles, splits), kThreads, kSharedBytes, stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (splits == 1) return;
    add_parts<kGated><<<tiles, kThreads, 0, stream>>>(p, splits);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <bool kGated>
void run(Product p, const torch::TensorOptions& options) {
    if (p.m <= kMaxFewRows) {
        multiply_few_rows<kGated><<<ceil_div(p.n, kThreads / 32), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(p);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        return;
    }
    p.row_tiles = ceil_div(p.m, kTile);
    const int tiles = p.row_tiles * ceil_div(p.n, kGated ? kTile / 2 : kTile);
    const int left = tiles % multiprocessor_count(), splits = best_splits(left, p.k);
    auto parts = torch::empty({splits == 1 ? 0 : int64_t(splits) * left * kTile * kTile}, options);
    if (splits == 1) return launch_tiles<kGated>(p, 0, tiles, 1, nullptr);
    if (tiles > left) launch_tiles<kGated>(p, 0, tiles - left, 1, nullptr);
    launch_tiles<kGated>(p, tiles - left, left, splits, parts.mutable_data_ptr<float>());
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_proj, torch::Tensor up_proj, torch::Tensor down_proj) {
    x = x.contiguous();
    gate_proj = gate_proj.contiguous();
    up_proj = up_proj.contiguous();
    down_proj = down_proj.contiguous();
    const int features = int(gate_proj.size(1)), up_features = int(gate_proj.size(0)),
              tokens = int(x.numel() / features);
    auto hidden = torch::empty({tokens, up_features}, x.options());
    auto y = torch::empty(x.sizes(), x.options());
    Product product{x.const_data_ptr<float>(),
                    gate_proj.const_data_ptr<float>(),
                    up_proj.const_data_ptr<float>(),
                    hidden.mutable_data_ptr<float>(),
                    tokens,
                    up_features,
                    features};
    run<true>(product, x.options());
    product = {product.c,  down_proj.const_data_ptr<float>(), nullptr, y.mutable_data_ptr<float>(), tokens, features,
               up_features};
    run<false>(product, x.options());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
