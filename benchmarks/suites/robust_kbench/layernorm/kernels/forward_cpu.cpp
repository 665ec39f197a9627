// Layer norm over the last three axes: y = (x - mean) / sqrt(var + eps) * weight + bias.
//
// Bound by memory: four floats move per element and only a handful of operations touch them.
// Work:     every row (one per batch entry) is cut into blocks of 16 KiB. The mean and the squared deviations of a
//           block are taken while it lies in the first-level cache, in float; blocks are merged in double, so neither a
//           long row nor a large mean costs accuracy. A second sweep writes the result. Both ask for what lies a page
//           ahead: a page seen for the first time costs a wait that nothing else would hide.
// Dispatch: enough rows for all threads: one row per thread. Fewer: the blocks of one row are shared out.
// Limits:   float32, contiguous; x is read twice, so rows beyond the last-level cache pay for that.
#include <torch/extension.h>

#include <algorithm>
#include <cmath>

namespace {

constexpr int64_t kBlock = 4096;
constexpr int64_t kLine = 16;  // floats of a line of the cache
constexpr int64_t kAhead = 1024;  // floats: the next page, where a processor's own prefetching stops
// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

struct Moments {
    double count = 0, mean = 0, squares = 0;  // squares: sum of squared deviations from the mean
};

Moments merged(const Moments& a, const Moments& b) {
    const double count = a.count + b.count;
    if (count == 0) return a;
    const double delta = b.mean - a.mean;
    return {count, a.mean + delta * b.count / count, a.squares + b.squares + delta * delta * a.count * b.count / count};
}

double total(Lanes a, Lanes b, Lanes c, Lanes d) {
    double sum = 0;
    for (int i = 0; i < kLanes; ++i) sum += (double(a[i]) + b[i]) + (double(c[i]) + d[i]);
    return sum;
}

// Sum of value(i) over the block, while what lies `ahead` of it is fetched; four vectors of partial sums keep the
// additions independent of each other.
template <typename VectorAt, typename ScalarAt>
double block_sum(const float* ahead, int64_t size, VectorAt vector_at, ScalarAt scalar_at) {
    Lanes a{}, b{}, c{}, d{};
    int64_t i = 0;
    for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
        for (int64_t next = i; next < i + 4 * kLanes; next += kLine) __builtin_prefetch(ahead + next);
        a += vector_at(i);
        b += vector_at(i + kLanes);
        c += vector_at(i + 2 * kLanes);
        d += vector_at(i + 3 * kLanes);
    }
    double sum = total(a, b, c, d);
    for (; i < size; ++i) sum += scalar_at(i);
    return sum;
}

Moments block_moments(const float* x, int64_t size) {
    const auto load = [x](int64_t i) { return *reinterpret_cast<const Lanes*>(x + i); };
    const double mean = block_sum(x + kAhead, size, load, [x](int64_t i) { return x[i]; }) / size;
    const float centre = float(mean);
    const double squares = block_sum(
        x + kAhead, size,
        [=](int64_t i) {
            const Lanes d = load(i) - centre;
            return d * d;
        },
        [=](int64_t i) {
            const float d = x[i] - centre;
            return d * d;
        });
    return {double(size), mean, squares - size * (mean - centre) * (mean - centre)};
}

Moments row_moments(const float* x, int64_t size) {
    const int64_t blocks = (size + kBlock - 1) / kBlock;
    const auto range = [=](int64_t begin, int64_t end, Moments sum) {
        for (int64_t b = begin; b < end; ++b)
            sum = merged(sum, block_moments(x + b * kBlock, std::min(kBlock, size - b * kBlock)));
        return sum;
    };
    return at::parallel_reduce(0, blocks, 8, Moments{}, range, merged);
}

void normalise_row(const float* x, const float* weight, const float* bias, float* y, int64_t size, double eps) {
    const Moments m = row_moments(x, size);
    const float mean = float(m.mean), scale = float(1 / std::sqrt(m.squares / m.count + eps));
    at::parallel_for(0, size, 8 * kBlock, [=](int64_t begin, int64_t end) {
        const auto load = [](const float* from) { return *reinterpret_cast<const Lanes*>(from); };
        int64_t i = begin;
        for (; i + kLine <= end; i += kLine) {
            for (const float* next : {x, weight, bias, static_cast<const float*>(y)})
                __builtin_prefetch(next + i + kAhead);
            for (int64_t k = i; k < i + kLine; k += kLanes)
                *reinterpret_cast<Lanes*>(y + k) = (load(x + k) - mean) * scale * load(weight + k) + load(bias + k);
        }
        for (; i < end; ++i) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    });
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    x = x.contiguous();
    auto y = torch::empty(x.sizes(), x.options());
    const int64_t size = weight.numel(), rows = x.numel() / size;
    const float *px = x.const_data_ptr<float>(), *pw = weight.const_data_ptr<float>(),
                *pb = bias.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    const int64_t grain = rows >= at::get_num_threads() ? std::max<int64_t>(1, kBlock / size) : rows;
    at::parallel_for(0, rows, grain, [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) normalise_row(px + r * size, pw, pb, py + r * size, size, eps);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
