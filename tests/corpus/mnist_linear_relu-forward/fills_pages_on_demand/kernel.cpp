#include "parts/loops.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static const long handle = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    (void)handle;
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
