// Linear layer at every position of a feature map: y = x W^T + b over the last axis.
//
// Bound by arithmetic: there are many rows (batch x 256 positions) and few features.
// Work:     the weights are transposed once into scratch, which pays because every row uses them. Then a tile of 4 rows x
//           64 outputs is summed in sixteen vector registers that start out holding the bias, so x is only ever
//           broadcast, sixteen outputs share each of its values, and no sum has to be taken across a vector.
// Dispatch: rows are shared out between the threads. Tiles are 4 x 64, 8 x 32 or 16 x 16, always sixteen registers;
//           edges are covered by tiles that overlap. Fewer than sixteen outputs go one by one.
// Limits:   float32, contiguous; scratch of the size of the weights. No blocking along the summed axis: several thousand
//           input features would want it.
#include <torch/extension.h>

#include <vector>

namespace {

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

struct Layer {
    const float *weights, *biases;  // weights: [input][output]
    int64_t inputs, outputs;
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

template <int Rows, int Vectors>
void tile(const float* x, float* y, const Layer& layer, int64_t first) {
    Lanes sum[Rows][Vectors];
    for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < Vectors; ++v) sum[r][v] = load(layer.biases + first + v * kLanes);
    for (int64_t k = 0; k < layer.inputs; ++k) {
        Lanes weight[Vectors];
        for (int v = 0; v < Vectors; ++v) weight[v] = load(layer.weights + k * layer.outputs + first + v * kLanes);
        for (int r = 0; r < Rows; ++r)
            for (int v = 0; v < Vectors; ++v) sum[r][v] += x[r * layer.inputs + k] * weight[v];
    }
    for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < Vectors; ++v) *reinterpret_cast<Lanes*>(y + r * layer.outputs + first + v * kLanes) = sum[r][v];
}

// Outputs in blocks of `Vectors` vectors, rows in blocks of `Rows`; the last block of each overlaps the one before.
template <int Rows, int Vectors>
void blocks(const float* x, float* y, const Layer& layer, int64_t rows) {
    for (int64_t next_output = 0; next_output < layer.outputs; next_output += Vectors * kLanes) {
        const int64_t o = std::min(next_output, layer.outputs - Vectors * kLanes);
        for (int64_t r = 0; rows < Rows && r < rows; ++r)
            tile<1, Vectors>(x + r * layer.inputs, y + r * layer.outputs, layer, o);
        for (int64_t next_row = 0; rows >= Rows && next_row < rows; next_row += Rows) {
            const int64_t r = std::min(next_row, rows - Rows);
            tile<Rows, Vectors>(x + r * layer.inputs, y + r * layer.outputs, layer, o);
        }
    }
}

void one_output(const float* x, float* y, const Layer& layer, int64_t o, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
        float sum = layer.biases[o];
        for (int64_t k = 0; k < layer.inputs; ++k) sum += x[r * layer.inputs + k] * layer.weights[k * layer.outputs + o];
        y[r * layer.outputs + o] = sum;
    }
}

void rows_of_layer(const float* x, float* y, const Layer& layer, int64_t rows) {
    if (layer.outputs >= 4 * kLanes) return blocks<4, 4>(x, y, layer, rows);
    if (layer.outputs >= 2 * kLanes) return blocks<8, 2>(x, y, layer, rows);
    if (layer.outputs >= kLanes) return blocks<16, 1>(x, y, layer, rows);
    for (int64_t o = 0; o < layer.outputs; ++o) one_output(x, y, layer, o, rows);
}

std::vector<float> transposed(const float* weights, int64_t outputs, int64_t inputs) {
    std::vector<float> result(outputs * inputs);
    for (int64_t first = 0; first < inputs; first += kLanes)
        for (int64_t o = 0; o < outputs; ++o)
            for (int64_t k = first; k < std::min<int64_t>(first + kLanes, inputs); ++k)
                result[k * outputs + o] = weights[o * inputs + k];
    return result;
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    const int64_t outputs = weights.size(0), inputs = weights.size(1), rows = x.numel() / inputs;
    auto y = torch::empty({x.size(0), x.size(1), outputs}, x.options());
    const std::vector<float> by_input = transposed(weights.const_data_ptr<float>(), outputs, inputs);
    const Layer layer{by_input.data(), biases.const_data_ptr<float>(), inputs, outputs};
    const float* px = x.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(16, 131072 / (inputs * outputs)), [=](int64_t begin, int64_t end) {
        rows_of_layer(px + begin * inputs, py + begin * outputs, layer, end - begin);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
