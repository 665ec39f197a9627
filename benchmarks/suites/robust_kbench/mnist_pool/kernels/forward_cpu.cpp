// Max-pool with a window of 2 x 2 and a stride of 2: y[r][c] = the largest of four neighbours.
//
// Bound by memory: four floats in, one out, three comparisons. Eager also works out where each maximum was; nobody
// asks for that here.
// Work:     one output row takes two input rows. The even and the odd columns are the two halves of a pair of vectors,
//           so sixteen maxima need four loads, two shuffles and three comparisons.
// Dispatch: planes (batch x channels) are shared out between the threads, at least 32768 inputs each. Rows shorter
//           than a vector of results are done one by one.
// Limits:   float32, contiguous; an odd last row or column is dropped, as in PyTorch.
#include <torch/extension.h>

#include <utility>

namespace {

// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int32_t Order __attribute__((vector_size(kLanes * sizeof(float))));

template <int... I>
constexpr Order even(std::integer_sequence<int, I...>) {
    return Order{(2 * I)...};
}
constexpr Order kEven = even(std::make_integer_sequence<int, kLanes>{});
constexpr Order kOdd = kEven + 1;

Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

// The maxima of kLanes pairs of columns that start at `top` and, one row below, at `low`.
Lanes maxima(const float* top, const float* low) {
    const auto load = [](const float* from) { return *reinterpret_cast<const Lanes*>(from); };
    const Lanes left = larger(load(top), load(low)), right = larger(load(top + kLanes), load(low + kLanes));
    return larger(__builtin_shuffle(left, right, kEven), __builtin_shuffle(left, right, kOdd));
}

void pool_row(const float* top, const float* low, float* y, int64_t width) {
    int64_t c = 0;
    for (; c + kLanes <= width; c += kLanes) *reinterpret_cast<Lanes*>(y + c) = maxima(top + 2 * c, low + 2 * c);
    for (; c < width; ++c) y[c] = std::max(std::max(top[2 * c], low[2 * c]), std::max(top[2 * c + 1], low[2 * c + 1]));
}

}  // namespace

torch::Tensor forward(torch::Tensor x) {
    x = x.contiguous();
    const int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
    auto y = torch::empty({x.size(0), x.size(1), height / 2, width / 2}, x.options());
    const float* px = x.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    at::parallel_for(0, planes, std::max<int64_t>(1, 32768 / (height * width)), [=](int64_t begin, int64_t end) {
        for (int64_t row = begin * (height / 2); row < end * (height / 2); ++row) {
            const float* top = px + (row / (height / 2) * height + row % (height / 2) * 2) * width;
            pool_row(top, top + width, py + row * (width / 2), width / 2);
        }
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
