// RMS norm over the last axis: y = x / sqrt(mean(x^2) + eps) * w.
//
// Bound by memory: x is read once from memory, y written once; the second look at a row finds it in the cache.
// Work:     one row at a time, its sum of squares in 64 float lanes, the lanes added in double; then one sweep that
//           scales. Where eager makes a tensor for each of pow, mean, rsqrt and the two products, nothing is kept here.
// Dispatch: rows are shared out between the threads, at least 32768 elements each, so small inputs stay on one.
// Limits:   float32, contiguous; a single very long row uses one thread.
#include <torch/extension.h>

namespace {

// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

Lanes square(const float* x) {
    const Lanes v = *reinterpret_cast<const Lanes*>(x);
    return v * v;
}

double sum_of_squares(const float* x, int64_t size) {
    Lanes a{}, b{}, c{}, d{};
    int64_t i = 0;
    for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
        a += square(x + i);
        b += square(x + i + kLanes);
        c += square(x + i + 2 * kLanes);
        d += square(x + i + 3 * kLanes);
    }
    a = (a + b) + (c + d);
    double sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += a[lane];
    for (; i < size; ++i) sum += double(x[i]) * x[i];
    return sum;
}

void normalise_row(const float* x, const float* w, float* y, int64_t size, double eps) {
    const float scale = float(1 / std::sqrt(sum_of_squares(x, size) / size + eps));
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] * scale * w[i];
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double eps) {
    x = x.contiguous();
    auto y = torch::empty(x.sizes(), x.options());
    const int64_t size = w.numel(), rows = x.numel() / size;
    const float *px = x.const_data_ptr<float>(), *pw = w.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, 32768 / size), [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) normalise_row(px + r * size, pw, py + r * size, size, eps);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
