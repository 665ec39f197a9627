// Gated feed-forward layer: down(silu(x gate^T) * (x up^T)).
//
// Bound by the arithmetic of three matrix products for many rows, by reading the weights for few.
// Work:     sixteen rows of x (eight without AVX-512) lie in one vector, so x is transposed once (it is far smaller
//           than the weights), and the weights are used as they lie: a tile of 12 outputs x 32 rows (6 x 16) is summed
//           in 24 vector registers (12) while every weight is broadcast. Such a tile comes out transposed as well,
//           which is how the down projection wants its input: silu and the product are applied while the tile is in the
//           cache, and only y is turned back.
// Dispatch: blocks of outputs are shared out between the threads; all rows pass by while the weights of a block are in
//           the cache and the next block is fetched. A few rows, or what is left of them, would leave lanes idle: these
//           are dot products along the rows of the weights, 4 rows x 4 outputs (4 x 2) at a time. For more than
//           kLibraryRows rows torch's library makes the products on Intel processors with AVX-512, where it is faster.
// Limits:   float32, contiguous; scratch for the transposed rows and for rows x up features. No blocking along the
//           summed axis: several thousand features would want it.
#include <torch/extension.h>

#include <cmath>
#include <utility>

namespace {

// A tile of kOutputs x 2 vectors is summed in registers, of which AVX-512 has 32 and others sixteen.
#ifdef __AVX512F__
constexpr int kLanes = 16, kOutputs = 12, kFewRows = 7;
#else
constexpr int kLanes = 8, kOutputs = 6, kFewRows = 3;
#endif
constexpr int kLibraryRows = 32;
constexpr int kColumns = kLanes / 4;  // of a tile of dot products, which has four rows
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(kLanes * sizeof(int32_t))));

struct Layer {
    const float *gate, *up, *down;
    int64_t features, hidden;
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
void store(float* to, Lanes value) { *reinterpret_cast<Lanes*>(to) = value; }

// exp(x) to about one unit in the last place, for x in [-88, 88]: 2^n exp(r), with the polynomial of Cephes for exp(r).
Lanes exponential(Lanes x) {
    constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it leaves n in the lowest bits
    const Lanes shifted = x * 1.44269504f + kShift, n = shifted - kShift;
    const Lanes r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Lanes sum = r * 1.9875691500e-4f + 1.3981999507e-3f;
    for (const float next : {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        sum = sum * r + next;
    return (sum * r * r + r + 1.0f) * (Lanes)(((Bits)shifted << 23) + 0x3f800000);
}

// gate becomes silu(gate) * up.
void gated(float* __restrict__ gate, const float* __restrict__ up, int64_t count) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        const Lanes value = load(gate + i);
        const Lanes least = -value < -88.0f ? Lanes{} - 88.0f : -value;
        store(gate + i, value / (1.0f + exponential(least > 88.0f ? Lanes{} + 88.0f : least)) * load(up + i));
    }
    for (; i < count; ++i) gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

// kOutputs rows of w times a panel [depth][Vectors x kLanes]; out is [kOutputs][Vectors x kLanes].
template <int Vectors>
void tile(const float* w, const float* panel, float* out, int64_t depth) {
    constexpr int width = Vectors * kLanes;
    Lanes sum[kOutputs][Vectors] = {};
    for (int64_t k = 0; k < depth; ++k) {
        __builtin_prefetch(w + kOutputs * depth + k * kLanes);  // the next block of weights
        for (int o = 0; o < kOutputs; ++o)
            for (int v = 0; v < Vectors; ++v) sum[o][v] += w[o * depth + k] * load(panel + k * width + v * kLanes);
    }
    for (int o = 0; o < kOutputs; ++o)
        for (int v = 0; v < Vectors; ++v) store(out + o * width + v * kLanes, sum[o][v]);
}

// The rows as panels [rows / 2 kLanes][features][2 kLanes], a last one of kLanes if rows / kLanes is odd; rows beyond
// are zero.
void transpose(const float* x, float* panels, int64_t rows, int64_t padded, int64_t features) {
    for (int64_t first = 0; first < padded; first += 2 * kLanes, panels += 2 * kLanes * features) {
        const int64_t width = std::min<int64_t>(2 * kLanes, padded - first);
        for (int64_t k = 0; k < features; ++k)
            for (int64_t r = 0; r < width; ++r)
                panels[k * width + r] = first + r < rows ? x[(first + r) * features + k] : 0.0f;
    }
}

// Calls work(tile function, first row, width) for every panel.
template <typename Work>
void each_panel(int64_t padded, const Work& work) {
    int64_t r = 0;
    for (; r + 2 * kLanes <= padded; r += 2 * kLanes) work(tile<2>, r, 2 * kLanes);
    if (r < padded) work(tile<1>, r, kLanes);
}

// Blocks of kOutputs, the last one overlapping its neighbour.
template <typename Work>
void each_block(int64_t outputs, const Work& work) {
    at::parallel_for(0, (outputs + kOutputs - 1) / kOutputs, 1, [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) work(std::min(block * kOutputs, outputs - kOutputs));
    });
}

void many_rows(const Layer& layer, const float* x, float* y, int64_t rows) {
    const int64_t padded = (rows + kLanes - 1) / kLanes * kLanes, features = layer.features, hidden = layer.hidden;
    auto scratch = torch::empty({padded * (features + hidden)});
    float *panels = scratch.mutable_data_ptr<float>(), *inner = panels + padded * features;
    transpose(x, panels, rows, padded, features);
    each_block(hidden, [&](int64_t o) {
        each_panel(padded, [&](auto* product, int64_t r, int64_t width) {
            alignas(64) float gate[kOutputs * 2 * kLanes], up[kOutputs * 2 * kLanes];
            product(layer.gate + o * features, panels + r * features, gate, features);
            product(layer.up + o * features, panels + r * features, up, features);
            gated(gate, up, kOutputs * width);
            std::copy_n(gate, kOutputs * width, inner + r * hidden + o * width);
        });
    });
    each_block(features, [&](int64_t o) {
        each_panel(padded, [&](auto* product, int64_t r, int64_t width) {
            alignas(64) float out[kOutputs * 2 * kLanes];
            product(layer.down + o * hidden, inner + r * hidden, out, hidden);
            for (int64_t i = 0; i < width && r + i < rows; ++i)
                for (int64_t n = 0; n < kOutputs; ++n) y[(r + i) * features + o + n] = out[n * width + i];
        });
    });
}

// Adds neighbouring groups of G lanes of a and of b and interleaves the sums; log2(kLanes) levels turn as many
// vectors as there are lanes into the vector of their totals.
template <int G, int... I>
Lanes folded(Lanes a, Lanes b, std::integer_sequence<int, I...>) {
    constexpr Bits low = {(I / (2 * G) * 2 * G + I % G + (I % (2 * G) < G ? 0 : kLanes))...};
    return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, low + G);
}

