// For a CUDA toolkit without this library: the types that torch's own headers name, and no functions.
#pragma once
typedef struct cublasLtContext* cublasLtHandle_t;
