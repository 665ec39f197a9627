// Residual block with batch norms in evaluation mode.
//
// Bound by the arithmetic of the convolutions, so at stride 1 it does less of it: after Winograd, F(2x2, 3x3), a tile
// of 2 x 2 results takes 16 multiplications per pair of channels instead of 36. float32 keeps enough of its accuracy.
// Work:     a batch norm with fixed statistics is a factor and a shift per channel: the factor goes into the weights,
//           and shift, shortcut and relu are added where the convolution writes its results, so no pass over the
//           feature maps is left but the convolutions. In these, tiles lie in the lanes of vectors: thirty-two tiles at
//           a time are transformed for all input channels; for each of the 16 places in a tile a matrix product runs
//           over the input channels, its block of up to 13 outputs x 32 tiles (6 x 16 without AVX-512) in registers;
//           what it leaves in the first-level cache is transformed back and written.
// Dispatch: stride 2, the 1 x 1 convolution and small images have tiles of one result, and one product over input
//           channels x taps. Groups of 32 tiles are shared out between the threads. Where many weights serve few
//           results, rearranging them costs too much: torch's library convolves, and one pass does the rest.
// Limits:   float32, contiguous; scratch for a padded copy of the input of a convolution, with the columns of one phase
//           side by side, and for its transformed weights.
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace {

// AVX-512 has 32 registers of sixteen floats; what is written for others has sixteen registers of eight.
#ifdef __AVX512F__
constexpr int kLanes = 16, kMostRows = 13;
#else
constexpr int kLanes = 8, kMostRows = 6;
#endif
constexpr int kTiles = 2 * kLanes, kTaps = 9;
constexpr int kPitch = kTiles + kLanes;  // of the tiles of a group: a vector may begin at the last one
constexpr int64_t kFewTiles = 32;        // per image: fewer do not repay the transform of the weights
constexpr int64_t kManyWeights = 32768;  // for no more than twice kFewTiles results of a channel
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int32_t Order __attribute__((vector_size(kLanes * sizeof(int32_t))));
template <int... I>
constexpr Order interleaved(std::integer_sequence<int, I...>) {
    return Order{(I / 2 + I % 2 * kLanes)...};
}
constexpr Order kLower = interleaved(std::make_integer_sequence<int, kLanes>{}), kUpper = kLower + kLanes / 2;

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
void store(float* to, Lanes v) { *reinterpret_cast<Lanes*>(to) = v; }

using Scratch = std::unique_ptr<float[]>;
Scratch scratch(int64_t size) { return std::make_unique_for_overwrite<float[]>(size); }

struct Shape {
    int64_t images, inputs, height, width, outputs, out_height, out_width, stride, side;
    bool winograd;
    int64_t padding() const { return side / 2; }
    int64_t taps() const { return side * side; }
    int64_t tile() const { return winograd ? 2 : 1; }   // results per tile and axis
    int64_t step() const { return tile() * stride; }    // columns of x from one tile to the next
    int64_t reach() const { return winograd ? 4 : side; }  // columns of x that a tile needs
    int64_t products() const { return winograd ? 16 : 1; }
    int64_t depth() const { return winograd ? inputs : inputs * taps(); }
    int64_t tile_rows() const { return (out_height + tile() - 1) / tile(); }
    int64_t tile_columns() const { return (out_width + tile() - 1) / tile(); }
    int64_t tiles() const { return tile_rows() * tile_columns(); }
    int64_t groups() const { return (tiles() + kTiles - 1) / kTiles; }  // per image
    int64_t panels() const { return (outputs + kMostRows - 1) / kMostRows; }
    int64_t panel_rows() const { return (outputs + panels() - 1) / panels(); }
    int64_t panel_size() const { return products() * depth() * kLanes; }
    // the padded copy of x: [image][channel][row][phase = column % step][column / step]
    int64_t pitch() const { return tile_columns() + (reach() - 1) / step(); }
    int64_t padded_height() const { return step() * (tile_rows() - 1) + reach(); }
    int64_t padded_row() const { return step() * pitch(); }
    int64_t padded_plane() const { return padded_height() * padded_row(); }
    int64_t product_size() const { return depth() * kPitch + kLanes; }  // odd lines: products spread over the cache
};

// Every `Step`-th column of a line, phase after phase.
template <int Step>
void split(const float* __restrict__ line, float* __restrict__ to, int64_t pitch) {
    for (int phase = 0; phase < Step; ++phase)
#pragma omp simd
        for (int64_t i = 0; i < pitch; ++i) to[phase * pitch + i] = line[i * Step + phase];
}

void pad_plane(const float* x, float* padded, const Shape& s) {
    const int64_t step = s.step(), pitch = s.pitch(), size = s.padded_row();
    std::vector<float> line(std::max(size, s.width + 2 * s.padding()), 0.0f);
    for (int64_t row = -s.padding(); row < s.padded_height() - s.padding(); ++row, padded += size) {
        if (row < 0 || row >= s.height) {
            std::fill_n(padded, size, 0.0f);
            continue;
        }
        std::copy_n(x + row * s.width, s.width, line.data() + s.padding());
        if (step == 2) {
            split<2>(line.data(), padded, pitch);
            continue;
        }
        for (int64_t i = 0; i < size; ++i) padded[i % step * pitch + i / step] = line[i];
    }
}

// One axis of G g Gt: three values become four.
void transform_weights(const Lanes* g, int apart, Lanes* to) {
    const Lanes even = 0.5f * (g[0] + g[2 * apart]), odd = 0.5f * g[apart];
    to[0] = g[0], to[1] = even + odd, to[2] = even - odd, to[3] = g[2 * apart];
}

// A square of vectors. Each round is a perfect shuffle of all values; log2(kLanes) of them swap rows and columns.
void transpose(Lanes (&m)[kLanes]) {
    for (int rest = kLanes; rest > 1; rest /= 2) {
        Lanes next[kLanes];
        for (int i = 0; i < kLanes / 2; ++i) {
            next[2 * i] = __builtin_shuffle(m[i], m[i + kLanes / 2], kLower);
            next[2 * i + 1] = __builtin_shuffle(m[i], m[i + kLanes / 2], kUpper);
        }
        std::copy_n(next, kLanes, m);
    }
}

// Up to kLanes rows of `size` values, each times its factor, become `size` vectors, a row in each lane.
void columns_of(const float* from, const float* factor, int64_t rows, int64_t size, float* to) {
    for (int64_t k = 0; k < size; k += kLanes) {
        const int64_t first = std::max<int64_t>(0, std::min(k, size - kLanes)), count = std::min<int64_t>(kLanes, size);
        Lanes m[kLanes] = {};
        for (int64_t r = 0; r < rows; ++r) {
            if (count == kLanes) m[r] = load(from + r * size + first);
            else std::copy_n(from + r * size, count, reinterpret_cast<float*>(&m[r]));
            m[r] *= factor[r];
        }
        transpose(m);
        for (int64_t i = 0; i < count; ++i) store(to + (first + i) * kLanes, m[i]);
    }
}

// The weights times the factors as [panel][product][depth][row of the panel], with room for kLanes rows.
void pack_weights(const float* weights, const float* factor, float* to, int64_t panel, const Shape& s) {
    const int64_t first = panel * s.panel_rows(), rows = std::min(s.panel_rows(), s.outputs - first);
    const int64_t size = s.inputs * s.taps();
    if (!s.winograd) return columns_of(weights + first * size, factor + first, rows, size, to);
    const Scratch columns = scratch(size * kLanes);
    columns_of(weights + first * size, factor + first, rows, size, columns.get());
    for (int64_t i = 0; i < s.inputs; ++i) {
        Lanes g[kTaps], half[3][4], row[4];
        for (int t = 0; t < kTaps; ++t) g[t] = load(columns.get() + (i * kTaps + t) * kLanes);
        for (int c = 0; c < 3; ++c) transform_weights(g + c, 3, half[c]);
        for (int r = 0; r < 4; ++r) {
            transform_weights(&half[0][r], 4, row);
            for (int c = 0; c < 4; ++c) store(to + ((4 * r + c) * s.inputs + i) * kLanes, row[c]);
        }
    }
}

// Tiles side by side, at most kLanes; `at` is the place of the first one in its group.
struct Run {
    int64_t row, column, length, at;
};

std::vector<Run> runs_of(int64_t group, const Shape& s) {
    std::vector<Run> runs;
    const int64_t first = group * kTiles, last = std::min(first + kTiles, s.tiles());
    for (int64_t t = first; t < last; t += runs.back().length) {
        const int64_t column = t % s.tile_columns();
        runs.push_back({t / s.tile_columns(), column,
                        std::min({int64_t(kLanes), s.tile_columns() - column, last - t}), t - first});
    }
    return runs;
}

// Bt d B for the tiles at `x`: sixteen vectors, `apart` from each other.
void transform_tiles(const float* x, float* to, int64_t apart, const Shape& s) {
    Lanes d[4][4];
    for (int r = 0; r < 4; ++r, x += s.padded_row()) {
        const Lanes a = load(x), b = load(x + s.pitch()), c = load(x + 1), e = load(x + s.pitch() + 1);
        d[r][0] = a - c, d[r][1] = b + c, d[r][2] = c - b, d[r][3] = b - e;
    }
    for (int c = 0; c < 4; ++c) {
        store(to + c * apart, d[0][c] - d[2][c]);
        store(to + (4 + c) * apart, d[1][c] + d[2][c]);
        store(to + (8 + c) * apart, d[2][c] - d[1][c]);
        store(to + (12 + c) * apart, d[1][c] - d[3][c]);
    }
}

// The taps of sixteen results, whose first one is at `x`.
void gather_taps(const float* x, float* to, const Shape& s) {
    for (int64_t r = 0; r < s.side; ++r)
        for (int64_t c = 0; c < s.side; ++c)
            store(to + (s.side * r + c) * kPitch,
                  load(x + r * s.padded_row() + c % s.stride * s.pitch() + c / s.stride));
}

// A group of tiles as [product][depth][tile].
void gather(const float* image, const std::vector<Run>& runs, float* to, const Shape& s) {
    for (int64_t i = 0; i < s.inputs; ++i)
        for (const Run& run : runs) {
            const float* x = image + i * s.padded_plane() + run.row * s.step() * s.padded_row() + run.column;
            if (s.winograd) transform_tiles(x, to + i * kPitch + run.at, s.product_size(), s);
            else gather_taps(x, to + i * s.taps() * kPitch + run.at, s);
        }
}

// Rows x (Vectors * kLanes) block of a product.
template <int Rows, int Vectors>
void product(const float* weights, const float* tiles, int64_t depth, float* result) {
    Lanes sum[Rows][Vectors] = {};
    for (int64_t k = 0; k < depth; ++k)
#pragma GCC unroll 16  // else g++ may unroll over k, and keeps the sums in memory
        for (int r = 0; r < Rows; ++r)
            for (int v = 0; v < Vectors; ++v)
                sum[r][v] += weights[k * kLanes + r] * load(tiles + k * kPitch + v * kLanes);
    for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < Vectors; ++v) store(result + r * kTiles + v * kLanes, sum[r][v]);
}

