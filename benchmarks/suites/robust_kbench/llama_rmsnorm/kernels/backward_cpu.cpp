// Backward of the RMS norm over the last axis, with r = 1 / sqrt(mean(x^2) + eps):
// grad_x = r (g w - x r^2 mean(g w x)),  grad_w = the sum over rows of g x r.
//
// Bound by memory: g and x are read once from memory, grad_x is written once.
// Work:     a row is swept twice while it lies in the cache: once for its two sums, once for grad_x and its share of
//           grad_w. Sixty-four rows add up in float before they go into a sum in double, so many rows cost no accuracy.
// Dispatch: each thread takes a range of rows and sums of its own; the sums are added in a fixed order at the end, so
//           the result does not depend on timing. Small inputs stay on one thread.
// Limits:   float32, contiguous; scratch of 12 bytes per feature and thread; a single very long row uses one thread.
#include <torch/extension.h>

#include <cmath>
#include <vector>

namespace {

constexpr int64_t kRowsInFloat = 64;
// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

struct RowSums {
    double squares, products;  // of x x and of g w x
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

double total(Lanes sum) {
    double result = 0;
    for (int lane = 0; lane < kLanes; ++lane) result += sum[lane];
    return result;
}

RowSums row_sums(const float* g, const float* x, const float* w, int64_t size) {
    Lanes squares[2] = {}, products[2] = {};
    int64_t i = 0;
    for (; i + 2 * kLanes <= size; i += 2 * kLanes)
        for (int half = 0; half < 2; ++half) {
            const int64_t at = i + half * kLanes;
            const Lanes v = load(x + at);
            squares[half] += v * v;
            products[half] += load(g + at) * load(w + at) * v;
        }
    RowSums sums{total(squares[0] + squares[1]), total(products[0] + products[1])};
    for (; i < size; ++i) {
        sums.squares += double(x[i]) * x[i];
        sums.products += double(g[i]) * w[i] * x[i];
    }
    return sums;
}

void row_gradient(const float* __restrict__ g, const float* __restrict__ x, const float* __restrict__ w,
                  float* __restrict__ grad_x, float* __restrict__ share, int64_t size, double eps) {
    const RowSums sums = row_sums(g, x, w, size);
    const double r = 1 / std::sqrt(sums.squares / size + eps);
    const float scale = float(r), pull = float(r * r * r * sums.products / size);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
        grad_x[i] = g[i] * w[i] * scale - x[i] * pull;
        share[i] += g[i] * x[i] * scale;
    }
}

void add_and_clear(std::vector<float>& share, double* __restrict__ sum) {
    float* __restrict__ from = share.data();
#pragma omp simd
    for (size_t i = 0; i < share.size(); ++i) sum[i] += from[i];
    std::fill(share.begin(), share.end(), 0.0f);
}

void range_gradient(const float* g, const float* x, const float* w, float* grad_x, double* sum, int64_t begin,
                    int64_t end, int64_t size, double eps) {
    std::vector<float> share(size, 0.0f);
    for (int64_t r = begin; r < end; ++r) {
        row_gradient(g + r * size, x + r * size, w, grad_x + r * size, share.data(), size, eps);
        if ((r - begin) % kRowsInFloat == kRowsInFloat - 1) add_and_clear(share, sum);
    }
    add_and_clear(share, sum);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor w, double eps) {
    const auto grad = grad_output.contiguous(), input = x.contiguous();
    auto grad_x = torch::empty(x.sizes(), x.options()), grad_w = torch::empty(w.sizes(), w.options());
    const int64_t size = w.numel(), rows = x.numel() / size;
    const int64_t parts = std::min<int64_t>(at::get_num_threads(), rows * size / 32768 + 1);
    const float *pg = grad.const_data_ptr<float>(), *px = input.const_data_ptr<float>(),
                *pw = w.const_data_ptr<float>();
    float *out = grad_x.mutable_data_ptr<float>(), *out_w = grad_w.mutable_data_ptr<float>();
    std::vector<double> sums(parts * size, 0.0);
    double* all = sums.data();
    at::parallel_for(0, parts, 1, [=](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p)
            range_gradient(pg, px, pw, out, all + p * size, rows * p / parts, rows * (p + 1) / parts, size, eps);
    });
    for (int64_t p = 1; p < parts; ++p)
        for (int64_t i = 0; i < size; ++i) all[i] += all[p * size + i];
    for (int64_t i = 0; i < size; ++i) out_w[i] = float(all[i]);
    return {grad_x, grad_w};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
