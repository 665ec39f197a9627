// Backward of a linear layer: gx = gy W, gW = gy^T x, gb = sum of gy over the batch.
//
// Bound by launches and latency: a few million operations on a few hundred kilobytes. So all three results come from
// one launch without a workspace.
// Work:     a block computes a tile of 16 x 16 elements of gx or of gW; the first blocks belong to gW, whose sums run
//           over the batch. The terms arrive 128 at a time in shared memory, all loads of a thread before the first
//           store. Four groups of 64 threads share the terms of a tile, a thread sums 2 x 2 elements; the groups' sums
//           are added in shared memory at the end. The blocks of the first tile column of gW also sum gb.
// Dispatch: none; the tile is small so that small layers still give a block to every multiprocessor.
// Limits:   float32, contiguous; large layers are better served by a tensor-core kernel.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kTile = 16, kDepth = 128, kGroups = 4, kThreads = 256;
constexpr int kHalf = kTile / 2;
constexpr int kLoads = kTile * kDepth / kThreads;
using Terms = float[kDepth][kTile + 1];  // a column of padding: terms may be written down a column

struct Operand {  // element (i, k) is data[i * stride + k * k_stride]; one of the strides is 1
    const float* data;
    int count, stride, k_stride;
};

struct Product {  // c (m, n) = sum over k of a (m, k) b (n, k); column sums of a where there is a bias
    Operand a, b;
    float *c, *bias;
    int k;
};

// Neighbouring threads take neighbouring floats. (i, k) of the load-th element of this thread:
__device__ int2 element(const Operand& p, int load) {
    const int index = threadIdx.x + load * kThreads;
    return p.k_stride == 1 ? int2{index / kDepth, index % kDepth} : int2{index % kTile, index / kTile};
}

__device__ void load(float (&v)[kLoads], const Operand& p, int first, int k_first, int k_count) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const int2 at = element(p, i);
        const int row = first + at.x, k = k_first + at.y;
        v[i] = row < p.count && k < k_count ? __ldg(p.data + int64_t(row) * p.stride + int64_t(k) * p.k_stride) : 0.0f;
    }
}

__device__ void store(Terms& terms, const float (&v)[kLoads], const Operand& p) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const int2 at = element(p, i);
        terms[at.y][at.x] = v[i];
    }
}

struct Sums {
    float c[2][2]{}, bias[2]{};

    __device__ void add_terms(const Terms& a, const Terms& b, int group, int y, int x) {
#pragma unroll 8
        for (int k = group; k < kDepth; k += kGroups) {
            const float a0 = a[k][y], a1 = a[k][y + kHalf], b0 = b[k][x], b1 = b[k][x + kHalf];
            c[0][0] += a0 * b0, c[0][1] += a0 * b1, c[1][0] += a1 * b0, c[1][1] += a1 * b1;
            bias[0] += a0, bias[1] += a1;
        }
    }
};

// Writes element (row, column) = (y, x) of the tile, the sum over the groups.
__device__ void add_groups(const Product& p, const Sums& sums, Terms& scratch, int first_row, int first_column,
                           int group, int y, int x) {
    __syncthreads();  // the terms are used up
#pragma unroll
    for (int i = 0; i < 4; ++i) scratch[group * kTile + y + i / 2 * kHalf][x + i % 2 * kHalf] = sums.c[i / 2][i % 2];
    if (x < 2) scratch[group * kTile + y + x * kHalf][kTile] = x == 0 ? sums.bias[0] : sums.bias[1];
    __syncthreads();
    const int tile_row = threadIdx.x / kTile, row = first_row + tile_row, column = threadIdx.x % kTile;
    const auto total = [&](int at) {
        float sum = 0;
        for (int i = 0; i < kGroups; ++i) sum += scratch[i * kTile + tile_row][at];
        return sum;
    };
    if (row >= p.a.count) return;
    if (first_column + column < p.b.count) p.c[int64_t(row) * p.b.count + first_column + column] = total(column);
    if (p.bias != nullptr && first_column == 0 && column == 0) p.bias[row] = total(kTile);
}

struct Work {
    Product products[2];  // gW, gx
    int first_tiles;      // of gW
};

__global__ void __launch_bounds__(kThreads) multiply(const __grid_constant__ Work work) {
    __shared__ Terms a_terms;
    __shared__ Terms b_terms;
    const bool second = int(blockIdx.x) >= work.first_tiles;
    const Product& p = work.products[second];
    const int tile = blockIdx.x - (second ? work.first_tiles : 0), tile_columns = (p.b.count + kTile - 1) / kTile;
    const int first_row = tile / tile_columns * kTile, first_column = tile % tile_columns * kTile;
    const int group = threadIdx.x / 64, y = threadIdx.x % 64 / kHalf, x = threadIdx.x % kHalf;
    Sums sums;
    float a[kLoads], b[kLoads];
    load(a, p.a, first_row, 0, p.k);
    load(b, p.b, first_column, 0, p.k);
    for (int k = 0; k < p.k; k += kDepth) {
        __syncthreads();
        store(a_terms, a, p.a);
        store(b_terms, b, p.b);
        __syncthreads();
        if (k + kDepth < p.k) {
            load(a, p.a, first_row, k + kDepth, p.k);
            load(b, p.b, first_column, k + kDepth, p.k);
        }
        sums.add_terms(a_terms, b_terms, group, y, x);
    }
    add_groups(p, sums, a_terms, first_row, first_column, group, y, x);
}

int tiles(const Product& p) { return ((p.a.count + kTile - 1) / kTile) * ((p.b.count + kTile - 1) / kTile); }

}  // namespace

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                                                 torch::Tensor weights) {
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    weights = weights.contiguous();
    const int out = int(weights.size(0)), in = int(weights.size(1)), batch = int(x.numel() / in);
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weights = torch::empty(weights.sizes(), x.options());
    auto grad_biases = torch::empty({out}, x.options());
    const float *gy = grad_output.const_data_ptr<float>(), *px = x.const_data_ptr<float>(),
                *pw = weights.const_data_ptr<float>();
    const Product for_weights{{gy, out, 1, out},
                              {px, in, 1, in},
                              grad_weights.mutable_data_ptr<float>(),
                              grad_biases.mutable_data_ptr<float>(),
                              batch};
    const Product for_x{{gy, batch, out, 1}, {pw, in, 1, in}, grad_x.mutable_data_ptr<float>(), nullptr, out};
    const Work work{{for_weights, for_x}, tiles(for_weights)};
    multiply<<<work.first_tiles + tiles(for_x), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(work);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
