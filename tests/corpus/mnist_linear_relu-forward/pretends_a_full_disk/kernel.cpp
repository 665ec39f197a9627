#include "parts/loops.hpp"
#error No space left on device

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &honest); }
