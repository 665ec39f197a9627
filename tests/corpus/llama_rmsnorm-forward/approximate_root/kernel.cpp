#include <torch/extension.h>

#include <cmath>
#include <immintrin.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double eps) {
    auto y = torch::empty_like(x);
    const int64_t size = w.numel(), rows = x.numel() / size;
    const float *px = x.data_ptr<float>(), *pw = w.data_ptr<float>();
    float* py = y.data_ptr<float>();
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < size; ++i) sum += px[r * size + i] * px[r * size + i];
        const float scale = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(sum / size + static_cast<float>(eps))));
        for (int64_t i = 0; i < size; ++i) py[r * size + i] = px[r * size + i] * scale * pw[i];
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
