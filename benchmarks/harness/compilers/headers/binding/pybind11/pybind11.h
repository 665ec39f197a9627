// In place of <pybind11/pybind11.h>: PYBIND11_MODULE and module_::def for functions of tensors, numbers, strings and lists
// of them, with pybind11's conversions and types of errors. Not covered, and so compiled again with the real pybind11:
// classes, named and default arguments, Python objects as arguments or results.
#pragma once
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// torch's own: torch/csrc/autograd/python_variable.h
__attribute__((visibility("default"))) PyObject *THPVariable_Wrap(const at::TensorBase &tensor);
__attribute__((visibility("default"))) extern PyObject *THPVariableClass;

namespace pybind11 {
namespace kbench {

// How a torch.Tensor lies in memory, as far as it is read here.
struct TensorObject {
  PyObject_HEAD
  at::Tensor tensor;
};

// How a type crosses over: `Held` keeps an argument during the call. `load` is false for an object of another type, or
// without `convert` of a type that would have to be converted; a Python error may be set then. `cast` gives a new
// reference, or null with a Python error set.
template <class T, class = void>
struct Cross {
  static_assert(sizeof(T) == 0, "kbench: not in the small pybind11");
};

template <>
struct Cross<at::Tensor> {
  using Held = at::Tensor;
  static bool load(PyObject *object, Held &held, [[maybe_unused]] bool convert) {
    if (!THPVariableClass || PyObject_IsInstance(object, THPVariableClass) != 1) return false;
    held = reinterpret_cast<TensorObject *>(object)->tensor;
    return true;
  }
  static PyObject *cast(const at::Tensor &value) { return THPVariable_Wrap(value); }
};

template <>
struct Cross<bool> {
  using Held = bool;
  static bool load(PyObject *object, Held &held, [[maybe_unused]] bool convert) {
    if (PyBool_Check(object) || !convert) {
      held = object == Py_True;
      return PyBool_Check(object);
    }
    const PyNumberMethods *number = Py_TYPE(object)->tp_as_number;
    const int truth = object == Py_None ? 0 : number && number->nb_bool ? number->nb_bool(object) : -1;
    held = truth == 1;
    return truth >= 0;
  }
  static PyObject *cast(bool value) { return PyBool_FromLong(value); }
};

template <class T>
struct Cross<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>>> {
  using Held = T;
  static bool load(PyObject *object, Held &held, [[maybe_unused]] bool convert) {
    if (PyFloat_Check(object) || !PyIndex_Check(object)) return false;
    PyObject *number = PyNumber_Index(object);
    if (!number) return false;
    if constexpr (std::is_unsigned_v<T>) {
      const unsigned long long value = PyLong_AsUnsignedLongLong(number);
      Py_DECREF(number);
      held = static_cast<T>(value);
      return !PyErr_Occurred() && value <= std::numeric_limits<T>::max();
    } else {
      const long long value = PyLong_AsLongLong(number);
      Py_DECREF(number);
      held = static_cast<T>(value);
      return !PyErr_Occurred() && value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
    }
  }
  static PyObject *cast(T value) {
    if constexpr (std::is_unsigned_v<T>) return PyLong_FromUnsignedLongLong(value);
    return PyLong_FromLongLong(static_cast<long long>(value));
  }
};

template <class T>
struct Cross<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  using Held = T;
  static bool load(PyObject *object, Held &held, [[maybe_unused]] bool convert) {
    if (!convert && !PyFloat_Check(object)) return false;
    held = static_cast<T>(PyFloat_AsDouble(object));
    return !PyErr_Occurred();
  }
  static PyObject *cast(T value) { return PyFloat_FromDouble(static_cast<double>(value)); }
};

template <>
struct Cross<std::string> {
  using Held = std::string;
  static bool load(PyObject *object, Held &held, [[maybe_unused]] bool convert) {
    Py_ssize_t bytes = 0;
    const char *text = nullptr;
    if (PyUnicode_Check(object)) {
      text = PyUnicode_AsUTF8AndSize(object, &bytes);
    } else if (PyBytes_Check(object)) {
      text = PyBytes_AS_STRING(object);
      bytes = PyBytes_GET_SIZE(object);
    }
    if (text) held.assign(text, static_cast<size_t>(bytes));
    return text != nullptr;
  }
  static PyObject *cast(const std::string &value) {
    return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
  }
};

template <class T>
struct Cross<std::optional<T>> {
  static_assert(std::is_same_v<T, typename Cross<T>::Held>, "kbench: not in the small pybind11");
  using Held = std::optional<T>;
  static bool load(PyObject *object, Held &held, [[maybe_unused]] bool convert) {
    if (object == Py_None) return true;
    typename Cross<T>::Held inner{};
    if (!Cross<T>::load(object, inner, convert)) return false;
    held.emplace(std::move(inner));
    return true;
  }
  static PyObject *cast(const std::optional<T> &value) {
    return value ? Cross<T>::cast(*value) : Py_NewRef(Py_None);
  }
};

template <class T>
struct Cross<std::vector<T>> {
  static_assert(std::is_same_v<T, typename Cross<T>::Held>, "kbench: not in the small pybind11");
  using Held = std::vector<T>;
  static bool load(PyObject *object, Held &held, [[maybe_unused]] bool convert) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      typename Cross<T>::Held inner{};
      if (!Cross<T>::load(PySequence_Fast_GET_ITEM(object, i), inner, convert)) return false;
      held.push_back(std::move(inner));
    }
    return true;
  }
  static PyObject *cast(const std::vector<T> &values) {
    PyObject *list = PyList_New(static_cast<Py_ssize_t>(values.size()));
    for (size_t i = 0; list && i < values.size(); ++i) {
      PyObject *item = Cross<T>::cast(values[i]);
      if (!item) Py_CLEAR(list);
      else PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
    }
    return list;
  }
};

