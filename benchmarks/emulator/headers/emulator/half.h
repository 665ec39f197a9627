// __half and __nv_bfloat16 with their pairs, as cuda_fp16.h and cuda_bf16.h have them.
#pragma once
#include <cmath>
#include <cstring>
#include <type_traits>

#include "types.h"

namespace kbench {
inline float bf16_to_float(uint16_t v) {
    const uint32_t bits = uint32_t(v) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}
inline uint16_t float_to_bf16(float f) {
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float half_bits_to_float(uint16_t v) {
    _Float16 h;
    std::memcpy(&h, &v, 2);
    return float(h);
}
inline uint16_t float_to_half_bits(float f) {
    const auto h = _Float16(f);
    uint16_t v;
    std::memcpy(&v, &h, 2);
    return v;
}
}  // namespace kbench

#define KB_SMALL(type, pair, raw, to_float, from_float)                                              \
    struct type##_raw { unsigned short x; };                                                         \
    struct alignas(2) type {                                                                         \
        unsigned short bits;                                                                         \
        type() = default;                                                                            \
        type(type##_raw r) : bits(r.x) {}                                                            \
        template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                        \
        type(T v) : bits(kbench::from_float(float(v))) {}                                            \
        operator float() const { return kbench::to_float(bits); }                                    \
        type& operator+=(type o) { return *this = type(float(*this) + float(o)); }                   \
        type& operator-=(type o) { return *this = type(float(*this) - float(o)); }                   \
        type& operator*=(type o) { return *this = type(float(*this) * float(o)); }                   \
        type& operator/=(type o) { return *this = type(float(*this) / float(o)); }                   \
    };                                                                                               \
    struct alignas(4) pair {                                                                         \
        type x, y;                                                                                   \
        pair() = default;                                                                            \
        pair(type a, type b) : x(a), y(b) {}                                                         \
    };                                                                                               \
    inline type operator+(type a, type b) { return type(float(a) + float(b)); }                      \
    inline type operator-(type a, type b) { return type(float(a) - float(b)); }                      \
    inline type operator*(type a, type b) { return type(float(a) * float(b)); }                      \
    inline type operator/(type a, type b) { return type(float(a) / float(b)); }                      \
    inline type operator-(type a) { return type(-float(a)); }                                        \
    inline pair operator+(pair a, pair b) { return {a.x + b.x, a.y + b.y}; }                         \
    inline pair operator-(pair a, pair b) { return {a.x - b.x, a.y - b.y}; }                         \
    inline pair operator*(pair a, pair b) { return {a.x * b.x, a.y * b.y}; }                         \
    inline type __hadd(type a, type b) { return a + b; }                                             \
    inline type __hsub(type a, type b) { return a - b; }                                             \
    inline type __hmul(type a, type b) { return a * b; }                                             \
    inline type __hdiv(type a, type b) { return a / b; }                                             \
    inline type __hneg(type a) { return -a; }                                                        \
    inline type __habs(type a) { return type(std::fabs(float(a))); }                                 \
    inline type __hfma(type a, type b, type c) { return type(float(double(a) * double(b) + double(c))); } \
    inline type __hmax(type a, type b) { return type(std::fmax(float(a), float(b))); }               \
    inline type __hmin(type a, type b) { return type(std::fmin(float(a), float(b))); }               \
    inline type hexp(type a) { return type(std::exp(float(a))); }                                    \
    inline type hlog(type a) { return type(std::log(float(a))); }                                    \
    inline type hsqrt(type a) { return type(std::sqrt(float(a))); }                                  \
    inline type hrsqrt(type a) { return type(1 / std::sqrt(float(a))); }                             \
    inline type hrcp(type a) { return type(1 / float(a)); }                                          \
    inline bool __hgt(type a, type b) { return float(a) > float(b); }                                \
    inline bool __hge(type a, type b) { return float(a) >= float(b); }                               \
    inline bool __hlt(type a, type b) { return float(a) < float(b); }                                \
    inline bool __hle(type a, type b) { return float(a) <= float(b); }                               \
    inline bool __heq(type a, type b) { return float(a) == float(b); }                               \
    inline bool __hne(type a, type b) { return float(a) != float(b); }                               \
    inline bool __hisinf(type a) { return std::isinf(float(a)); }                                    \
    inline type hexp2(type a) { return type(std::exp2(float(a))); }                                  \
    inline type hlog2(type a) { return type(std::log2(float(a))); }                                  \
    inline type htanh(type a) { return type(std::tanh(float(a))); }                                  \
    inline type hsin(type a) { return type(std::sin(float(a))); }                                    \
    inline type hcos(type a) { return type(std::cos(float(a))); }                                    \
    inline type hfloor(type a) { return type(std::floor(float(a))); }                                \
    inline type hceil(type a) { return type(std::ceil(float(a))); }                                  \
    inline type hrint(type a) { return type(std::nearbyint(float(a))); }                             \
    inline pair operator/(pair a, pair b) { return {a.x / b.x, a.y / b.y}; }                         \
    inline pair operator-(pair a) { return {-a.x, -a.y}; }                                           \
    inline pair& operator+=(pair& a, pair b) { return a = a + b; }                                   \
    inline pair& operator*=(pair& a, pair b) { return a = a * b; }                                   \
    inline pair __h2div(pair a, pair b) { return a / b; }                                            \
    inline pair __hneg2(pair a) { return -a; }                                                       \
    inline pair __habs2(pair a) { return {__habs(a.x), __habs(a.y)}; }                               \
    inline pair h2exp(pair a) { return {hexp(a.x), hexp(a.y)}; }                                     \
    inline pair h2log(pair a) { return {hlog(a.x), hlog(a.y)}; }                                     \
    inline pair h2sqrt(pair a) { return {hsqrt(a.x), hsqrt(a.y)}; }                                  \
    inline pair h2rsqrt(pair a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }                               \
    inline pair h2rcp(pair a) { return {hrcp(a.x), hrcp(a.y)}; }                                     \
    inline pair __hgt2(pair a, pair b) { return {type(a.x > b.x ? 1.0f : 0.0f), type(a.y > b.y ? 1.0f : 0.0f)}; } \
    inline type __hfma_relu(type a, type b, type c) { return __hmax(__hfma(a, b, c), type(0.0f)); }  \
    inline pair __lows2##raw##2(pair a, pair b) { return {a.x, b.x}; }                               \
    inline pair __highs2##raw##2(pair a, pair b) { return {a.y, b.y}; }                              \
    inline pair __low2##raw##2(pair a) { return {a.x, a.x}; }                                        \
    inline pair __high2##raw##2(pair a) { return {a.y, a.y}; }                                       \
    inline pair __lowhigh2highlow(pair a) { return {a.y, a.x}; }                                     \
    inline bool __hisnan(type a) { return std::isnan(float(a)); }                                    \
    inline pair __hadd2(pair a, pair b) { return a + b; }                                            \
    inline pair __hsub2(pair a, pair b) { return a - b; }                                            \
    inline pair __hmul2(pair a, pair b) { return a * b; }                                            \
    inline pair __hfma2(pair a, pair b, pair c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
    inline pair __hmax2(pair a, pair b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }             \
    inline pair __hmin2(pair a, pair b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }             \
    inline type __low2##raw(pair a) { return a.x; }                                                  \
    inline type __high2##raw(pair a) { return a.y; }                                                 \
    inline float __low2float(pair a) { return a.x; }                                                 \
    inline float __high2float(pair a) { return a.y; }

KB_SMALL(__half, __half2, half, half_bits_to_float, float_to_half_bits)
KB_SMALL(__nv_bfloat16, __nv_bfloat162, bfloat16, bf16_to_float, float_to_bf16)
#undef KB_SMALL

using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __half __float2half(float v) { return v; }
inline __half __float2half_rn(float v) { return v; }
inline __half __double2half(double v) { return float(v); }
inline float __half2float(__half v) { return v; }
inline __half __int2half_rn(int v) { return v; }
inline int __half2int_rn(__half v) { return int(std::nearbyint(float(v))); }
inline __half __float2half_rz(float v) {
    const __half near(v);
    if (std::isinf(v) || std::fabs(float(near)) <= std::fabs(v)) return near;
    return __half(__half_raw{static_cast<unsigned short>(near.bits - 1)});
}
inline unsigned __half2uint_rn(__half v) { return unsigned(std::nearbyint(float(v))); }
inline int __half2int_rz(__half v) { return int(float(v)); }
inline __half __short2half_rn(short v) { return v; }
inline __half __uint2half_rn(unsigned v) { return v; }
inline short __half_as_short(__half v) { return short(v.bits); }
inline __half __short_as_half(short v) { return __half(__half_raw{static_cast<unsigned short>(v)}); }
inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline __half2 __float2half2_rn(float v) { return {v, v}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 make_half2(__half a, __half b) { return {a, b}; }
inline unsigned short __half_as_ushort(__half v) { return v.bits; }
inline __half __ushort_as_half(unsigned short v) { return __half(__half_raw{v}); }
inline __nv_bfloat16 __float2bfloat16(float v) { return v; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return v; }
inline __nv_bfloat16 __double2bfloat16(double v) { return float(v); }
inline __nv_bfloat16 __int2bfloat16_rn(int v) { return v; }
inline __nv_bfloat162 __float2bfloat162_rn(float v) { return {v, v}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline float __bfloat162float(__nv_bfloat16 v) { return v; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) { return __nv_bfloat16(__nv_bfloat16_raw{v}); }
