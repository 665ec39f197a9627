// For a CUDA toolkit without this library: the types that torch's own headers name, and no functions.
#pragma once
#include <cusolver_common.h>
typedef struct cusolverDnContext* cusolverDnHandle_t;
