// Backward of a linear layer: grad_x = g W, grad_weights = g^T x, grad_biases = the sum of g over rows.
//
// Bound by arithmetic for large batches, by reading and writing the weights for small ones.
// Work:     both products have a right factor whose rows are contiguous, so one routine serves them: up to 12 rows x 32
//           columns (6 x 16 without AVX-512) are summed in registers, the left factor being broadcast with whatever
//           strides it has, so g is never transposed. The right factor is packed into strips of as many columns, as
//           many at a time as fit the second-level cache, unless so few rows use it that it is better read where it
//           lies.
// Dispatch: on an Intel processor with AVX-512 torch's library makes the products, which is faster there and only there.
//           Else strips are shared out between the threads. Rows are divided evenly among the tiles, so that none is left
//           over; the last columns are covered by a strip of two vectors or one that overlaps its neighbour.
// Limits:   float32, contiguous; at least a strip of input features. No blocking along the summed axis: a batch of many
//           thousands would want it.
#include <torch/extension.h>

#include <array>
#include <utility>

namespace {

// AVX-512 has 32 registers of sixteen floats; what is written for others has sixteen registers of eight.
#ifdef __AVX512F__
constexpr int kLanes = 16, kRows = 12;
#else
constexpr int kLanes = 8, kRows = 6;
#endif
constexpr int kStrip = 2 * kLanes, kPacked = 65536;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

// out = a b, with a of rows x depth (any strides) and b of depth x columns (contiguous rows).
struct Product {
    const float *a, *b;
    float* out;
    int64_t row_step, depth_step, rows, depth, columns;

    int64_t strips() const { return (columns + kStrip - 1) / kStrip; }
    int64_t width(int64_t strip) const { return columns - strip * kStrip > kLanes ? kStrip : kLanes; }
    int64_t first(int64_t strip) const { return std::min(strip * kStrip, columns - width(strip)); }
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
void store(float* to, Lanes value) { *reinterpret_cast<Lanes*>(to) = value; }

// Rows rows of a times a strip of b, whose rows are b_step apart.
template <int Rows, int Vectors>
void tile(const Product& p, const float* a, const float* b, int64_t b_step, float* out) {
    const int64_t row_step = p.row_step;
    Lanes sum[Rows][Vectors] = {};
    for (int64_t k = 0; k < p.depth; ++k, a += p.depth_step, b += b_step)
        for (int r = 0; r < Rows; ++r)
            for (int v = 0; v < Vectors; ++v) sum[r][v] += a[r * row_step] * load(b + v * kLanes);
    for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < Vectors; ++v) store(out + r * p.columns + v * kLanes, sum[r][v]);
}

using Tile = decltype(&tile<1, 1>);

// The tiles of 1 to kRows rows.
template <int Vectors, int... R>
constexpr std::array<Tile, kRows> tiles_of(std::integer_sequence<int, R...>) {
    return {tile<R + 1, Vectors>...};
}

constexpr auto kNarrow = tiles_of<1>(std::make_integer_sequence<int, kRows>{});
constexpr auto kWide = tiles_of<2>(std::make_integer_sequence<int, kRows>{});

// All rows for the strips [begin, end); where(strip) is where its values lie, b_step apart.
template <typename Where>
void strips_of_product(const Product& p, int64_t begin, int64_t end, int64_t b_step, const Where& where) {
    const int64_t tiles = (p.rows + kRows - 1) / kRows;
    for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r = p.rows * t / tiles, count = p.rows * (t + 1) / tiles - r;
        for (int64_t s = begin; s < end; ++s) {
            const Tile product = (p.width(s) == kStrip ? kWide : kNarrow)[count - 1];
            product(p, p.a + r * p.row_step, where(s), b_step, p.out + r * p.columns + p.first(s));
        }
    }
}

// The strips [begin, end) of b as [strip][depth][kStrip].
void pack(const Product& p, int64_t begin, int64_t end, float* packed) {
    for (int64_t k = 0; k < p.depth; ++k)
        for (int64_t s = begin; s < end; ++s) {
            const float* from = p.b + k * p.columns + p.first(s);
            float* to = packed + ((s - begin) * p.depth + k) * kStrip;
            store(to, load(from));
            if (p.width(s) == kStrip) store(to + kLanes, load(from + kLanes));
        }
}

void run(const Product& p) {
    const int64_t group = std::max<int64_t>(1, kPacked / (p.depth * kStrip));
    const int64_t grain = std::max<int64_t>(1, 65536 / (p.rows * p.depth * kStrip));
    at::parallel_for(0, p.strips(), grain, [&](int64_t begin, int64_t end) {
        const auto in_place = [&](int64_t s) { return p.b + p.first(s); };
        if (p.rows <= kRows) return strips_of_product(p, begin, end, p.columns, in_place);
        auto scratch = torch::empty({std::min(group, end - begin) * p.depth * kStrip});
        float* packed = scratch.mutable_data_ptr<float>();
        for (int64_t s = begin; s < end; s += group) {
            const int64_t stop = std::min(s + group, end);
            pack(p, s, stop, packed);
            strips_of_product(p, s, stop, kStrip, [&](int64_t i) { return packed + (i - s) * p.depth * kStrip; });
        }
    });
}

bool library_is_faster() { return __builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f"); }

// The sum over rows, column by column.
void column_sums(const float* __restrict__ values, float* __restrict__ sums, int64_t rows, int64_t columns) {
    std::fill_n(sums, columns, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) sums[c] += values[r * columns + c];
    }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights) {
    grad_output = grad_output.contiguous();
    const int64_t outputs = weights.size(0), inputs = weights.size(1), rows = x.numel() / inputs;
    TORCH_CHECK(inputs >= kStrip, "at least ", kStrip, " input features");
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weights = torch::empty(weights.sizes(), x.options());
    auto grad_biases = torch::empty({outputs}, x.options());
    const float *g = grad_output.const_data_ptr<float>(), *px = x.const_data_ptr<float>();
    const float* w = weights.const_data_ptr<float>();
    if (library_is_faster()) {
        auto flat = grad_output.view({rows, outputs}), flat_grad_x = grad_x.view({rows, inputs});
        at::mm_out(flat_grad_x, flat, weights);
        at::mm_out(grad_weights, flat.t(), x.view({rows, inputs}));
    } else {
        run({g, w, grad_x.mutable_data_ptr<float>(), outputs, 1, rows, outputs, inputs});
        run({g, px, grad_weights.mutable_data_ptr<float>(), 1, outputs, outputs, rows, inputs});
    }
    column_sums(g, grad_biases.mutable_data_ptr<float>(), rows, outputs);
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
