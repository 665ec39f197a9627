// Backward of a 2 x 2 max-pool: each gradient goes to the place its maximum came from, all other places get zero.
//
// Bound by memory: five floats are read or written per window and input; the comparisons are free beside that.
// Work:     one row of gradients fills two rows of the result in one sweep, so the result is neither cleared first nor
//           scattered into. Among equal values the first in reading order wins, as in PyTorch.
// Dispatch: planes (batch x channels) are shared out between the threads, at least 32768 inputs each.
// Limits:   float32, contiguous; an odd last row or column took part in no window and gets zero.
#include <torch/extension.h>

namespace {

void spread_row(const float* __restrict__ top, const float* __restrict__ low, const float* __restrict__ grad,
                float* __restrict__ out_top, float* __restrict__ out_low, int64_t windows) {
#pragma omp simd
    for (int64_t c = 0; c < windows; ++c) {
        const float a = top[2 * c], b = top[2 * c + 1], d = low[2 * c], e = low[2 * c + 1];
        const float upper = b > a ? b : a, lower = e > d ? e : d;
        const float in_upper = lower > upper ? 0.0f : grad[c], in_lower = lower > upper ? grad[c] : 0.0f;
        out_top[2 * c] = b > a ? 0.0f : in_upper;
        out_top[2 * c + 1] = b > a ? in_upper : 0.0f;
        out_low[2 * c] = e > d ? 0.0f : in_lower;
        out_low[2 * c + 1] = e > d ? in_lower : 0.0f;
    }
}

void spread_plane(const float* x, const float* grad, float* out, int64_t height, int64_t width) {
    for (int64_t r = 0; r + 1 < height; r += 2) {
        const int64_t top = r * width, low = top + width;
        spread_row(x + top, x + low, grad + r / 2 * (width / 2), out + top, out + low, width / 2);
        if (width % 2) out[top + width - 1] = out[low + width - 1] = 0;
    }
    if (height % 2) std::fill_n(out + (height - 1) * width, width, 0.0f);
}

}  // namespace

torch::Tensor backward(std::tuple<torch::Tensor> inputs, torch::Tensor grad_output) {
    const auto x = std::get<0>(inputs).contiguous(), grad = grad_output.contiguous();
    auto grad_x = torch::empty(x.sizes(), x.options());
    const int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
    const int64_t inner = height * width, outer = (height / 2) * (width / 2);
    const float *px = x.const_data_ptr<float>(), *pg = grad.const_data_ptr<float>();
    float* out = grad_x.mutable_data_ptr<float>();
    at::parallel_for(0, planes, std::max<int64_t>(1, 32768 / inner), [=](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p)
            spread_plane(px + p * inner, pg + p * outer, out + p * inner, height, width);
    });
    return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