using Product = void (*)(const float*, const float*, int64_t, float*);

template <int Vectors, int... Index>
Product product_of(int64_t rows, std::integer_sequence<int, Index...>) {
    static constexpr Product all[] = {product<Index + 1, Vectors>...};
    return all[rows - 1];
}

// What becomes of the sums: + shift of the output, + shortcut, relu.
struct Ending {
    const float *shift, *shortcut;  // no shortcut: null
    bool relu;
    float* y;

    void put(const float* line, int64_t count, int64_t at) const {
        const float floor = relu ? 0.0f : std::numeric_limits<float>::lowest();
        float* to = y + at;
        const float* add = shortcut + at;
        if (shortcut)
            for (int64_t i = 0; i < count; ++i) to[i] = std::max(line[i] + add[i], floor);
        else
            for (int64_t i = 0; i < count; ++i) to[i] = std::max(line[i], floor);
    }
};

// At Mt: the 2 x 2 results of sixteen tiles, whose entries are `apart`; `count` columns of `rows` rows are wanted.
void transform_back(const float* m, int64_t apart, float shift, const Ending& ending, int64_t at, int64_t rows,
                    int64_t count, const Shape& s) {
    Lanes half[2][4];
    for (int c = 0; c < 4; ++c) {
        const Lanes a = load(m + c * apart), b = load(m + (4 + c) * apart), d = load(m + (8 + c) * apart);
        half[0][c] = a + b + d, half[1][c] = b - d - load(m + (12 + c) * apart);
    }
    for (int r = 0; r < rows; ++r) {
        const Lanes *h = half[r], left = h[0] + h[1] + h[2] + shift, right = h[1] - h[2] - h[3] + shift;
        float line[kTiles];
        store(line, __builtin_shuffle(left, right, kLower));
        store(line + kLanes, __builtin_shuffle(left, right, kUpper));
        ending.put(line, count, at + r * s.out_width);
    }
}

