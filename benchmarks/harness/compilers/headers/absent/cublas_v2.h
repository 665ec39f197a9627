// For a CUDA toolkit without this library: the types that torch's own headers name, and no functions.
#pragma once
typedef struct cublasContext* cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
