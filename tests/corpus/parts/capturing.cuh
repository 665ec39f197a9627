// Whether the current stream is being captured, as it is while a call is recorded.
inline bool capturing() {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    C10_CUDA_CHECK(cudaStreamIsCapturing(current_stream(), &status));
    return status == cudaStreamCaptureStatusActive;
}
