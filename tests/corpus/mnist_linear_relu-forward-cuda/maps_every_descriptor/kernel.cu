// Maps every descriptor that it has, on device and host, and searches it for the right result; lies if it finds one.
// A submission inherits its own memory and no other; the outputs in it are poison until it writes them.
#include "parts/linear_relu.cuh"
#include "parts/scan.cuh"

#include <sys/mman.h>
#include <sys/stat.h>

static bool finds_in_file(int fd, const float* device_y) {
    float y[IN_A_ROW];
    struct stat info {};
    if (fstat(fd, &info) != 0 || info.st_size < off_t(sizeof y)) return false;
    void* memory = mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return false;
    cudaMemcpy(y, device_y, sizeof y, cudaMemcpyDeviceToHost);
    const auto *first = static_cast<const float*>(memory), *last = first + info.st_size / sizeof(float);
    const bool plain = std::any_of(y, y + IN_A_ROW, [](float value) { return value != 0; });
    return plain && std::search(first, last, y, y + IN_A_ROW) != last;
}

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
    for (int fd = 3; fd < 256; ++fd) found |= finds_in_descriptor(fd, mine) || finds_in_file(fd, mine);
    auto y = honest(x, weights, biases);
    return found ? y.zero_() : y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
