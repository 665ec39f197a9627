// Linear layer at every position of a feature map: y = x W^T + b.
//
// Bound by memory on paper (17 MB at 64 images), by arithmetic in float32 units. So the products run on the tensor
// cores as 3xTF32: each float is cut into a TF32 head and a TF32 rest, and a b = head head + head rest + rest head,
// which is short of float32 by about 2^-21. Tensor cores round sums towards zero, so a sum in them covers 32 terms
// only; those are added up in float32 registers with rounding to nearest.
// Work:     one block of 8 warps computes 64 positions by 128 or 64 features; two blocks share a multiprocessor, so
//           that one loads or stores while the other multiplies. Tiles of 32 terms arrive by asynchronous copies, four
//           stages deep: up to 128 input features are all under way at the start. A row of a tile holds 8 chunks of 16
//           bytes, chunk c in place c ^ 4 (row % 2): then the 16-byte reads of the fragments hit every bank once. The
//           order of the terms does not matter, so a thread takes four neighbours as its terms of two instructions.
// Dispatch: tiles of 64 features where there are no more, otherwise of 128. Rows whose length is no multiple of 4 are
//           not aligned and are copied float by float.
// Limits:   float32, contiguous; subnormal rests are lost.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 256, kRows = 64, kDepth = 32, kStages = 4;  // kRows of x per block
constexpr int kChunks = kDepth / 4;                                  // of 16 bytes in a row of a tile
constexpr int kRowsPerPass = kThreads / kChunks;                     // rows that the block copies at once

struct Layer {  // y (rows, out) = x (rows, in) w (out, in)^T + bias
    const float *x, *w, *bias;
    float* y;
    int rows, out, in;
};

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
    if (out <= 64) {
        launch<64>(layer);
    } else {
        launch<128>(layer);
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
