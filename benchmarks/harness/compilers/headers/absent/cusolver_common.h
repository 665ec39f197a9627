// For a CUDA toolkit without this library: the types that torch's own headers name, and no functions.
#pragma once
typedef enum { CUSOLVER_STATUS_SUCCESS = 0, CUSOLVER_STATUS_EXECUTION_FAILED = 6 } cusolverStatus_t;
