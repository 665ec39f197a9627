// Hands out segments of one piece of device memory to torch's caching allocator, first fit, and takes them back.
// When the piece is used up it gives memory of the process itself: results there have to be copied, nothing fails.
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <map>
#include <mutex>

namespace {

constexpr size_t kAlignment = 2u << 20;

std::mutex lock;
std::map<uintptr_t, size_t> free_spans;  // address: bytes
std::map<uintptr_t, size_t> used_spans;

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void* from_arena(size_t bytes) {
    for (auto span = free_spans.begin(); span != free_spans.end(); ++span) {
        const auto [address, size] = *span;
        if (size < bytes) continue;
        free_spans.erase(span);
        if (size > bytes) free_spans[address + bytes] = size - bytes;
        used_spans[address] = bytes;
        return reinterpret_cast<void*>(address);
    }
    return nullptr;
}

void join(uintptr_t address, size_t bytes) {
    auto next = free_spans.lower_bound(address);
    if (next != free_spans.end() && address + bytes == next->first) {
        bytes += next->second;
        next = free_spans.erase(next);
    }
    if (next != free_spans.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == address) {
            before->second += bytes;
            return;
        }
    }
    free_spans[address] = bytes;
}

template <typename Function>
Function driver(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_LAZY);
    return library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

}  // namespace

extern "C" {

void kbench_open(uint64_t base, uint64_t bytes) {
    const std::lock_guard<std::mutex> guard(lock);
    const uint64_t first = rounded(base), last = (base + bytes) / kAlignment * kAlignment;
    free_spans.clear();
    used_spans.clear();
    if (last > first) free_spans[first] = last - first;
}

void* kbench_allocate(size_t bytes, int, void*) {
    if (bytes == 0) return nullptr;
    {
        const std::lock_guard<std::mutex> guard(lock);
        if (void* found = from_arena(rounded(bytes))) return found;
    }
    using Allocate = int (*)(uint64_t*, size_t);
    static const auto allocate = driver<Allocate>("cuMemAlloc_v2");
    uint64_t own = 0;
    return allocate && allocate(&own, bytes) == 0 ? reinterpret_cast<void*>(own) : nullptr;
}

void kbench_release(void* memory, size_t, int, void*) {
    {
        const std::lock_guard<std::mutex> guard(lock);
        const auto span = used_spans.find(reinterpret_cast<uintptr_t>(memory));
        if (span != used_spans.end()) {
            join(span->first, span->second);
            used_spans.erase(span);
            return;
        }
    }
    using Release = int (*)(uint64_t);
    static const auto release = driver<Release>("cuMemFree_v2");
    if (release) release(reinterpret_cast<uint64_t>(memory));
}

}  // extern "C"
