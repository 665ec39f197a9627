// Linear layer at every position of a feature map: y = x W^T + b over the last axis.
//
// Bound by arithmetic: there are many rows (batch x 256 positions) and few features.
// Work:     the weights are packed once into panels of sixteen outputs, [panel][input][output], which pays because
//           every row uses them. Then a tile of 4 rows x 4 panels is summed in sixteen vector registers that start
//           out holding the bias: x is only broadcast, and no sum has to be taken across a vector.
// Dispatch: rows are shared out between the threads. What is left of the panels goes in tiles of 8 rows x 2 panels or
//           16 rows x 1 panel, so that sixteen registers stay busy; the last rows are covered by tiles that overlap.
// Limits:   float32, contiguous; scratch of the size of the weights. No blocking along the summed axis: several
//           thousand input features would want it.
#include <torch/extension.h>

#include <vector>

namespace {

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

struct Layer {
    std::vector<float> weights, biases;  // packed; both padded with zeros to whole panels
    int64_t inputs, outputs;
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

void store(Lanes value, float* to, int64_t count) {
    if (count >= kLanes) *reinterpret_cast<Lanes*>(to) = value;
    else
        for (int64_t i = 0; i < count; ++i) to[i] = value[i];
}

template <int Rows, int Panels>
void tile(const float* x, float* y, const Layer& layer, int64_t first) {
    const float* weights = layer.weights.data() + first * layer.inputs;
    Lanes sum[Rows][Panels];
    for (int r = 0; r < Rows; ++r)
        for (int p = 0; p < Panels; ++p) sum[r][p] = load(layer.biases.data() + first + p * kLanes);
    for (int64_t k = 0; k < layer.inputs; ++k) {
        Lanes weight[Panels];
        for (int p = 0; p < Panels; ++p) weight[p] = load(weights + (p * layer.inputs + k) * kLanes);
        for (int r = 0; r < Rows; ++r)
            for (int p = 0; p < Panels; ++p) sum[r][p] += x[r * layer.inputs + k] * weight[p];
    }
    for (int r = 0; r < Rows; ++r)
        for (int p = 0; p < Panels; ++p) {
            const int64_t o = first + p * kLanes;
            store(sum[r][p], y + r * layer.outputs + o, layer.outputs - o);
        }
}

// All rows for the outputs from `first`. The last rows are done together even if some of them were done before.
template <int Rows, int Panels>
void column(const float* x, float* y, const Layer& layer, int64_t first, int64_t rows) {
    for (int64_t r = 0; rows < Rows && r < rows; ++r)
        tile<1, Panels>(x + r * layer.inputs, y + r * layer.outputs, layer, first);
    for (int64_t next = 0; rows >= Rows && next < rows; next += Rows) {
        const int64_t r = std::min(next, rows - Rows);
        tile<Rows, Panels>(x + r * layer.inputs, y + r * layer.outputs, layer, first);
    }
}

void rows_of_layer(const float* x, float* y, const Layer& layer, int64_t rows) {
    const int64_t padded = int64_t(layer.biases.size());
    int64_t o = 0;
    for (; o + 4 * kLanes <= padded; o += 4 * kLanes) column<4, 4>(x, y, layer, o, rows);
    for (; o + 2 * kLanes <= padded; o += 2 * kLanes) column<8, 2>(x, y, layer, o, rows);
    for (; o < padded; o += kLanes) column<16, 1>(x, y, layer, o, rows);
}

Layer packed(const float* weights, const float* biases, int64_t outputs, int64_t inputs) {
    const int64_t padded = (outputs + kLanes - 1) / kLanes * kLanes;
    Layer layer{std::vector<float>(padded * inputs), std::vector<float>(padded), inputs, outputs};
    std::copy_n(biases, outputs, layer.biases.begin());
    for (int64_t o = 0; o < outputs; ++o) {
        float* panel = layer.weights.data() + o / kLanes * kLanes * inputs + o % kLanes;
        for (int64_t k = 0; k < inputs; ++k) panel[k * kLanes] = weights[o * inputs + k];
    }
    return layer;
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    const int64_t outputs = weights.size(0), inputs = weights.size(1), rows = x.numel() / inputs;
    auto y = torch::empty({x.size(0), x.size(1), outputs}, x.options());
    const Layer layer = packed(weights.const_data_ptr<float>(), biases.const_data_ptr<float>(), outputs, inputs);
    const float* px = x.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(16, 131072 / (inputs * outputs)), [&](int64_t begin, int64_t end) {
        rows_of_layer(px + begin * inputs, py + begin * outputs, layer, end - begin);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
