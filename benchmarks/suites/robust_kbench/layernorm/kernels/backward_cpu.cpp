// Backward of the layer norm over the last three axes. With n = (x - mean) r, r = 1 / sqrt(var + eps), per row:
// grad_x = r (g w - mean(g w) - n mean(g w n)),  grad_weight = sum over rows of g n,  grad_bias = sum over rows of g.
//
// Bound by memory: seven floats are read or written per element, over two sweeps.
// Work:     sweep 1 takes all four sums of a row in blocks of 16 KiB: mean and squares as in the forward kernel, and
//           the sums of g w and of g w (x - block mean), from which the row's follow without cancellation. Sweep 2 goes
//           block by block and inside it row by row, so that weight, grad_weight and grad_bias stay in the cache.
// Dispatch: blocks of rows (sweep 1) and blocks of columns (sweep 2) are shared out between the threads.
// Limits:   float32, contiguous; the sums over the batch are float, in the order of the rows.
#include <torch/extension.h>

#include <cmath>
#include <vector>

namespace {

constexpr int64_t kBlock = 4096;
// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

struct Sums {
    double count = 0, mean = 0, squares = 0;  // squares: of x - mean
    double plain = 0, crossed = 0;            // sums of g w and of g w (x - mean)
};

struct Row {
    float mean, scale, plain, crossed;  // plain: mean of g w; crossed: mean of g w n, times scale
};

Sums merged(const Sums& a, const Sums& b) {
    const double count = a.count + b.count;
    if (count == 0) return a;
    const double delta = b.mean - a.mean, mean = a.mean + delta * b.count / count;
    const double crossed = a.crossed + b.crossed + (a.mean - mean) * a.plain + (b.mean - mean) * b.plain;
    return {count, mean, a.squares + b.squares + delta * delta * a.count * b.count / count, a.plain + b.plain, crossed};
}

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

double total(Lanes a, Lanes b) {
    double sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += double(a[lane]) + b[lane];
    return sum;
}

double block_mean(const float* x, int64_t size) {
    Lanes a{}, b{};
    int64_t i = 0;
    for (; i + 2 * kLanes <= size; i += 2 * kLanes) {
        a += load(x + i);
        b += load(x + i + kLanes);
    }
    double sum = total(a, b);
    for (; i < size; ++i) sum += x[i];
    return sum / size;
}

Sums block_sums(const float* g, const float* x, const float* w, int64_t size) {
    const double mean = block_mean(x, size);
    const float centre = float(mean);
    Lanes squares[2] = {}, plain[2] = {}, crossed[2] = {};
    int64_t i = 0;
    for (; i + 2 * kLanes <= size; i += 2 * kLanes)
        for (int half = 0; half < 2; ++half) {
            const int64_t at = i + half * kLanes;
            const Lanes d = load(x + at) - centre, gw = load(g + at) * load(w + at);
            squares[half] += d * d;
            plain[half] += gw;
            crossed[half] += gw * d;
        }
    Sums sums{double(size), centre, total(squares[0], squares[1]), total(plain[0], plain[1]),
              total(crossed[0], crossed[1])};
    for (; i < size; ++i) {
        const double d = double(x[i]) - centre, gw = double(g[i]) * w[i];
        sums.squares += d * d;
        sums.plain += gw;
        sums.crossed += gw * d;
    }
    const double off = mean - centre;  // what rounding the mean to float left out
    return {sums.count, mean, sums.squares - size * off * off, sums.plain, sums.crossed - off * sums.plain};
}

Row row_facts(const float* g, const float* x, const float* w, int64_t size, double eps) {
    const auto range = [=](int64_t begin, int64_t end, Sums sum) {
        for (int64_t b = begin; b < end; ++b) {
            const int64_t at = b * kBlock;
            sum = merged(sum, block_sums(g + at, x + at, w + at, std::min(kBlock, size - at)));
        }
        return sum;
    };
    const Sums sums = at::parallel_reduce(0, (size + kBlock - 1) / kBlock, 8, Sums{}, range, merged);
    const double r = 1 / std::sqrt(sums.squares / sums.count + eps);
    return {float(sums.mean), float(r), float(sums.plain / sums.count), float(sums.crossed * r * r / sums.count)};
}

void block_gradient(const float* __restrict__ g, const float* __restrict__ x, const float* __restrict__ w,
                    float* __restrict__ grad_x, float* __restrict__ grad_w, float* __restrict__ grad_b, const Row& row,
                    int64_t size) {
    const float mean = row.mean, scale = row.scale, plain = row.plain, crossed = row.crossed;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
        const float d = x[i] - mean;
        grad_x[i] = (g[i] * w[i] - plain - d * crossed) * scale;
        grad_w[i] += g[i] * d * scale;
        grad_b[i] += g[i];
    }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weight,
                                    torch::Tensor bias, double eps, std::vector<int64_t> normalized_shape) {
    const auto grad = grad_output.contiguous(), input = x.contiguous();
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_w = torch::empty(weight.sizes(), x.options()), grad_b = torch::empty(bias.sizes(), x.options());
    const int64_t size = weight.numel(), rows = x.numel() / size;
    const float *g = grad.const_data_ptr<float>(), *px = input.const_data_ptr<float>(),
                *w = weight.const_data_ptr<float>();
    float* gx = grad_x.mutable_data_ptr<float>();
    float *gw = grad_w.mutable_data_ptr<float>(), *gb = grad_b.mutable_data_ptr<float>();
    std::vector<Row> facts(rows);
    Row* row = facts.data();
    const int64_t grain = rows >= at::get_num_threads() ? std::max<int64_t>(1, kBlock / size) : rows;
    at::parallel_for(0, rows, grain, [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) row[r] = row_facts(g + r * size, px + r * size, w, size, eps);
    });
    at::parallel_for(0, (size + kBlock - 1) / kBlock, 2, [=](int64_t begin, int64_t end) {
        for (int64_t at = begin * kBlock; at < std::min(end * kBlock, size); at += kBlock) {
            const int64_t length = std::min(kBlock, size - at);
            std::fill_n(gw + at, length, 0.0f);
            std::fill_n(gb + at, length, 0.0f);
            for (int64_t r = 0; r < rows; ++r) {
                const int64_t place = r * size + at;
                block_gradient(g + place, px + place, w + at, gx + place, gw + at, gb + at, row[r], length);
            }
        }
    });
    return {grad_x, grad_w, grad_b};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
