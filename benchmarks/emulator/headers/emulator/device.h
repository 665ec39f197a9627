// The functions of CUDA C++ that kernels call: barriers, warp functions, atomics, arithmetic.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "half.h"
#include "types.h"

#define KB_LINE int kb_line = __builtin_LINE()
#define KB_DEVICE inline __attribute__((always_inline))

namespace kbench {

void raw_copy(void* to, const void* from, size_t bytes);  // not watched
void atomic_done(const void* place, uint64_t before, uint64_t after);

template <class T>
uint64_t bits_of(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T>
T from_bits(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

struct Exchanged {
    uint64_t in, out;
    int from;
};
inline void exchange(void** brought, unsigned mask) {
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        auto* mine = static_cast<Exchanged*>(brought[lane]);
        const bool there = mask >> mine->from & 1;
        mine->out = there ? static_cast<Exchanged*>(brought[mine->from])->in : uint64_t(poison()) << 32 | poison();
    }
}
template <class T>
T shuffle(unsigned mask, T value, int from, const char* what, int line) {
    Exchanged mine{bits_of(value), 0, from};
    collective(mask, what, &mine, exchange, line);
    return from_bits<T>(mine.out);
}

struct Voted {
    uint64_t in;
    unsigned yes, all, equal, joined, joined_and, joined_or, joined_xor, low, high;
    int sum, least, most;
};
inline void vote(void** brought, unsigned mask) {
    Voted total{};
    total.joined_and = ~0u, total.low = ~0u, total.least = 0x7fffffff, total.most = int(0x80000000);
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const auto in = static_cast<Voted*>(brought[lane])->in;
        const auto word = unsigned(in);
        total.yes |= in != 0 ? 1u << lane : 0;
        total.joined_and &= word, total.joined_or |= word, total.joined_xor ^= word;
        total.low = std::min(total.low, word), total.high = std::max(total.high, word);
        total.sum += int(word), total.least = std::min(total.least, int(word)), total.most = std::max(total.most, int(word));
    }
    total.joined = mask;
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        auto* mine = static_cast<Voted*>(brought[lane]);
        total.in = mine->in, total.equal = 0;
        for (int other = 0; other < 32; ++other)
            if ((mask >> other & 1) && static_cast<Voted*>(brought[other])->in == mine->in) total.equal |= 1u << other;
        const uint64_t in = mine->in;
        *mine = total;
        mine->in = in;
    }
}
inline Voted voted(unsigned mask, uint64_t in, const char* what, int line) {
    Voted mine{};
    mine.in = in;
    collective(mask, what, &mine, vote, line);
    return mine;
}

template <class T, class F>
KB_DEVICE T change(T* place, F f, Access access = kAtomic) {
    others_first();
    touch(place, sizeof(T), access, sizeof(T));
    T before, after;
    raw_copy(&before, place, sizeof(T));
    after = f(before);
    raw_copy(place, &after, sizeof(T));
    if constexpr (sizeof(T) <= 8) atomic_done(place, bits_of(before), bits_of(after));
    return before;
}

}  // namespace kbench

// ---- barriers ----------------------------------------------------------------------------------------------------------