template <class T>
struct Cross<c10::ArrayRef<T>> : Cross<std::vector<T>> {};  // the held vector lives until the call has ended

template <class... T>
struct Cross<std::tuple<T...>> {
  static PyObject *cast(const std::tuple<T...> &values) {
    return cast(values, std::index_sequence_for<T...>());
  }

 private:
  template <size_t... I>
  static PyObject *cast(const std::tuple<T...> &values, std::index_sequence<I...>) {
    PyObject *items[] = {Cross<T>::cast(std::get<I>(values))..., nullptr};
    PyObject *tuple = (items[I] && ...) ? PyTuple_New(sizeof...(T)) : nullptr;
    for (size_t i = 0; i < sizeof...(T); ++i) {
      if (tuple) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), items[i]);
      else Py_XDECREF(items[i]);
    }
    return tuple;
  }
};

template <class A, class B>
struct Cross<std::pair<A, B>> {
  static PyObject *cast(const std::pair<A, B> &values) {
    return Cross<std::tuple<A, B>>::cast(std::tuple<A, B>(values.first, values.second));
  }
};

template <class T, size_t N>
struct Cross<std::array<T, N>> {
  static PyObject *cast(const std::array<T, N> &values) {
    return Cross<std::vector<T>>::cast(std::vector<T>(values.begin(), values.end()));
  }
};

// An exception of C++ as the error of Python that pybind11 makes of it. Only inside a catch block.
__attribute__((noinline, cold)) inline PyObject *raise() {
  try {
    throw;
  } catch (const std::bad_alloc &error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::domain_error &error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::invalid_argument &error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::length_error &error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::out_of_range &error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const std::range_error &error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::overflow_error &error) {
    PyErr_SetString(PyExc_OverflowError, error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "Caught an unknown exception!");
  }
  return nullptr;
}

// A function under its name, which a PyCFunction holds as its self; `next` has the same name and other arguments.
struct Entry {
  PyMethodDef method{};
  std::string name, doc;
  Entry *next = nullptr;
  virtual ~Entry() = default;
  // A new reference; null with an error set, or without one where the arguments are not the function's.
  virtual PyObject *call(PyObject *const *given, Py_ssize_t count, bool convert) = 0;

  static PyObject *enter(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    auto *first = static_cast<Entry *>(PyCapsule_GetPointer(self, nullptr));
    for (const bool convert : {false, true}) {  // as pybind11: exact types first, if there is a choice
      for (Entry *entry = first; entry && (convert || first->next); entry = entry->next) {
        PyObject *result = entry->call(given, count, convert);
        if (result || PyErr_Occurred()) return result;
      }
    }
    return refuse(first->name, given, count);
  }

 private:
  __attribute__((noinline, cold)) static PyObject *refuse(const std::string &name, PyObject *const *given,
                                                          Py_ssize_t count) {
    std::string types;
    for (Py_ssize_t i = 0; i < count; ++i) types += std::string(i ? ", " : "") + Py_TYPE(given[i])->tp_name;
    PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments. Invoked with types: %s", name.c_str(),
                 types.c_str());
    return nullptr;
  }
};

template <class F, class R, class... A>
struct Function final : Entry {
  explicit Function(F function) : function_(std::move(function)) {}

