// Backward of relu(x W^T + b): with gh = grad_output where x W^T + b > 0, else 0:
// grad_x = gh W, grad_weights = gh^T x, grad_biases = the sum of gh over rows.
//
// Bound by arithmetic for large batches, by reading and writing the weights for small ones.
// Work:     the layer is computed again, transposed, only to learn its signs: W x^T, turned in place into gh^T, the
//           only scratch beside x^T. All three products then have a right factor whose rows are contiguous, so one
//           routine serves them: up to 12 rows x 32 columns (6 x 16 without AVX-512) are summed in registers, the left
//           factor being broadcast with whatever strides it has. The right factor is packed into strips of as many
//           columns, as many at a time as fit the second-level cache, unless so few rows use it that it is better read
//           where it lies.
// Dispatch: strips are shared out between the threads. Rows are divided evenly among the tiles, so that none is left
//           over; the last columns are covered by a strip of two vectors or one that overlaps its neighbour.
// Limits:   float32, contiguous; at least a strip of input features. A batch is padded to whole vectors for the layer.
//           No blocking along the summed axis: a batch or layer of many thousands would want it.
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
typedef int32_t Bits __attribute__((vector_size(kLanes * sizeof(int32_t))));
template <int... I>
constexpr Bits counted(std::integer_sequence<int, I...>) {
    return Bits{I...};
}
constexpr Bits kPlaces = counted(std::make_integer_sequence<int, kLanes>{});

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

// Exchanges the off-diagonal quarters of every 2 G x 2 G square; all levels transpose a square of vectors.
template <int G>
void exchange(Lanes* v) {
    const Bits low = (kPlaces & G) != 0 ? kPlaces + (kLanes - G) : kPlaces, high = low + G;
    for (int i = 0; i < kLanes; ++i) {
        if (i & G) continue;
        const Lanes a = v[i], b = v[i + G];
        v[i] = __builtin_shuffle(a, b, low);
        v[i + G] = __builtin_shuffle(a, b, high);
    }
}

template <int G = 1>
void exchange_all(Lanes* v) {
    exchange<G>(v);
    if constexpr (2 * G < kLanes) exchange_all<2 * G>(v);
}

// x as [inputs][padded], zero beyond its rows; squares of kLanes, the last ones overlapping.
void transpose(const float* x, float* out, int64_t rows, int64_t padded, int64_t inputs) {
    for (int64_t r = 0; r < padded; r += kLanes)
        for (int64_t next = 0; next < inputs; next += kLanes) {
            const int64_t k = std::min(next, inputs - kLanes);
            Lanes v[kLanes];
            for (int i = 0; i < kLanes; ++i) v[i] = r + i < rows ? load(x + (r + i) * inputs + k) : Lanes{};
            exchange_all(v);
            for (int i = 0; i < kLanes; ++i) store(out + (k + i) * padded + r, v[i]);
        }
}

// The layer, transposed and without bias, becomes gh^T; its sums over the batch are grad_biases.
void gate(float* layer, const float* biases, const float* grad, float* sums, int64_t rows, int64_t padded,
          int64_t outputs) {
    for (int64_t o = 0; o < outputs; ++o) {
        float sum = 0;
        for (int64_t r = 0; r < rows; ++r) {
            float& value = layer[o * padded + r];
            value = value + biases[o] > 0 ? grad[r * outputs + o] : 0.0f;
            sum += value;
        }
        sums[o] = sum;
    }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights,
                                    torch::Tensor biases) {
    grad_output = grad_output.contiguous();
    const int64_t rows = x.size(0), outputs = weights.size(0), inputs = weights.size(1);
    TORCH_CHECK(inputs >= kStrip, "at least ", kStrip, " input features");
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weights = torch::empty(weights.sizes(), x.options());
    auto grad_biases = torch::empty({outputs}, x.options());
    const int64_t padded = (rows + kLanes - 1) / kLanes * kLanes;
    auto scratch = torch::empty({padded * (inputs + outputs)}, x.options());
    float *xt = scratch.mutable_data_ptr<float>(), *ght = xt + padded * inputs;
    const float *px = x.const_data_ptr<float>(), *w = weights.const_data_ptr<float>();
    const float *g = grad_output.const_data_ptr<float>(), *b = biases.const_data_ptr<float>();
    transpose(px, xt, rows, padded, inputs);
    run({w, xt, ght, inputs, 1, outputs, inputs, padded});
    gate(ght, b, g, grad_biases.mutable_data_ptr<float>(), rows, padded, outputs);
    run({ght, w, grad_x.mutable_data_ptr<float>(), 1, padded, rows, outputs, inputs});
    run({ght, px, grad_weights.mutable_data_ptr<float>(), padded, 1, outputs, rows, inputs});
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