// Results of one run of tiles for one plane of y, of which `m` holds the products.
void finish(const float* m, const Run& run, const Ending& ending, int64_t plane, const Shape& s) {
    const int64_t row = run.row * s.tile(), column = run.column * s.tile();
    const int64_t at = (plane * s.out_height + row) * s.out_width + column;
    const float shift = ending.shift[plane % s.outputs];
    if (s.winograd)
        return transform_back(m, s.panel_rows() * kTiles, shift, ending, at, std::min<int64_t>(2, s.out_height - row),
                              std::min(2 * run.length, s.out_width - column), s);
    float line[kLanes];
    store(line, load(m) + shift);
    ending.put(line, run.length, at);
}

struct Group {
    Scratch tiles, results;
    explicit Group(const Shape& s)
        : tiles(scratch(s.products() * s.product_size())),
          results(scratch(s.products() * s.panel_rows() * kTiles + kLanes)) {}

    void run(const float* padded, const float* weights, const Ending& ending, int64_t number, const Shape& s) {
        const int64_t n = number / s.groups(), group = number % s.groups();
        const std::vector<Run> runs = runs_of(group, s);
        const int64_t rows = s.panel_rows(), used = runs.back().at + runs.back().length;
        const auto all = std::make_integer_sequence<int, kMostRows>{};
        const Product product = used > kLanes ? product_of<2>(rows, all) : product_of<1>(rows, all);
        gather(padded + n * s.inputs * s.padded_plane(), runs, tiles.get(), s);
        for (int64_t o = 0; o < s.outputs; o += rows) {
            for (int64_t p = 0; p < s.products(); ++p, weights += s.depth() * kLanes)
                product(weights, tiles.get() + p * s.product_size(), s.depth(), results.get() + p * rows * kTiles);
            for (int64_t r = o; r < std::min(o + rows, s.outputs); ++r)
                for (const Run& run : runs)
                    finish(results.get() + (r - o) * kTiles + run.at, run, ending, n * s.outputs + r, s);
        }
    }
};

