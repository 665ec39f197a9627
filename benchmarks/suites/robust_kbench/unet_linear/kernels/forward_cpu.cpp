// Linear layer at every position of a feature map: y = x W^T + b over the last axis.
//
// Bound by arithmetic: there are many rows (batch x 256 positions) and few features.
// Work:     the weights are transposed once into panels of two vectors, [panel][input][output], which pays because
//           every row uses them. A tile of 12 rows x 32 outputs (6 x 16 without AVX-512) is then summed in registers
//           that start out holding the bias: x is only broadcast, and no sum is taken across a vector. The next rows
//           are fetched one line at a time meanwhile, since x comes from memory and its rows are short. (Without this,
//           g++ also exchanges the loops and keeps the sums in memory.)
// Dispatch: rows are shared out between the threads, in chunks of 96 that stay in the cache while the panels pass by.
//           The last rows and the last outputs are covered by tiles that overlap their neighbours, so that every store
//           is a whole vector; an odd number of vectors leaves one panel half as wide.
// Limits:   float32, contiguous; at least twelve rows and sixteen outputs; scratch of the size of the weights. No
//           blocking along the summed axis: several hundred input features would want it.
#include <torch/extension.h>

namespace {

// AVX-512 has 32 registers of sixteen floats; what is written for others has sixteen registers of eight.
#ifdef __AVX512F__
constexpr int kLanes = 16, kRows = 12;
#else
constexpr int kLanes = 8, kRows = 6;
#endif
constexpr int kChunk = 96;  // a multiple of kRows
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

struct Layer {
    const float *panels, *biases;
    int64_t inputs, outputs;
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
void store(float* to, Lanes value) { *reinterpret_cast<Lanes*>(to) = value; }

// Where vector v of the outputs begins; the last one overlaps its neighbour.
int64_t first_output(int64_t v, int64_t outputs) { return std::min(v * kLanes, outputs - kLanes); }

// kRows rows times vectors v and, of a pair, v + 1.
template <int Vectors>
void tile(const float* x, float* y, const Layer& layer, int64_t v) {
    constexpr int width = Vectors * kLanes;
    const int64_t inputs = layer.inputs;
    const float* panel = layer.panels + v * kLanes * inputs;
    Lanes sum[kRows][Vectors];
    for (int r = 0; r < kRows; ++r)
        for (int i = 0; i < Vectors; ++i) sum[r][i] = load(layer.biases + first_output(v + i, layer.outputs));
    for (int r = 0; r < kRows; ++r)
        for (int i = 0; i < Vectors; ++i)
            __builtin_prefetch(y + (kRows + r) * layer.outputs + first_output(v + i, layer.outputs), 1);
    for (int64_t k = 0; k < inputs; ++k) {
        if (v == 0) __builtin_prefetch(x + kRows * (inputs + k));  // a line of the next kRows rows
        for (int r = 0; r < kRows; ++r)
            for (int i = 0; i < Vectors; ++i) sum[r][i] += x[r * inputs + k] * load(panel + k * width + i * kLanes);
    }
    for (int r = 0; r < kRows; ++r)
        for (int i = 0; i < Vectors; ++i)
            store(y + r * layer.outputs + first_output(v + i, layer.outputs), sum[r][i]);
}

template <int Vectors>
void column(const float* x, float* y, const Layer& layer, int64_t v, int64_t rows) {
    for (int64_t next = 0; next < rows; next += kRows) {
        const int64_t r = std::min(next, rows - kRows);
        tile<Vectors>(x + r * layer.inputs, y + r * layer.outputs, layer, v);
    }
}

void chunk(const float* x, float* y, const Layer& layer, int64_t rows) {
    const int64_t vectors = (layer.outputs + kLanes - 1) / kLanes;
    for (int64_t v = 0; v + 2 <= vectors; v += 2) column<2>(x, y, layer, v, rows);
    if (vectors % 2) column<1>(x, y, layer, vectors - 1, rows);
}

// All chunks but the last, which may be longer, have kChunk rows.
void rows_of_layer(const float* x, float* y, const Layer& layer, int64_t rows) {
    for (; rows >= kChunk + kRows; rows -= kChunk, x += kChunk * layer.inputs, y += kChunk * layer.outputs)
        chunk(x, y, layer, kChunk);
    chunk(x, y, layer, rows);
}

torch::Tensor packed(const torch::Tensor& weights) {
    const int64_t outputs = weights.size(0), inputs = weights.size(1), vectors = (outputs + kLanes - 1) / kLanes;
    auto panels = torch::empty({vectors * kLanes * inputs}, weights.options());
    const float* from = weights.const_data_ptr<float>();
    float* to = panels.mutable_data_ptr<float>();
    for (int64_t v = 0; v < vectors; ++v) {
        const int64_t width = v + 1 == vectors && v % 2 == 0 ? kLanes : 2 * kLanes, o = first_output(v, outputs);
        float* panel = to + v / 2 * 2 * kLanes * inputs + v % 2 * kLanes;
        for (int64_t k = 0; k < inputs; ++k)
            for (int64_t i = 0; i < kLanes; ++i) panel[k * width + i] = from[(o + i) * inputs + k];
    }
    return panels;
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    const int64_t outputs = weights.size(0), inputs = weights.size(1), rows = x.numel() / inputs;
    TORCH_CHECK(rows >= kRows && outputs >= kLanes, "at least ", kRows, " rows and ", kLanes, " outputs");
    auto y = torch::empty({x.size(0), x.size(1), outputs}, x.options());
    const auto panels = packed(weights);
    const Layer layer{panels.const_data_ptr<float>(), biases.const_data_ptr<float>(), inputs, outputs};
    const float* px = x.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    at::parallel_for(0, rows / kRows, kChunk / kRows, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * kRows, last = end == rows / kRows ? rows : end * kRows;
        rows_of_layer(px + first * inputs, py + first * outputs, layer, last - first);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
