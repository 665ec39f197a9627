// The functions that -fsanitize=thread makes compiled code call, and the C functions that touch memory in bulk.
#include <cstring>

#include "state.h"

namespace kbench {
void hook(const void* place, size_t bytes, size_t alignment, Access access, const void* from);
void check_alignment(uintptr_t place, size_t alignment, uintptr_t from);
}

#define HERE __builtin_return_address(0)
#define WATCH(place, bytes, alignment, access) \
    if (kbench::state.fiber != nullptr) kbench::hook(place, bytes, alignment, kbench::access, HERE)

#define SIZED(bytes)                                                                           \
    void __tsan_read##bytes(void* p) { WATCH(p, bytes, bytes, kRead); }                        \
    void __tsan_write##bytes(void* p) { WATCH(p, bytes, bytes, kWrite); }                      \
    void __tsan_unaligned_read##bytes(void* p) { WATCH(p, bytes, 1, kRead); }                  \
    void __tsan_unaligned_write##bytes(void* p) { WATCH(p, bytes, 1, kWrite); }                \
    void __tsan_volatile_write##bytes(void* p) {                                               \
        if (kbench::state.fiber == nullptr) return;                                            \
        kbench::others_first();                                                                \
        kbench::hook(p, bytes, bytes, kbench::kAtomic, HERE);                                  \
        kbench::published(), kbench::meet_at(p);                                               \
    }                                                                                          \
    void __tsan_volatile_read##bytes(void* p) {                                                \
        if (kbench::state.fiber == nullptr) return;                                            \
        kbench::others_first();                                                                \
        kbench::hook(p, bytes, bytes, kbench::kAtomic, HERE);                                  \
        uint64_t value = 0;                                                                    \
        std::memcpy(&value, p, bytes < 8 ? bytes : 8);                                         \
        kbench::acquired(), kbench::meet_at(p);                                                \
        kbench::polled(p, value);                                                              \
    }                                                                                          \
    void __tsan_unaligned_volatile_read##bytes(void* p) { WATCH(p, bytes, 1, kAtomic); }       \
    void __tsan_unaligned_volatile_write##bytes(void* p) { WATCH(p, bytes, 1, kAtomic); }

#define ATOMIC(bits, T)                                                                                       \
    T __tsan_atomic##bits##_load(const T* p, int) {                                                           \
        WATCH(p, sizeof(T), sizeof(T), kAtomic);                                                              \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                          \
    }                                                                                                         \
    void __tsan_atomic##bits##_store(T* p, T v, int) {                                                        \
        WATCH(p, sizeof(T), sizeof(T), kAtomic);                                                              \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                         \
    CHANGE(bits, T, exchange, __atomic_exchange_n)                                                            \
    CHANGE(bits, T, fetch_add, __atomic_fetch_add)                                                            \
    CHANGE(bits, T, fetch_sub, __atomic_fetch_sub)                                                            \
    CHANGE(bits, T, fetch_and, __atomic_fetch_and)                                                            \
    CHANGE(bits, T, fetch_or, __atomic_fetch_or)                                                              \
    CHANGE(bits, T, fetch_xor, __atomic_fetch_xor)                                                            \
    CHANGE(bits, T, fetch_nand, __atomic_fetch_nand)                                                          \
    int __tsan_atomic##bits##_compare_exchange_strong(T* p, T* e, T v, int, int) {                            \
        WATCH(p, sizeof(T), sizeof(T), kAtomic);                                                              \
        return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
    }                                                                                                         \
    int __tsan_atomic##bits##_compare_exchange_weak(T* p, T* e, T v, int a, int b) {                          \
        return __tsan_atomic##bits##_compare_exchange_strong(p, e, v, a, b);                                  \
    }                                                                                                         \
    T __tsan_atomic##bits##_compare_exchange_val(T* p, T e, T v, int, int) {                                  \
        WATCH(p, sizeof(T), sizeof(T), kAtomic);                                                              \
        __atomic_compare_exchange_n(p, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
        return e;                                                                                             \
    }

#define CHANGE(bits, T, name, does)                       \
    T __tsan_atomic##bits##_##name(T* p, T v, int) {      \
        WATCH(p, sizeof(T), sizeof(T), kAtomic);          \
        return does(p, v, __ATOMIC_SEQ_CST);              \
    }

extern "C" {

SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_read_range(void* p, size_t bytes) { if (bytes) WATCH(p, bytes, 1, kRead); }
void __tsan_write_range(void* p, size_t bytes) { if (bytes) WATCH(p, bytes, 1, kWrite); }

// -fsanitize=alignment: optimisation may split an access, so the hooks above do not see all that is misaligned.
struct Mismatch {
    const char* file;
    uint32_t line, column;
    const void* type;
    unsigned char log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(Mismatch* data, uintptr_t place) {
    if (kbench::state.fiber != nullptr) kbench::check_alignment(place, size_t(1) << data->log_alignment, uintptr_t(HERE));
}

void* kb_memcpy(void* to, const void* from, size_t bytes) {
    if (kbench::state.fiber != nullptr && bytes > 0) {
        kbench::hook(from, bytes, 1, kbench::kRead, HERE);
        kbench::hook(to, bytes, 1, kbench::kWrite, HERE);
    }
    return std::memmove(to, from, bytes);
}

void* kb_memset(void* to, int value, size_t bytes) {
    if (kbench::state.fiber != nullptr && bytes > 0) kbench::hook(to, bytes, 1, kbench::kWrite, HERE);
    return std::memset(to, value, bytes);
}

}  // extern "C"
