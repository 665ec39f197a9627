// nvcuda::wmma: fragments of 16 x 16 x 16 and 16 x 16 x 8, spread over the lanes of a warp in an order of our own.
#pragma once
#include "device.h"

namespace nvcuda::wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
namespace precision {
struct tf32 {};
}  // namespace precision
enum layout_t { mem_row_major, mem_col_major };

template <class T> struct Stored { using type = T; };
template <> struct Stored<precision::tf32> { using type = float; };

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    using element_type = typename Stored<T>::type;
    using storage_element_type = element_type;
    static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M, columns = std::is_same_v<Use, matrix_a> ? K : N;
    static constexpr int num_elements = rows * columns / 32;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];
};

template <class F, class T>
void fill_fragment(F& f, T v) {
    for (auto& e : f.x) e = typename F::element_type(v);
}
inline float __float_to_tf32(float v) { return __uint_as_float((__float_as_uint(v) + 0x1000) & 0xffffe000); }

template <class F, class T>
KB_DEVICE void load_any(F& f, const T* from, unsigned stride, bool by_rows, int line) {
    for (int i = 0; i < F::num_elements; ++i) {
        const int at = int(kbench::lane()) * F::num_elements + i, row = at / F::columns, column = at % F::columns;
        f.x[i] = from[by_rows ? row * stride + column : column * stride + row];
    }
    __syncwarp(0xffffffff, line);
}
template <class Use, int M, int N, int K, class T, class Layout, class S>
KB_DEVICE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const S* from, unsigned stride, KB_LINE) {
    load_any(f, from, stride, std::is_same_v<Layout, row_major>, kb_line);
}
template <int M, int N, int K, class T, class S>
KB_DEVICE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const S* from, unsigned stride, layout_t layout, KB_LINE) {
    load_any(f, from, stride, layout == mem_row_major, kb_line);
}
template <int M, int N, int K, class T, class S>
KB_DEVICE void store_matrix_sync(S* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout, KB_LINE) {
    using F = fragment<accumulator, M, N, K, T>;
    for (int i = 0; i < F::num_elements; ++i) {
        const int at = int(kbench::lane()) * F::num_elements + i, row = at / F::columns, column = at % F::columns;
        to[layout == mem_row_major ? row * stride + column : column * stride + row] = f.x[i];
    }
    __syncwarp(0xffffffff, kb_line);
}

template <class D, class A, class B, class C>
struct Product {
    D* d;
    const A* a;
    const B* b;
    const C* c;
};
template <class D, class A, class B, class C>
__attribute__((no_sanitize("thread"))) void multiply(void** lanes, unsigned) {
    using P = Product<D, A, B, C>;
    constexpr int M = D::rows, N = D::columns, K = A::columns;
    float a[M][K], b[K][N], c[M][N];
    const auto spread = [&](auto pick, auto& to, int columns, int count) {
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < count; ++i) {
                const int at = lane * count + i;
                to[at / columns][at % columns] = float(pick(static_cast<P*>(lanes[lane]))->x[i]);
            }
    };
    spread([](P* p) { return p->a; }, a, K, A::num_elements);
    spread([](P* p) { return p->b; }, b, N, B::num_elements);
    spread([](P* p) { return p->c; }, c, N, C::num_elements);
    for (int m = 0; m < M; ++m)
        for (int k = 0; k < K; ++k)
            for (int n = 0; n < N; ++n) c[m][n] += a[m][k] * b[k][n];
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < D::num_elements; ++i) {
            const int at = lane * D::num_elements + i;
            static_cast<P*>(lanes[lane])->d->x[i] = typename D::element_type(c[at / N][at % N]);
        }
}
template <class D, class A, class B, class C>
void mma_sync(D& d, const A& a, const B& b, const C& c, KB_LINE) {
    Product<D, A, B, C> mine{&d, &a, &b, &c};
    kbench::collective(0xffffffff, "mma_sync", &mine, multiply<D, A, B, C>, kb_line);
}

}  // namespace nvcuda::wmma