inline void __syncthreads(KB_LINE) { kbench::block_barrier(0, 0, 0, 0, kb_line); }
inline int __syncthreads_count(int p, KB_LINE) { return kbench::block_barrier(0, 0, 1, p, kb_line); }
inline int __syncthreads_and(int p, KB_LINE) { return kbench::block_barrier(0, 0, 2, p, kb_line); }
inline int __syncthreads_or(int p, KB_LINE) { return kbench::block_barrier(0, 0, 3, p, kb_line); }
inline void __syncwarp(unsigned mask = 0xffffffff, KB_LINE) { kbench::collective(mask, "__syncwarp", nullptr, nullptr, kb_line); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
inline void __trap() { kbench::fail("trap", "the kernel calls __trap"); }
inline void __brkpt() { kbench::fail("trap", "the kernel calls __brkpt"); }

// ---- warps -------------------------------------------------------------------------------------------------------------

template <class T>
T __shfl_sync(unsigned mask, T v, int from, int width = 32, KB_LINE) {
    const int lane = int(kbench::lane()), base = lane & ~(width - 1);
    return kbench::shuffle(mask, v, base + (from & (width - 1)), "__shfl_sync", kb_line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, KB_LINE) {
    const int lane = int(kbench::lane()), base = lane & ~(width - 1), from = lane - int(delta);
    return kbench::shuffle(mask, v, from < base ? lane : from, "__shfl_up_sync", kb_line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, KB_LINE) {
    const int lane = int(kbench::lane()), end = (lane & ~(width - 1)) + width, from = lane + int(delta);
    return kbench::shuffle(mask, v, from >= end ? lane : from, "__shfl_down_sync", kb_line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, KB_LINE) {
    const int lane = int(kbench::lane()), end = (lane & ~(width - 1)) + width, from = lane ^ bits;
    return kbench::shuffle(mask, v, from >= end ? lane : from, "__shfl_xor_sync", kb_line);
}
inline unsigned __ballot_sync(unsigned mask, int p, KB_LINE) { return kbench::voted(mask, p != 0, "__ballot_sync", kb_line).yes; }
inline int __any_sync(unsigned mask, int p, KB_LINE) { return kbench::voted(mask, p != 0, "__any_sync", kb_line).yes != 0; }
inline int __all_sync(unsigned mask, int p, KB_LINE) {
    const auto all = kbench::voted(mask, p != 0, "__all_sync", kb_line);
    return all.yes == all.joined;
}
template <class T>
unsigned __match_all_sync(unsigned mask, T v, int* all, KB_LINE) {
    const unsigned equal = kbench::voted(mask, kbench::bits_of(v), "__match_all_sync", kb_line).equal;
    *all = equal == mask;
    return *all ? mask : 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T v, KB_LINE) { return kbench::voted(mask, kbench::bits_of(v), "__match_any_sync", kb_line).equal; }
inline unsigned __reduce_add_sync(unsigned m, unsigned v, KB_LINE) { return unsigned(kbench::voted(m, v, "__reduce_add_sync", kb_line).sum); }
inline int __reduce_add_sync(unsigned m, int v, KB_LINE) { return kbench::voted(m, unsigned(v), "__reduce_add_sync", kb_line).sum; }
inline unsigned __reduce_min_sync(unsigned m, unsigned v, KB_LINE) { return kbench::voted(m, v, "__reduce_min_sync", kb_line).low; }
inline int __reduce_min_sync(unsigned m, int v, KB_LINE) { return kbench::voted(m, unsigned(v), "__reduce_min_sync", kb_line).least; }
inline unsigned __reduce_max_sync(unsigned m, unsigned v, KB_LINE) { return kbench::voted(m, v, "__reduce_max_sync", kb_line).high; }
inline int __reduce_max_sync(unsigned m, int v, KB_LINE) { return kbench::voted(m, unsigned(v), "__reduce_max_sync", kb_line).most; }
inline unsigned __reduce_and_sync(unsigned m, unsigned v, KB_LINE) { return kbench::voted(m, v, "__reduce_and_sync", kb_line).joined_and; }
inline unsigned __reduce_or_sync(unsigned m, unsigned v, KB_LINE) { return kbench::voted(m, v, "__reduce_or_sync", kb_line).joined_or; }
inline unsigned __reduce_xor_sync(unsigned m, unsigned v, KB_LINE) { return kbench::voted(m, v, "__reduce_xor_sync", kb_line).joined_xor; }
inline unsigned __activemask() {
    kbench::used_active_mask();
    return kbench::live_lanes();
}

// ---- atomics -----------------------------------------------------------------------------------------------------------

#define KB_ATOMIC(name, expression)                                                            \
    template <class T>                                                                         \
    KB_DEVICE T name(T* place, std::type_identity_t<T> v) {                                    \
        return kbench::change(place, [=](T old) -> T { return T(expression); });               \
    }                                                                                          \
    template <class T>                                                                         \
    KB_DEVICE T name##_block(T* place, std::type_identity_t<T> v) { return name(place, v); }   \
    template <class T>                                                                         \
    KB_DEVICE T name##_system(T* place, std::type_identity_t<T> v) { return name(place, v); }
KB_ATOMIC(atomicAdd, old + v)
KB_ATOMIC(atomicSub, old - v)
KB_ATOMIC(atomicExch, v)
KB_ATOMIC(atomicMin, v < old ? v : old)
KB_ATOMIC(atomicMax, v > old ? v : old)
KB_ATOMIC(atomicAnd, old& v)
KB_ATOMIC(atomicOr, old | v)
KB_ATOMIC(atomicXor, old ^ v)
KB_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
KB_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef KB_ATOMIC
template <class T>
KB_DEVICE T atomicCAS(T* place, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
    return kbench::change(place, [=](T old) { return kbench::bits_of(old) == kbench::bits_of(expected) ? v : old; }, kbench::kCompare);
}
KB_DEVICE float2 atomicAdd(float2* place, float2 v) {
    return kbench::change(place, [=](float2 old) { return float2{old.x + v.x, old.y + v.y}; });
}
KB_DEVICE float4 atomicAdd(float4* place, float4 v) {
    return kbench::change(place, [=](float4 old) { return float4{old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w}; });
}

// ---- loads and stores --------------------------------------------------------------------------------------------------

#define KB_LOAD(name) \
    template <class T> \
    KB_DEVICE T name(const T* p) { return *p; }
KB_LOAD(__ldca) KB_LOAD(__ldcg) KB_LOAD(__ldcs) KB_LOAD(__ldlu) KB_LOAD(__ldcv)
#undef KB_LOAD
template <class T>
KB_DEVICE T __ldg(const T* p) {
    kbench::read_only(p, sizeof(T));
    return *p;
}
#define KB_STORE(name) \
    template <class T> \
    KB_DEVICE void name(T* p, std::type_identity_t<T> v) { *p = v; }
KB_STORE(__stwb) KB_STORE(__stcg) KB_STORE(__stcs) KB_STORE(__stwt)
#undef KB_STORE
inline size_t __cvta_generic_to_shared(const void* p) { return kbench::shared_address(p); }
inline void* __cvta_shared_to_generic(size_t p) { return kbench::shared_pointer(uint32_t(p)); }
inline size_t __cvta_generic_to_global(const void* p) { return size_t(p); }

// ---- arithmetic --------------------------------------------------------------------------------------------------------

inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline double __longlong_as_double(long long v) { return std::bit_cast<double>(v); }
inline long long __double_as_longlong(double v) { return std::bit_cast<long long>(v); }
inline float rsqrtf(float v) { return float(1 / std::sqrt(double(v))); }
inline double rsqrt(double v) { return 1 / std::sqrt(v); }
inline float __expf(float v) { return std::exp(v); }
inline float __exp10f(float v) { return std::pow(10.0f, v); }
inline float exp10f(float v) { return std::pow(10.0f, v); }
inline float __logf(float v) { return std::log(v); }
inline float __log2f(float v) { return std::log2(v); }
inline float __log10f(float v) { return std::log10(v); }
inline float __sinf(float v) { return std::sin(v); }
inline float __cosf(float v) { return std::cos(v); }
inline float __tanf(float v) { return std::tan(v); }
inline float __powf(float a, float b) { return std::pow(a, b); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float v) { return 1 / v; }
inline float __fsqrt_rn(float v) { return std::sqrt(v); }
inline float __frsqrt_rn(float v) { return rsqrtf(v); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rz(float v) { return 1 / v; }
inline float __fdiv_rz(float a, float b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double v) { return std::sqrt(v); }
inline double __drcp_rn(double v) { return 1 / v; }
inline void __sincosf(float v, float* s, float* c) { *s = std::sin(v), *c = std::cos(v); }
inline float rcbrtf(float v) { return 1 / std::cbrt(v); }
inline float norm3df(float a, float b, float c) { return std::sqrt(a * a + b * b + c * c); }
inline float rnorm3df(float a, float b, float c) { return 1 / norm3df(a, b, c); }
inline float rhypotf(float a, float b) { return 1 / std::hypot(a, b); }
inline float erfcxf(float v) { return float(std::exp(double(v) * v) * std::erfc(double(v))); }
inline double normcdf(double v) { return 0.5 * std::erfc(-v * 0.70710678118654752); }
inline float sinpif(float v) { return float(std::sin(M_PI * double(v))); }
inline float cospif(float v) { return float(std::cos(M_PI * double(v))); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __saturatef(float v) { return v > 0 ? std::min(v, 1.0f) : 0; }
inline float fdividef(float a, float b) { return a / b; }
inline float normcdff(float v) { return 0.5f * std::erfc(-v * 0.70710678f); }
inline float sigmoidf(float v) { return 1 / (1 + std::exp(-v)); }
inline void sincospif(float v, float* s, float* c) { *s = float(std::sin(M_PI * v)), *c = float(std::cos(M_PI * v)); }
inline int __float2int_rn(float v) { return int(std::nearbyint(v)); }
inline int __float2int_rz(float v) { return int(v); }
inline int __float2int_rd(float v) { return int(std::floor(v)); }
inline int __float2int_ru(float v) { return int(std::ceil(v)); }
inline int __double2int_rn(double v) { return int(std::nearbyint(v)); }
inline int __double2int_rz(double v) { return int(v); }
inline long long __float2ll_rn(float v) { return (long long)(std::nearbyint(v)); }
inline long long __double2ll_rn(double v) { return (long long)(std::nearbyint(v)); }
inline float __ll2float_rn(long long v) { return float(v); }
inline float __ull2float_rn(unsigned long long v) { return float(v); }
inline double __int2double_rn(int v) { return double(v); }
inline double __ll2double_rn(long long v) { return double(v); }
inline unsigned __float2uint_rz(float v) { return unsigned(v); }
inline int __double2hiint(double v) { return int(std::bit_cast<uint64_t>(v) >> 32); }
inline int __double2loint(double v) { return int(std::bit_cast<uint64_t>(v)); }
inline double __hiloint2double(int high, int low) { return std::bit_cast<double>(uint64_t(unsigned(high)) << 32 | unsigned(low)); }
inline unsigned __sad(int a, int b, unsigned c) { return unsigned(a > b ? a - b : b - a) + c; }
inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
inline int __hadd(int a, int b) { return int((long long)(a) + b >> 1); }
inline unsigned long long __brevll(unsigned long long v) {
    unsigned long long r = 0;
    for (int i = 0; i < 64; ++i) r |= (v >> i & 1) << (63 - i);
    return r;
}
inline unsigned __float2uint_rn(float v) { return unsigned(std::nearbyint(v)); }
inline float __int2float_rn(int v) { return float(v); }
inline float __uint2float_rn(unsigned v) { return float(v); }
inline float __double2float_rn(double v) { return float(v); }
inline int __mul24(int a, int b) { return a * b; }
inline int __mulhi(int a, int b) { return int((long long)(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((__uint128_t(a) * b) >> 64); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
    return r;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    const uint64_t both = uint64_t(b) << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) r |= unsigned(both >> (8 * (s >> (4 * i) & 7)) & 0xff) << (8 * i);
    return r;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) { return unsigned((uint64_t(high) << 32 | low) << (n & 31) >> 32); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) { return unsigned((uint64_t(high) << 32 | low) >> (n & 31)); }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += int((signed char)(a >> 8 * i)) * int((signed char)(b >> 8 * i));
    return c;
}
inline long long clock64() { return 0; }
inline bool __isShared(const void* p) { return p != nullptr; }

#define KB_TWO(name, pick) \
    template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>> \
    constexpr std::common_type_t<A, B> name(A a, B b) { \
        using T = std::common_type_t<A, B>; \
        const T x = T(a), y = T(b); \
        if constexpr (std::is_floating_point_v<T>) return x != x ? y : y != y ? x : pick ? x : y; \
        else return pick ? x : y; \
    }
KB_TWO(min, (x < y))
KB_TWO(max, (x > y))
#undef KB_TWO
inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
