// The clock of the whole GPU, in nanoseconds.
#include <cstdint>

__device__ inline uint64_t now_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
