// Linear layer and relu: y = max(0, x W^T + b).
//
// Bound by arithmetic for many rows, by reading the weights for few.
// Work:     sixteen rows of x (eight without AVX-512) lie in one vector, so x is transposed once, and the weights are
//           used as they lie: a tile of 12 outputs x 32 rows (6 x 16) is summed in registers while every weight is
//           broadcast (14 loads feed 24 multiply-adds). The summed axis goes in blocks of 512, so that the rows of a
//           panel stay in the cache; the sums so far are kept transposed, and the last block turns them back and adds
//           bias and relu.
// Dispatch: blocks of outputs are shared out between the threads; all rows pass by while the weights of a block are in
//           the cache and the next ones are fetched. Up to eight rows would leave lanes idle: these are dot products
//           along the rows of the weights, 4 rows x 4 outputs (4 x 2) at a time.
// Limits:   float32, contiguous; at least a vector of features; scratch of the size of x and of y.
#include <torch/extension.h>

#include <utility>

namespace {

// AVX-512 has 32 registers of sixteen floats; what is written for others has sixteen registers of eight.
#ifdef __AVX512F__
constexpr int kLanes = 16, kOutputs = 12;
#else
constexpr int kLanes = 8, kOutputs = 6;
#endif
constexpr int kFewRows = 8, kBlock = 512, kColumns = kLanes / 4;  // a tile of dot products has four rows
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(kLanes * sizeof(int32_t))));
template <int... I>
constexpr Bits counted(std::integer_sequence<int, I...>) {
    return Bits{I...};
}
constexpr Bits kPlaces = counted(std::make_integer_sequence<int, kLanes>{});

struct Layer {
    const float *x, *weights, *biases;
    float* y;
    int64_t rows, depth, outputs;
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
void store(float* to, Lanes value) { *reinterpret_cast<Lanes*>(to) = value; }

// Exchanges the off-diagonal quarters of every 2 G x 2 G square; all levels transpose a square of vectors.
template <int G>
void exchange(Lanes* v) {
    const Bits upper = (kPlaces & G) != 0, low = upper ? kPlaces + (kLanes - G) : kPlaces, high = low + G;
    for (int i = 0; i < kLanes; ++i) {
        if (i & G) continue;
        const Lanes a = v[i], b = v[i + G];
        v[i] = __builtin_shuffle(a, b, low);
        v[i + G] = __builtin_shuffle(a, b, high);
    }
}

template <int G = 1>
void transpose(Lanes* v) {
    exchange<G>(v);
    if constexpr (2 * G < kLanes) transpose<2 * G>(v);
}

// kLanes features from k of up to kLanes rows to panel[feature * width + row]; rows beyond are zero.
void pack(const float* x, float* panel, int64_t rows, int64_t depth, int64_t width) {
    Lanes v[kLanes];
    for (int r = 0; r < kLanes; ++r) v[r] = r < rows ? load(x + r * depth) : Lanes{};
    transpose(v);
    for (int k = 0; k < kLanes; ++k) store(panel + k * width, v[k]);
}

// out[kOutputs][Vectors x kLanes] becomes, or grows by, rows of w times a panel [count][Vectors x kLanes].
template <int Vectors>
void tile(const float* w, const float* panel, float* out, int64_t count, int64_t depth, bool grows) {
    constexpr int width = Vectors * kLanes;
    Lanes sum[kOutputs][Vectors] = {};
    if (grows)
        for (int i = 0; i < kOutputs * Vectors; ++i) sum[i / Vectors][i % Vectors] = load(out + i * kLanes);
    for (int64_t next = 0; next < count; next += kLanes) {
        for (int o = 0; o < kOutputs; ++o) __builtin_prefetch(w + (kOutputs + o) * depth + next);
        for (int64_t k = next; k < std::min(next + kLanes, count); ++k)
            for (int o = 0; o < kOutputs; ++o)
                for (int v = 0; v < Vectors; ++v) sum[o][v] += w[o * depth + k] * load(panel + k * width + v * kLanes);
    }
    for (int i = 0; i < kOutputs * Vectors; ++i) store(out + i * kLanes, sum[i / Vectors][i % Vectors]);
}

// Calls work(tile function, first row, width) for every panel of 2 kLanes rows, and for a last one of kLanes.
template <typename Work>
void each_panel(int64_t padded, const Work& work) {
    int64_t r = 0;
    for (; r + 2 * kLanes <= padded; r += 2 * kLanes) work(tile<2>, r, 2 * kLanes);
    if (r < padded) work(tile<1>, r, kLanes);
}

// Features [begin, end) of all rows, as panels [feature][width]. The last ones may have been packed before.
void pack_block(const Layer& layer, float* panels, int64_t padded, int64_t begin, int64_t end) {
    each_panel(padded, [&](auto*, int64_t first, int64_t width) {
        for (int64_t r = first; r < first + width; r += kLanes)
            for (int64_t next = begin; next < end; next += kLanes) {
                const int64_t k = std::min(next, end - kLanes);
                float* panel = panels + first * (end - begin) + (k - begin) * width + r - first;
                pack(layer.x + r * layer.depth + k, panel, layer.rows - r, layer.depth, width);
            }
    });
}

// A finished tile, turned back, with bias and relu.
void finish(const Layer& layer, const float* sums, int64_t first, int64_t width, int64_t o) {
    for (int64_t r = first; r < std::min(first + width, layer.rows); ++r)
        for (int64_t n = 0; n < kOutputs; ++n)
            layer.y[r * layer.outputs + o + n] = std::max(0.0f, sums[n * width + r - first] + layer.biases[o + n]);
}

void many_rows(const Layer& layer) {
    const int64_t padded = (layer.rows + kLanes - 1) / kLanes * kLanes, depth = layer.depth;
    const int64_t parts = (depth + kBlock - 1) / kBlock, blocks = (layer.outputs + kOutputs - 1) / kOutputs;
    auto scratch = torch::empty({padded * (kBlock + blocks * kOutputs)});
    float *panels = scratch.mutable_data_ptr<float>(), *sums = panels + padded * kBlock;
    for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = depth * part / parts, end = depth * (part + 1) / parts;
        pack_block(layer, panels, padded, begin, end);
        at::parallel_for(0, blocks, 1, [&](int64_t from, int64_t to) {
            for (int64_t block = from; block < to; ++block) {
                const int64_t o = std::min(block * kOutputs, layer.outputs - kOutputs);  // the last block overlaps
                each_panel(padded, [&](auto* product, int64_t r, int64_t width) {
                    float* out = sums + kOutputs * (block * padded + r);
                    const float *w = layer.weights + o * depth + begin, *panel = panels + r * (end - begin);
                    product(w, panel, out, end - begin, depth, part > 0);
                    if (part == parts - 1) finish(layer, out, r, width, o);
                });
            }
        });
    }
}

