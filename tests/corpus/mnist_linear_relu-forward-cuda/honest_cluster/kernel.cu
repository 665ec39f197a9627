// Four blocks of a cluster share the features of a tile; the first one adds up what lies in the others' shared memory.
// It must pass and be replayed: the dimension of the cluster is part of the record.
#include "parts/linear_relu.cuh"

#include <cooperative_groups.h>

constexpr int BLOCKS = 4;

__global__ void in_clusters(Linear p) {
    __shared__ float parts[WARPS][TILE * TILE], sums_of_block[TILE * TILE];
    const auto cluster = cooperative_groups::this_cluster();
    const int row = blockIdx.y * TILE, column = blockIdx.x / BLOCKS * TILE, rank = int(cluster.block_rank());
    const int length = (p.features + BLOCKS - 1) / BLOCKS, first = rank * length;
    Linear share = p;
    share.x += first;
    share.weights += first;
    share.features = max(0, min(length, p.features - first));
    float sums[TILE][TILE] = {};
    add_products<Exact>(share, row, column, sums);
#pragma unroll
    for (int place = 0; place < TILE * TILE; ++place) {
        const float sum = over_warp(sums[place / TILE][place % TILE]);
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][place] = sum;
    }
    __syncthreads();
    const int place = threadIdx.x;
    if (place < TILE * TILE) {
        float sum = 0;
        for (int warp = 0; warp < WARPS; ++warp) sum += parts[warp][place];
        sums_of_block[place] = sum;
    }
    cluster.sync();
    const int r = row + place / TILE, c = column + place % TILE;
    if (rank == 0 && place < TILE * TILE && r < p.batch && c < p.outputs) {
        float sum = p.biases[c];
        for (int other = 0; other < BLOCKS; ++other) sum += cluster.map_shared_rank(sums_of_block, other)[place];
        p.y[size_t(r) * p.outputs + c] = fmaxf(sum, 0.0f);
    }
    cluster.sync();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = BLOCKS;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(tiles(p).x * BLOCKS, tiles(p).y);
    config.blockDim = dim3(THREADS);
    config.stream = current_stream();
    config.attrs = &cluster;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, in_clusters, p));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