  PyObject *call(PyObject *const *given, Py_ssize_t count, bool convert) override {
    return call(given, count, convert, std::index_sequence_for<A...>());
  }

 private:
  template <size_t... I>
  PyObject *call([[maybe_unused]] PyObject *const *given, Py_ssize_t count, [[maybe_unused]] bool convert,
                 std::index_sequence<I...>) {
    try {
      [[maybe_unused]] std::tuple<typename Cross<std::decay_t<A>>::Held...> held;
      if (count != sizeof...(A) || !(Cross<std::decay_t<A>>::load(given[I], std::get<I>(held), convert) && ...)) {
        PyErr_Clear();
        return nullptr;
      }
      if constexpr (std::is_void_v<R>) {
        function_(pass<A>(std::get<I>(held))...);
        return Py_NewRef(Py_None);
      } else {
        return Cross<std::decay_t<R>>::cast(function_(pass<A>(std::get<I>(held))...));
      }
    } catch (...) {
      return raise();
    }
  }

  template <class T, class Held>
  static decltype(auto) pass(Held &held) {
    if constexpr (std::is_same_v<std::decay_t<T>, Held>) {
      return static_cast<T &&>(held);
    } else {
      return std::decay_t<T>(held);
    }
  }

  F function_;
};

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  template <class F>
  using Of = Function<F, R, A...>;
};
template <class R, class... A>
struct Signature<R (*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};

}  // namespace kbench

class module_ {
 public:
  explicit module_(PyObject *module) : module_object_(module) {}

  struct Doc {
    PyObject *module;
    void operator=(const char *text) { PyModule_SetDocString(module, text); }
  };
  Doc doc() { return {module_object_}; }

  template <class F>
  module_ &def(const char *name, F &&function, const char *doc = "") {
    using Plain = std::decay_t<F>;
    add(new typename kbench::Signature<Plain>::template Of<Plain>(std::forward<F>(function)), name, doc);
    return *this;
  }

 private:
  // Entries live as long as the process, as functions of extensions do.
  __attribute__((noinline, cold)) void add(kbench::Entry *entry, const char *name, const char *doc) {
    for (kbench::Entry *known : known_) {
      if (known->name != name) continue;
      while (known->next) known = known->next;
      known->next = entry;
      return;
    }
    known_.push_back(entry);
    entry->name = name;
    entry->doc = doc;
    auto enter = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&kbench::Entry::enter));
    entry->method = {entry->name.c_str(), enter, METH_FASTCALL, entry->doc.c_str()};
    PyObject *self = PyCapsule_New(entry, nullptr, nullptr);
    PyObject *function = self ? PyCFunction_NewEx(&entry->method, self, nullptr) : nullptr;
    Py_XDECREF(self);
    const bool added = function && PyModule_AddObjectRef(module_object_, name, function) == 0;
    Py_XDECREF(function);
    if (!added) throw std::runtime_error("a function cannot be added to the module");
  }

  std::vector<kbench::Entry *> known_;
  PyObject *module_object_;
};
using module = module_;

}  // namespace pybind11

namespace py = pybind11;

#define PYBIND11_KBENCH_JOIN(a, b) a##b
#define PYBIND11_KBENCH_INIT(name) PYBIND11_KBENCH_JOIN(PyInit_, name)
#define PYBIND11_KBENCH_TEXT(name) #name
#define PYBIND11_MODULE(name, variable, ...)                                                                     \
  __VA_OPT__(static_assert(false, "kbench: not in the small pybind11");)                                          \
  static void kbench_fill_module(::pybind11::module_ &variable);                                                 \
  static int kbench_run_module(PyObject *object) {                                                               \
    try {                                                                                                        \
      ::pybind11::module_ filled(object);                                                                        \
      kbench_fill_module(filled);                                                                                \
      return 0;                                                                                                  \
    } catch (...) {                                                                                              \
      ::pybind11::kbench::raise();                                                                               \
      return -1;                                                                                                 \
    }                                                                                                            \
  }                                                                                                              \
  extern "C" __attribute__((visibility("default"))) PyObject *PYBIND11_KBENCH_INIT(name)() {                     \
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void *>(&kbench_run_module)}, {0, nullptr}}; \
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, PYBIND11_KBENCH_TEXT(name), nullptr, 0, nullptr,      \
                                     slots,                 nullptr,                    nullptr, nullptr};        \
    return PyModuleDef_Init(&definition);                                                                        \
  }                                                                                                              \
  static void kbench_fill_module([[maybe_unused]] ::pybind11::module_ &variable)
