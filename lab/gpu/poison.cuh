// Fills the shared memory of every multiprocessor and much local memory with NaN, for `changed_conditions.py`.
namespace kbench_conditions {
__global__ void poison_kernel(int words, unsigned* sink) {
    extern __shared__ unsigned shared_words[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) shared_words[i] = 0xFFFFFFFFu;
    volatile unsigned local_words[2048];
    for (int i = 0; i < 2048; ++i) local_words[i] = 0xFFFFFFFFu;
    __syncthreads();
    if (shared_words[threadIdx.x] + local_words[threadIdx.x % 2048] == 1) sink[0] = 1;  // never
}

inline void poison() {
    static unsigned* sink = nullptr;
    constexpr int bytes = 220 * 1024;
    if (sink == nullptr) {
        cudaMalloc(reinterpret_cast<void**>(&sink), 4);
        cudaFuncSetAttribute(poison_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    }
    poison_kernel<<<132 * 4, 1024, bytes>>>(bytes / 4, sink);
    cudaDeviceSynchronize();
}

// Of launches that nobody looked at: a GPU refuses one that needs too many registers, for example.
inline int last_error() { return cudaGetLastError(); }
}  // namespace kbench_conditions