// Adds neighbouring groups of G lanes of a and of b and interleaves the sums; all levels turn kLanes vectors into
// the vector of their totals.
template <int G>
Lanes folded(Lanes a, Lanes b) {
    const Bits low = kPlaces / (2 * G) * (2 * G) + kPlaces % G + ((kPlaces & G) != 0 & kLanes);
    return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, low + G);
}

template <int G, int Count>
Lanes totals(const Lanes* v) {
    if constexpr (Count == 1) return *v;
    else return folded<G>(totals<G / 2, Count / 2>(v), totals<G / 2, Count / 2>(v + Count / 2));
}

// The dot products of Rows rows of x with N rows of the weights.
template <int Rows, int N>
void dots(const Layer& layer, int64_t row, int64_t o) {
    const float *x = layer.x + row * layer.depth, *w = layer.weights + o * layer.depth;
    Lanes sum[kLanes] = {};
    const auto add = [&](int64_t k, Bits keep) {
        for (int n = 0; n < N; ++n) {
            const Lanes right = (Lanes)((Bits)load(w + n * layer.depth + k) & keep);
            for (int r = 0; r < Rows; ++r) sum[kColumns * r + n] += load(x + r * layer.depth + k) * right;
        }
    };
    int64_t k = 0;
    for (; k + kLanes <= layer.depth; k += kLanes) add(k, Bits{} - 1);
    // What is left is done on the last kLanes entries, those that were counted already set to zero.
    if (k < layer.depth) add(layer.depth - kLanes, kPlaces >= int32_t(k - (layer.depth - kLanes)));
    const Lanes sums = totals<kLanes / 2, kLanes>(sum);
    for (int r = 0; r < Rows; ++r)
        for (int n = 0; n < N; ++n)
            layer.y[(row + r) * layer.outputs + o + n] = std::max(0.0f, sums[kColumns * r + n] + layer.biases[o + n]);
}

// N outputs of all rows.
template <int N>
void column(const Layer& layer, int64_t o) {
    int64_t r = 0;
    for (; r + 4 <= layer.rows; r += 4) dots<4, N>(layer, r, o);
    if (layer.rows - r == 3) dots<3, N>(layer, r, o);
    if (layer.rows - r == 2) dots<2, N>(layer, r, o);
    if (layer.rows - r == 1) dots<1, N>(layer, r, o);
}

void few_rows(const Layer& layer) {
    constexpr int n = kColumns;
    at::parallel_for(0, layer.outputs / n, 16 / n, [&](int64_t begin, int64_t end) {
        for (int64_t o = n * begin; o < n * end; o += n) column<n>(layer, o);
    });
    for (int64_t o = layer.outputs / n * n; o < layer.outputs; ++o) column<1>(layer, o);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
    const Layer layer{x.const_data_ptr<float>(), weights.const_data_ptr<float>(), biases.const_data_ptr<float>(),
                      y.mutable_data_ptr<float>(), x.size(0), weights.size(1), weights.size(0)};
    TORCH_CHECK(layer.depth >= kLanes, "at least ", kLanes, " features");
    if (layer.rows <= kFewRows || layer.outputs < kOutputs) few_rows(layer);
    else many_rows(layer);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
