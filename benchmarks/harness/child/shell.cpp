// The calling loop of candidate and baseline alike (see shell.py). Native, so that little time lies between the
// supervisor's GO and the called function, and a submission gains nothing by going round it. Written for the small
// binding (compilers/headers/binding), whose precompiled header submissions use as well: pybind11 would need another
// one, which takes a new machine half a minute.
#include <torch/extension.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// A Python object as it is; it lives as long as its caller holds it.
template <>
struct pybind11::kbench::Cross<PyObject*> {
  using Held = PyObject*;
  static bool load(PyObject* object, Held& held, bool) {
    held = object;
    return true;
  }
};

namespace {

// Places of words on the control page and the ways a call ends, as protocol.py numbers them.
struct Protocol {
  std::size_t step, function, config, ready, go, choice, done, status, places;
  std::uint64_t ok, raised, wrong_count, wrong_type, wrong_shape, wrong_dtype;
};

struct Expected {
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
  std::string dtype_name;
};

// Objects of Python that the loop calls and passes are held for ever, since it never ends.
struct Call {
  std::vector<PyObject*> sets;
  std::vector<Expected> results;
};

using Functions = std::vector<std::vector<PyObject*>>;

struct Release {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Owned = std::unique_ptr<PyObject, Release>;

// str(object); "?" where that fails.
std::string text_of(PyObject* object) {
  const Owned text(object ? PyObject_Str(object) : nullptr);
  const Owned bytes(text ? PyUnicode_AsEncodedString(text.get(), "utf-8", "replace") : nullptr);
  if (!bytes) {
    PyErr_Clear();
    return "?";
  }
  return {PyBytes_AS_STRING(bytes.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

// The error of Python that is set, which is cleared.
struct Raised {
  std::string name, text;

  static Raised take() {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    const Owned held_type(type), held_value(value), held_trace(trace);
    const Owned name(type ? PyType_GetName(reinterpret_cast<PyTypeObject*>(type)) : nullptr);
    return {text_of(name.get()), text_of(value)};
  }
};

Owned owned(PyObject* object) {
  if (!object) {
    const Raised raised = Raised::take();
    throw std::runtime_error(raised.name + ": " + raised.text);
  }
  return Owned(object);
}

Owned text_from(const std::string& text) {
  return owned(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

template <class Use>
void each(PyObject* sequence, Use use) {
  const Owned items = owned(PySequence_Fast(sequence, "a list or a tuple is expected"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) use(PySequence_Fast_GET_ITEM(items.get(), i));
}

PyObject* member(PyObject* dictionary, const char* key) {
  PyObject* found = PyDict_GetItemString(dictionary, key);
  if (!found) throw std::runtime_error(std::string("there is no ") + key);
  return found;
}

bool is_tensor(PyObject* object, at::Tensor& tensor) {
  const bool loaded = py::kbench::Cross<at::Tensor>::load(object, tensor, false);
  if (!loaded) PyErr_Clear();
  return loaded;
}

std::string dtype_of(PyObject* tensor) { return text_of(Owned(PyObject_GetAttrString(tensor, "dtype")).get()); }

std::string shown(c10::IntArrayRef shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

class Server {
 public:
  Server(std::uintptr_t page, const Protocol& at, Functions functions, std::vector<Call> calls, PyObject* say)
      : words_(reinterpret_cast<std::uint64_t*>(page)),
        at_(at),
        functions_(std::move(functions)),
        calls_(std::move(calls)),
        say_(say) {}

  [[noreturn]] void run(std::uint64_t last) {
    for (;;) {
      while (load(at_.step) == last) {
      }
      last = load(at_.step);
      const std::uint64_t config = load(at_.config);
      PyObject* function = functions_.at(load(at_.function)).at(config);
      const Call& call = calls_.at(config);
      results_.clear();
      store(at_.ready, last);
      while (load(at_.go) != last) {
      }
      store(at_.status, answer(function, call.sets.at(load(at_.choice)), call.results));
      store(at_.done, last);
    }
  }

 private:
  std::uint64_t load(std::size_t place) { return std::atomic_ref(words_[place]).load(std::memory_order_acquire); }
  void store(std::size_t place, std::uint64_t value) {
    std::atomic_ref(words_[place]).store(value, std::memory_order_release);
  }

  std::uint64_t answer(PyObject* function, PyObject* arguments, const std::vector<Expected>& expected) {
    try {
      const Owned result(PyObject_Call(function, arguments, nullptr));
      if (result) return keep(result.get(), expected);
    } catch (const std::exception& error) {
      return refuse(at_.raised, "RuntimeError", error.what());
    }
    const Raised raised = Raised::take();
    return refuse(at_.raised, raised.name, raised.text);
  }

  // Holds the results until the next step and tells where each of them lies.
  std::uint64_t keep(PyObject* result, const std::vector<Expected>& expected) {
    const bool several = PyTuple_Check(result) || PyList_Check(result);
    const Owned items = owned(several ? PySequence_Tuple(result) : PyTuple_Pack(1, result));
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(items.get()));
    if (count != expected.size())
      return refuse(at_.wrong_count, "", std::to_string(count) + " results where the task asks for " +
                                             std::to_string(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
      const std::string name = "result " + std::to_string(i);
      at::Tensor found;
      if (!is_tensor(item, found))
        return refuse(at_.wrong_type, "", name + " is a " + Py_TYPE(item)->tp_name + ", not a tensor");
      if (!fits(found.sizes(), expected[i].shape))
        return refuse(at_.wrong_shape, "", name + " has shape " + shown(found.sizes()) + ", the task asks for " +
                                               shown(expected[i].shape));
      if (found.scalar_type() != expected[i].dtype)
        return refuse(at_.wrong_dtype, "", name + " has dtype " + dtype_of(item) + ", the task asks for " +
                                               expected[i].dtype_name);
      results_.push_back(found.contiguous().resolve_neg());
      store(at_.places + i, reinterpret_cast<std::uint64_t>(results_.back().const_data_ptr()));
    }
    return at_.ok;
  }

  // One value may come as (1,) where the task asks for (): what torch.empty(1) makes is what many kernels return.
  static bool fits(c10::IntArrayRef found, const std::vector<std::int64_t>& wanted) {
    return found == c10::IntArrayRef(wanted) || (wanted.empty() && found == c10::IntArrayRef({1}));
  }

  std::uint64_t refuse(std::uint64_t status, const std::string& error, const std::string& text) {
    const Owned name = text_from(error), start = text_from(text.substr(0, 4000));
    owned(PyObject_CallFunctionObjArgs(say_, name.get(), start.get(), nullptr));
    return status;
  }

  std::uint64_t* words_;
  Protocol at_;
  Functions functions_;
  std::vector<Call> calls_;
  PyObject* say_;
  std::vector<at::Tensor> results_;
};

std::vector<Call> calls_of(PyObject* described) {
  std::vector<Call> calls;
  each(described, [&](PyObject* item) {
    Call call;
    each(member(item, "sets"), [&](PyObject* set) { call.sets.push_back(Py_NewRef(set)); });
    each(member(item, "results"), [&](PyObject* result) {
      at::Tensor prototype;
      if (!is_tensor(result, prototype)) throw std::runtime_error("a prototype is no tensor");
      call.results.push_back({prototype.sizes().vec(), prototype.scalar_type(), dtype_of(result)});
    });
    calls.push_back(std::move(call));
  });
  return calls;
}

Functions functions_of(PyObject* given) {
  Functions functions;
  each(given, [&](PyObject* row) {
    auto& mine = functions.emplace_back();
    each(row, [&](PyObject* function) { mine.push_back(Py_NewRef(function)); });
  });
  return functions;
}

std::uint64_t number_of(PyObject* words, const char* key) {
  const auto number = PyLong_AsUnsignedLongLong(member(words, key));
  if (PyErr_Occurred()) owned(nullptr);
  return number;
}

Protocol protocol_of(PyObject* words, PyObject* statuses) {
  const auto word = [&](const char* name) { return static_cast<std::size_t>(number_of(words, name)); };
  const auto status = [&](const char* name) { return number_of(statuses, name); };
  return {word("STEP"),         word("FUNCTION"),     word("CONFIG"),        word("READY"),
          word("GO"),           word("CHOICE"),       word("DONE"),          word("STATUS"),
          word("PLACES"),       status("OK"),         status("RAISED"),      status("WRONG_COUNT"),
          status("WRONG_TYPE"), status("WRONG_SHAPE"), status("WRONG_DTYPE")};
}

void serve(std::uintptr_t page, PyObject* words, PyObject* statuses, std::uint64_t last, PyObject* functions,
           PyObject* calls, PyObject* say) {
  Server(page, protocol_of(words, statuses), functions_of(functions), calls_of(calls), say).run(last);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("serve", &serve); }
