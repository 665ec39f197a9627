// Vector types and built-in variables of CUDA C++.
#pragma once
#include "abi.h"

#define KB_VECTOR(T, name, align)                                         \
    struct name##1 { T x; };                                              \
    struct alignas(2 * align) name##2 { T x, y; };                        \
    struct name##3 { T x, y, z; };                                        \
    struct alignas(4 * align > 16 ? 16 : 4 * align) name##4 { T x, y, z, w; }; \
    inline name##1 make_##name##1(T x) { return {x}; }                    \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }            \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }    \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

KB_VECTOR(signed char, char, 1)
KB_VECTOR(unsigned char, uchar, 1)
KB_VECTOR(short, short, 2)
KB_VECTOR(unsigned short, ushort, 2)
KB_VECTOR(int, int, 4)
KB_VECTOR(unsigned, uint, 4)
KB_VECTOR(long, long, 8)
KB_VECTOR(unsigned long, ulong, 8)
KB_VECTOR(long long, longlong, 8)
KB_VECTOR(unsigned long long, ulonglong, 8)
KB_VECTOR(float, float, 4)
KB_VECTOR(double, double, 8)
#undef KB_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return {x, y, z}; }
};

// Constant for the thread that reads them, so loads of them are not watched; the scheduler sets them.
extern const uint3 threadIdx __asm__("kb_threadIdx") __attribute__((visibility("hidden")));
extern const uint3 blockIdx __asm__("kb_blockIdx") __attribute__((visibility("hidden")));
struct kb_dim3 : uint3 {  // no constructor, so that the compiler knows it for constant
    operator dim3() const { return dim3(x, y, z); }
};
extern const kb_dim3 blockDim __asm__("kb_blockDim") __attribute__((visibility("hidden")));
extern const kb_dim3 gridDim __asm__("kb_gridDim") __attribute__((visibility("hidden")));
constexpr int warpSize = 32;