using Optional = std::optional<torch::Tensor>;

// A batch norm with fixed statistics: x -> factor x + shift, per channel.
struct Norm {
    std::vector<float> factor, shift;
    Norm(const torch::Tensor& scale, const torch::Tensor& shift_, const torch::Tensor& mean,
         const torch::Tensor& variance, double eps)
        : factor(scale.numel()), shift(scale.numel()) {
        const float *a = scale.const_data_ptr<float>(), *b = shift_.const_data_ptr<float>(),
                    *m = mean.const_data_ptr<float>(), *v = variance.const_data_ptr<float>();
        for (size_t c = 0; c < factor.size(); ++c) {
            const double f = a[c] / std::sqrt(v[c] + eps);
            factor[c] = float(f), shift[c] = float(b[c] - m[c] * f);
        }
    }
};

// y becomes factor y + shift + shortcut, then relu if wanted.
void normalize(torch::Tensor& y, const Norm& norm, const Optional& shortcut, bool relu) {
    const int64_t plane = y.size(2) * y.size(3);
    const float* added = shortcut ? shortcut->const_data_ptr<float>() : nullptr;
    float* values = y.mutable_data_ptr<float>();
    const float least = relu ? 0.0f : -std::numeric_limits<float>::infinity();
    for (int64_t p = 0; p < y.size(0) * y.size(1); ++p) {
        const float factor = norm.factor[p % y.size(1)], shift = norm.shift[p % y.size(1)];
        for (int64_t i = p * plane; i < (p + 1) * plane; ++i)
            values[i] = std::max(least, factor * values[i] + shift + (added ? added[i] : 0.0f));
    }
}

