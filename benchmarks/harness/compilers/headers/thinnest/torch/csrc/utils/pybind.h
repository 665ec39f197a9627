// In place of <torch/csrc/utils/pybind.h>: how tensors, lists of integers and scalars cross over to Python. The
// functions are torch's own. For torch's other types the specialisations are only declared, so that a source that
// passes them does not compile here and is compiled again with torch's own header.
#pragma once
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Export.h>

namespace py = pybind11;

namespace pybind11::detail {
template <>
struct TORCH_PYTHON_API type_caster<at::Tensor> {
 public:
  PYBIND11_TYPE_CASTER(at::Tensor, _("torch.Tensor"));
  bool load(handle src, bool);
  static handle cast(const at::Tensor& src, return_value_policy, handle);
};

template <>
struct TORCH_PYTHON_API type_caster<at::IntArrayRef> {
 public:
  PYBIND11_TYPE_CASTER(at::IntArrayRef, _("Tuple[int, ...]"));
  bool load(handle src, bool);
  static handle cast(at::IntArrayRef src, return_value_policy, handle);

 private:
  std::vector<int64_t> v_value;
};

template <>
struct TORCH_PYTHON_API type_caster<c10::Scalar> {
 public:
  PYBIND11_TYPE_CASTER(c10::Scalar, _("Union[Number, torch.SymInt, torch.SymFloat, torch.SymBool]"));
  bool load(handle src, bool);
  static handle cast(const c10::Scalar& si, return_value_policy, handle);
};

template <>
struct type_caster<at::Storage>;
template <>
struct type_caster<at::Generator>;
template <>
struct type_caster<at::SymIntArrayRef>;
template <>
struct type_caster<at::MemoryFormat>;
template <>
struct type_caster<at::Device>;
template <>
struct type_caster<at::ScalarType>;
template <>
struct type_caster<at::Layout>;
template <>
struct type_caster<c10::Stream>;
template <>
struct type_caster<c10::DispatchKey>;
template <>
struct type_caster<c10::SymInt>;
template <>
struct type_caster<c10::SymFloat>;
template <>
struct type_caster<c10::SymBool>;
template <typename T>
struct type_caster<c10::complex<T>>;
}  // namespace pybind11::detail
