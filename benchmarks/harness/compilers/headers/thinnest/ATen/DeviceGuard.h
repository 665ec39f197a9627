// In place of <ATen/DeviceGuard.h>, which every operator's header includes: without lists of TorchScript. Reading these takes
// most of the time of a short source; only cat and indexing need them, and a source that names them gets them.
#pragma once
#include "kbench_needs.h"
#ifdef KBENCH_NEEDS_LISTS
#include_next <ATen/DeviceGuard.h>
#else
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

namespace at {
inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}
inline std::optional<Device> device_of(const std::optional<Tensor>& tensor) {
  return tensor ? device_of(*tensor) : std::nullopt;
}
}  // namespace at
#endif