template <int G, int Count>
Lanes totals(const Lanes* v) {
    if constexpr (Count == 1) return *v;
    else
        return folded<G>(totals<G / 2, Count / 2>(v), totals<G / 2, Count / 2>(v + Count / 2),
                         std::make_integer_sequence<int, kLanes>{});
}

template <int... I>
constexpr Bits places(std::integer_sequence<int, I...>) {
    return Bits{I...};
}

// The Rows x N dot products of rows of x with rows of w.
template <int Rows, int N>
void dots(const float* x, const float* w, float* y, int64_t depth, int64_t outputs) {
    Lanes sum[kLanes] = {};
    const auto add = [&](int64_t k, Bits keep) {
        for (int n = 0; n < N; ++n) {
            const Lanes right = (Lanes)((Bits)load(w + n * depth + k) & keep);
            for (int r = 0; r < Rows; ++r) sum[kColumns * r + n] += load(x + r * depth + k) * right;
        }
    };
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) add(k, Bits{} - 1);
    // What is left is done on the last kLanes entries, those that were counted already set to zero.
    constexpr Bits kPlaces = places(std::make_integer_sequence<int, kLanes>{});
    if (k < depth) add(depth - kLanes, kPlaces >= int32_t(k - depth + kLanes));
    const Lanes sums = totals<kLanes / 2, kLanes>(sum);
    for (int r = 0; r < Rows; ++r)
        for (int n = 0; n < N; ++n) y[r * outputs + n] = sums[kColumns * r + n];
}

template <int Rows>
void product(const float* x, const float* w, float* y, int64_t depth, int64_t outputs) {
    constexpr int n = kColumns;
    at::parallel_for(0, outputs / n, 64 / n, [=](int64_t begin, int64_t end) {
        for (int64_t o = n * begin; o < n * end; o += n) dots<Rows, n>(x, w + o * depth, y + o, depth, outputs);
    });
    for (int64_t o = outputs / n * n; o < outputs; ++o) dots<Rows, 1>(x, w + o * depth, y + o, depth, outputs);
}

void few_rows(const Layer& layer, const float* x, float* y, int64_t rows) {
    constexpr decltype(&product<1>) products[] = {product<1>, product<2>, product<3>, product<4>};
    auto scratch = torch::empty({2 * 4 * layer.hidden});
    float *gate = scratch.mutable_data_ptr<float>(), *up = gate + 4 * layer.hidden;
    for (int64_t r = 0; r < rows; r += 4) {
        const int64_t count = std::min<int64_t>(4, rows - r);
        const auto rows_product = products[count - 1];
        rows_product(x + r * layer.features, layer.gate, gate, layer.features, layer.hidden);
        rows_product(x + r * layer.features, layer.up, up, layer.features, layer.hidden);
        gated(gate, up, count * layer.hidden);
        rows_product(gate, layer.down, y + r * layer.features, layer.hidden, layer.features);
    }
}

bool library_is_faster(int64_t rows) {
    return rows > kLibraryRows && __builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f");
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_proj, torch::Tensor up_proj, torch::Tensor down_proj) {
    TORCH_CHECK(x.is_contiguous() && gate_proj.is_contiguous() && up_proj.is_contiguous() && down_proj.is_contiguous(),
                "all arguments must be contiguous");
    const Layer layer{gate_proj.const_data_ptr<float>(), up_proj.const_data_ptr<float>(),
                      down_proj.const_data_ptr<float>(), gate_proj.size(1), gate_proj.size(0)};
    TORCH_CHECK(std::min(layer.features, layer.hidden) >= kLanes, "fewer features than lanes");
    auto y = torch::empty_like(x);
    const int64_t rows = x.numel() / layer.features;
    if (library_is_faster(rows)) {
        const auto flat = x.view({rows, layer.features});
        auto gate = at::mm(flat, gate_proj.t()), up = at::mm(flat, up_proj.t());
        gated(gate.mutable_data_ptr<float>(), up.const_data_ptr<float>(), rows * layer.hidden);
        auto flat_y = y.view({rows, layer.features});
        at::mm_out(flat_y, gate, down_proj.t());
        return y;
    }
    const int64_t rest = rows % kLanes <= kFewRows ? rows % kLanes : 0;
    const float* px = x.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    if (rows > rest) many_rows(layer, px, py, rows - rest);
    few_rows(layer, px + (rows - rest) * layer.features, py + (rows - rest) * layer.features, rest);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "llama_ffw/forward"); }
