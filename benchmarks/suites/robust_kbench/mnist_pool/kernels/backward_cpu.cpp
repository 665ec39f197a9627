// Backward of a 2 x 2 max-pool: each gradient goes to the place its maximum came from, all other places get zero.
//
// Bound by memory: five floats are read or written per window and input; the comparisons are free beside that.
// Work:     one row of gradients fills two rows of the result in one sweep, so the result is neither cleared first nor
//           scattered into. Even and odd columns are taken apart and put together by shuffles, and every choice is a
//           blend: which of four random numbers is the largest is nothing that a processor could predict. Among equal
//           values the first in reading order wins, as in PyTorch.
// Dispatch: the widest vector of 16 (with AVX-512), 8 or 4 windows that fits into a row; the last one of a row ends
//           with the row and does some windows twice. Rows of fewer windows go one by one. Planes (batch x channels)
//           are shared out between the threads, at least 32768 inputs each.
// Limits:   float32, contiguous; an odd last row or column took part in no window and gets zero.
#include <torch/extension.h>

#include <utility>

namespace {

// The two rows of one row of windows, of x and of the result.
struct Rows {
    const float *top, *low, *grad;
    float *out_top, *out_low;
};

template <int Count, typename = std::make_integer_sequence<int, Count>>
struct Vector;

template <int Count, int... I>
struct Vector<Count, std::integer_sequence<int, I...>> {
    typedef float Lanes __attribute__((vector_size(Count * sizeof(float)), aligned(4), may_alias));

    static Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
    static Lanes even(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 2 * I...); }
    static Lanes odd(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 2 * I + 1 ...); }

    // Two vectors at `to`, a and b taken in turn.
    static void store_in_turn(float* to, Lanes a, Lanes b) {
        *reinterpret_cast<Lanes*>(to) = __builtin_shufflevector(a, b, (I / 2 + I % 2 * Count)...);
        *reinterpret_cast<Lanes*>(to + Count) = __builtin_shufflevector(a, b, (Count / 2 + I / 2 + I % 2 * Count)...);
    }

    static void spread(const Rows& rows, int64_t c) {
        const float *top = rows.top + 2 * c, *low = rows.low + 2 * c;
        const Lanes grad = load(rows.grad + c), zero{};
        const Lanes a = even(load(top), load(top + Count)), b = odd(load(top), load(top + Count));
        const Lanes d = even(load(low), load(low + Count)), e = odd(load(low), load(low + Count));
        const Lanes upper = b > a ? b : a, lower = e > d ? e : d;
        const Lanes in_upper = lower > upper ? zero : grad, in_lower = lower > upper ? grad : zero;
        store_in_turn(rows.out_top + 2 * c, b > a ? zero : in_upper, b > a ? in_upper : zero);
        store_in_turn(rows.out_low + 2 * c, e > d ? zero : in_lower, e > d ? in_lower : zero);
    }

    static void spread_row(const Rows& rows, int64_t windows) {
        for (int64_t c = 0; c + Count < windows; c += Count) spread(rows, c);
        spread(rows, windows - Count);
    }
};

void spread_one_by_one(const Rows& rows, int64_t windows) {
    for (int64_t c = 0; c < windows; ++c) {
        const float *top = rows.top + 2 * c, *low = rows.low + 2 * c;
        const float upper = std::max(top[0], top[1]), lower = std::max(low[0], low[1]);
        float *out = rows.out_top + 2 * c, *out_low = rows.out_low + 2 * c;
        out[0] = out[1] = out_low[0] = out_low[1] = 0;
        if (lower > upper) out_low[low[1] > low[0]] = rows.grad[c];
        else out[top[1] > top[0]] = rows.grad[c];
    }
}

void spread_row(const Rows& rows, int64_t windows) {
#ifdef __AVX512F__
    if (windows >= 16) return Vector<16>::spread_row(rows, windows);
#endif
    if (windows >= 8) Vector<8>::spread_row(rows, windows);
    else if (windows >= 4) Vector<4>::spread_row(rows, windows);
    else spread_one_by_one(rows, windows);
}

void spread_plane(const float* x, const float* grad, float* out, int64_t height, int64_t width) {
    for (int64_t r = 0; r + 1 < height; r += 2) {
        const int64_t top = r * width, low = top + width;
        spread_row({x + top, x + low, grad + r / 2 * (width / 2), out + top, out + low}, width / 2);
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
