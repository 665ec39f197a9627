// In place of <ATen/cuda/CUDAContextLight.h>.
#pragma once
#include <ATen/cuda/CUDAContext.h>
