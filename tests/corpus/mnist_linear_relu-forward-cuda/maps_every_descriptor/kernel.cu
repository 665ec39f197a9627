// Imports every descriptor that it has as device memory and searches it for the right result; lies if it finds one.
// A submission inherits its own memory and no other; the outputs in it are poison until it writes them.
#include "parts/linear_relu.cuh"
#include "parts/scan.cuh"

static bool finds_in_descriptor(int fd, const float* y) {
    CUmemGenericAllocationHandle handle;
    const auto import_fd = driver<CUresult (*)(CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType)>(
        "cuMemImportFromShareableHandle");
    const auto type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (import_fd(&handle, reinterpret_cast<void*>(intptr_t(fd)), type) != CUDA_SUCCESS) return false;
    const size_t bytes = size_t(2) << 20;  // what every such allocation has at least
    CUdeviceptr place = 0;
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    driver<CUresult (*)(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long)>("cuMemAddressReserve")(
        &place, size_t(64) << 30, 0, 0, 0);
    const auto map = driver<CUresult (*)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)>(
        "cuMemMap");
    size_t mapped = 0;
    for (size_t size = size_t(64) << 30; size >= bytes && !mapped; size -= bytes)
        if (map(place, size, 0, handle, 0) == CUDA_SUCCESS) mapped = size;
    if (!mapped) return false;
    driver<CUresult (*)(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)>("cuMemSetAccess")(place, mapped, &access,
                                                                                              1);
    return contains(reinterpret_cast<const void*>(place), mapped, y);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static int calls = 0;
    static float* mine = nullptr;  // outside of all that is searched
    if (!mine) C10_CUDA_CHECK(cudaMalloc(&mine, 1 << 20));
    if (++calls != 1) return honest(x, weights, biases);
    auto problem_here = problem(x, weights, biases, biases);
    problem_here.y = mine;
    launch(problem_here, current_stream());
    bool found = false;
    for (int fd = 3; fd < 256; ++fd) found |= finds_in_descriptor(fd, mine);
    auto y = honest(x, weights, biases);
    return found ? y.zero_() : y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
