// Kernels of queue_probe.py: whether device code can find and change the parameters of a launch that is queued behind it.
using word = unsigned long long;

extern "C" __device__ word anchor = 1;  // where the driver puts a module's memory

// Returns when the host has written a value, or after ten seconds.
extern "C" __global__ void gate(volatile int* flag) {
    const long long start = clock64();
    while (*flag == 0 && clock64() - start < 20'000'000'000LL) __nanosleep(1000);
}

// request: first address, bytes, the value turned over, the new value or 0. found[0] counts, addresses follow.
extern "C" __global__ void look(volatile word* request, word* found) {
    const word value = ~request[2], changed = request[3];
    for (word at = request[0] + 4 * threadIdx.x; at + 8 <= request[0] + request[1]; at += 4 * blockDim.x) {
        volatile unsigned* halves = reinterpret_cast<volatile unsigned*>(at);
        if ((word(halves[1]) << 32 | halves[0]) != value) continue;
        const word place = atomicAdd(found, 1ULL) + 1;
        if (place < 64) found[place] = at;
        if (changed != 0) {
            halves[0] = unsigned(changed);
            halves[1] = unsigned(changed >> 32);
        }
    }
    __threadfence_system();
}

extern "C" __global__ void marked(word value, word* result) { *result = value; }
