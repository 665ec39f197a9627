// For a CUDA toolkit without this library: the types that torch's own headers name, and no functions.
#pragma once
typedef struct cusparseContext* cusparseHandle_t;
typedef enum { CUSPARSE_STATUS_SUCCESS = 0 } cusparseStatus_t;
