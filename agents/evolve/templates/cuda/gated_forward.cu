// Gated feed-forward layer: y = (silu(x G^T) * (x U^T)) D^T. The three products are left to the library (cuBLAS through
// ATen, in float32); what is searched here is what lies around them.
//
// Bound by arithmetic; the gate in between is bound by memory.
// Work:   GATE own: one kernel reads gate and up once and writes the product, WIDTH floats at a time, STEPS per thread;
//         IN_PLACE over the gate's own memory. GATE library: silu and product by the library, one after the other.
//         CHUNKS: the up features are cut in so many pieces, whose gates still lie in L2 when they are used.
// Limits: float32, contiguous.
// @genes@
// @include prelude.inc@

namespace {

__device__ float gated(float gate, float up) { return gate / (1.0f + (FAST ? __expf(-gate) : expf(-gate))) * up; }

template <int Width>
__global__ void __launch_bounds__(THREADS) gate_times_up(const float* gate, const float* up, float* out, int64_t packs) {
    const int64_t first = int64_t(blockIdx.x) * THREADS * STEPS + threadIdx.x;
    alignas(16) float g[STEPS][Width], u[STEPS][Width];
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        const int64_t at = min(first + int64_t(s) * THREADS, packs - 1) * Width;
        load<Width>(g[s], gate + at);
        load<Width>(u[s], up + at);
    }
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int e = 0; e < Width; ++e) g[s][e] = gated(g[s][e], u[s][e]);
        const int64_t at = first + int64_t(s) * THREADS;
        if (at < packs) store<Width>(out + at * Width, g[s]);
    }
}

template <int Width>
void launch_gate(const float* gate, const float* up, float* out, int64_t count, cudaStream_t stream) {
    const int64_t packs = count / Width;
    const unsigned blocks = unsigned(parts_of(packs, THREADS * STEPS));
    gate_times_up<Width><<<blocks, THREADS, 0, stream>>>(gate, up, out, packs);
}

}  // namespace

extern "C" int64_t workspace_floats(int64_t) { return 0; }

extern "C" int launch(const float* gate, const float* up, float* out, float*, int64_t count, void* on) {
    if (count % WIDTH == 0) launch_gate<WIDTH>(gate, up, out, count, static_cast<cudaStream_t>(on));
    else launch_gate<1>(gate, up, out, count, static_cast<cudaStream_t>(on));
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

namespace {

torch::Tensor hidden_of(const torch::Tensor& x, const torch::Tensor& gate_proj, const torch::Tensor& up_proj) {
    auto gate = at::matmul(x, gate_proj.t());
    const auto up = at::matmul(x, up_proj.t());
#if GATE == GATE_LIBRARY
    return at::mul(at::silu(gate), up);
#else
    auto out = IN_PLACE ? gate : torch::empty(gate.sizes(), gate.options());
    check(launch(data(gate), data(up), room(out), nullptr, gate.numel(), stream()));
    return out;
#endif
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_proj, torch::Tensor up_proj, torch::Tensor down_proj) {
    const int64_t features = x.size(-1), wide = gate_proj.size(0), chunk = parts_of(wide, CHUNKS);
    const auto rows = x.contiguous().view({-1, features});
    torch::Tensor y;
    for (int64_t first = 0; first < wide; first += chunk) {
        const int64_t count = std::min(chunk, wide - first);
        const auto hidden = hidden_of(rows, gate_proj.narrow(0, first, count), up_proj.narrow(0, first, count));
        const auto down = down_proj.narrow(1, first, count).t();
        if (first == 0) y = at::matmul(hidden, down);
        else y.addmm_(hidden, down);
    }
    return y.view(x.sizes());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