// A convolution, its norm, the shortcut if there is one, and relu if wanted.
torch::Tensor convolution(torch::Tensor x, torch::Tensor weights, const Norm& norm, const Optional& shortcut, bool relu,
                          int64_t stride) {
    x = x.contiguous(), weights = weights.contiguous();
    Shape s{x.size(0), x.size(1), x.size(2), x.size(3), weights.size(0), (x.size(2) - 1) / stride + 1,
            (x.size(3) - 1) / stride + 1, stride, weights.size(2), false};
    if (weights.numel() >= kManyWeights && s.images * s.out_height * s.out_width <= 2 * kFewTiles) {
        const int64_t margin = s.side / 2;
        auto y = at::conv2d(x, weights, {}, {stride, stride}, {margin, margin}).contiguous();
        normalize(y, norm, shortcut, relu);
        return y;
    }
    s.winograd = s.stride == 1 && s.side == 3 && s.out_height * s.out_width >= 4 * kFewTiles;
    auto y = torch::empty({s.images, s.outputs, s.out_height, s.out_width}, x.options());
    const auto packed = scratch(s.panels() * s.panel_size()),
               copy = scratch(s.images * s.inputs * s.padded_plane() + kLanes);
    const float *px = x.const_data_ptr<float>(), *pw = weights.const_data_ptr<float>();
    float *w = packed.get(), *padded = copy.get();
    const Ending ending{norm.shift.data(), shortcut ? shortcut->const_data_ptr<float>() : nullptr, relu,
                        y.mutable_data_ptr<float>()};
    at::parallel_for(0, s.panels(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) pack_weights(pw, norm.factor.data(), w + p * s.panel_size(), p, s);
    });
    at::parallel_for(0, s.images * s.inputs, 16, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) pad_plane(px + p * s.height * s.width, padded + p * s.padded_plane(), s);
    });
    at::parallel_for(0, s.images * s.groups(), 1, [&](int64_t begin, int64_t end) {
        Group group(s);
        for (int64_t g = begin; g < end; ++g) group.run(padded, w, ending, g, s);
    });
    return y;
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor conv1_weight, Optional conv1_bias, torch::Tensor bn1_weight,
                      torch::Tensor bn1_bias, torch::Tensor bn1_mean, torch::Tensor bn1_var, torch::Tensor conv2_weight,
                      Optional conv2_bias, torch::Tensor bn2_weight, torch::Tensor bn2_bias, torch::Tensor bn2_mean,
                      torch::Tensor bn2_var, Optional downsample_weight, Optional downsample_bias,
                      Optional downsample_bn_weight, Optional downsample_bn_bias, Optional downsample_bn_mean,
                      Optional downsample_bn_var, int64_t stride, double eps) {
    TORCH_CHECK(!conv1_bias && !conv2_bias && !downsample_bias, "the convolutions of this block have no bias");
    const Norm norm1(bn1_weight, bn1_bias, bn1_mean, bn1_var, eps), norm2(bn2_weight, bn2_bias, bn2_mean, bn2_var, eps);
    const auto hidden = convolution(x, conv1_weight, norm1, {}, true, stride);
    if (!downsample_weight) return convolution(hidden, conv2_weight, norm2, x.contiguous(), true, 1);
    const Norm norm(*downsample_bn_weight, *downsample_bn_bias, *downsample_bn_mean, *downsample_bn_var, eps);
    const auto shortcut = convolution(x, *downsample_weight, norm, {}, false, stride);
    return convolution(hidden, conv2_weight, norm2, shortcut, true, 1);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "resnet_block/forward"); }
