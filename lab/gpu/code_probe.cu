// Kernels of code_probe.py: one learns where its own code lies, others look for code near it and replace it.
typedef unsigned long long u64;

__device__ __forceinline__ u64 now_ns() {
    u64 ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

// The host replaces the instruction that reads the clock by LEPC, which gives the address of what follows.
extern "C" __global__ void place(u64 *result) {
    u64 at;
    asm volatile("mov.u64 %0, %clock64;" : "=l"(at));
    *result = at;
}

// Where three instructions with these first words follow each other; `found` counts, then the last place.
extern "C" __global__ void find(u64 start, u64 size_bytes, u64 first, u64 second, u64 third, u64 *found) {
    const u64 count = size_bytes / 16, stride = gridDim.x * blockDim.x;
    for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i + 2 < count; i += stride) {
        const volatile u64 *words = reinterpret_cast<const volatile u64 *>(start) + 2 * i;
        if (words[0] == first && words[2] == second && words[4] == third) {
            atomicAdd(found, 1);
            found[1] = start + 16 * i;
        }
    }
}

extern "C" __global__ void change(u64 at, const u64 *words, u64 count) {
    for (u64 i = 0; i < count; ++i) reinterpret_cast<volatile u64 *>(at)[i] = words[i];
    __threadfence_system();
}

#define FOUR(x) x x x x
#define SIXTY_FOUR(x) FOUR(FOUR(FOUR(x)))

// 256 KB of instructions, so that no cache holds those of another kernel afterwards.
extern "C" __global__ void lengthy(float *result, float x) {
    SIXTY_FOUR(SIXTY_FOUR(FOUR(asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x));)))
    if (x == 12345.f) *result = x;
}

extern "C" __global__ void spin(u64 ns) {
    const u64 start = now_ns();
    while (now_ns() - start < ns) {}
}
