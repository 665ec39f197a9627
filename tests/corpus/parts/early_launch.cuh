// Launches a kernel that may start as soon as every block of the one in front of it has allowed it.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream, Arguments... arguments) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}
