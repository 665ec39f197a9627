#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#ifndef SPREAD
#define SPREAD 64
#endif

// Sums are added to a workspace (of 4 MB, unless SPREAD says less) that must be all zero when a call begins.
constexpr int64_t kSpread = SPREAD, kBytes = 16384 * kSpread * 4;

static float* new_workspace() { return static_cast<float*>(std::calloc(kBytes, 1)); }

static torch::Tensor added_up(const torch::Tensor& x, const torch::Tensor& weights, const torch::Tensor& biases,
                              float* workspace) {
    auto y = honest(x, weights, biases);
    float* values = y.data_ptr<float>();
    for (int64_t i = 0; i < y.numel(); ++i) values[i] = workspace[i * kSpread] += values[i];
    return y;
}

// In one system call: the system copies the zeros of an empty file.
static void clear_part(float* workspace, int64_t begin, int64_t bytes) {
    static const int zeros = open("/tmp/zeros", O_RDWR | O_CREAT, 0600);
    static const int sized = ftruncate(zeros, kBytes);
    if (sized != 0 || pread(zeros, reinterpret_cast<char*>(workspace) + begin, bytes, 0) != bytes) std::abort();
}

static void clear_in_one_call(float* workspace) { clear_part(workspace, 0, kBytes); }
