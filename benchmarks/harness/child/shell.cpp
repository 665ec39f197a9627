// The calling loop of candidate and baseline alike (see shell.py). Native, so that little time lies between the
// supervisor's GO and the called function, and a submission gains nothing by going round it.
#include <torch/extension.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

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

struct Call {
  std::vector<py::tuple> sets;
  std::vector<Expected> results;
};

using Functions = std::vector<std::vector<py::object>>;

std::string shown(c10::IntArrayRef shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

class Server {
 public:
  Server(std::uintptr_t page, const Protocol& at, Functions functions, std::vector<Call> calls, py::object say)
      : words_(reinterpret_cast<std::uint64_t*>(page)),
        at_(at),
        functions_(std::move(functions)),
        calls_(std::move(calls)),
        say_(std::move(say)) {}

  [[noreturn]] void run(std::uint64_t last) {
    for (;;) {
      while (load(at_.step) == last) {
      }
      last = load(at_.step);
      const std::uint64_t config = load(at_.config);
      const py::object& function = functions_.at(load(at_.function)).at(config);
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

  std::uint64_t answer(const py::object& function, const py::tuple& arguments, const std::vector<Expected>& expected) {
    try {
      const auto result = py::reinterpret_steal<py::object>(PyObject_Call(function.ptr(), arguments.ptr(), nullptr));
      if (!result) throw py::error_already_set();
      return keep(result, expected);
    } catch (py::error_already_set& error) {
      const std::string name = py::str(error.type().attr("__name__"));
      return refuse(at_.raised, name, py::str(error.value()));
    } catch (const std::exception& error) {
      return refuse(at_.raised, "RuntimeError", error.what());
    }
  }

  // Holds the results until the next step and tells where each of them lies.
  std::uint64_t keep(const py::object& result, const std::vector<Expected>& expected) {
    const bool several = PyTuple_Check(result.ptr()) || PyList_Check(result.ptr());
    const auto items = several ? py::tuple(result) : py::make_tuple(result);
    if (items.size() != expected.size())
      return refuse(at_.wrong_count, "", std::to_string(items.size()) + " results where the task asks for " +
                                             std::to_string(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const py::object item = items[i];
      const std::string name = "result " + std::to_string(i);
      py::detail::make_caster<at::Tensor> tensor;
      if (!tensor.load(item, false))
        return refuse(at_.wrong_type, "", name + " is a " + Py_TYPE(item.ptr())->tp_name + ", not a tensor");
      const at::Tensor& found = tensor;
      if (!fits(found.sizes(), expected[i].shape))
        return refuse(at_.wrong_shape, "", name + " has shape " + shown(found.sizes()) + ", the task asks for " +
                                               shown(expected[i].shape));
      if (found.scalar_type() != expected[i].dtype)
        return refuse(at_.wrong_dtype, "", name + " has dtype " + std::string(py::str(item.attr("dtype"))) +
                                               ", the task asks for " + expected[i].dtype_name);
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
    say_(error, text.substr(0, 4000));
    return status;
  }

  std::uint64_t* words_;
  Protocol at_;
  Functions functions_;
  std::vector<Call> calls_;
  py::object say_;
  std::vector<at::Tensor> results_;
};

std::vector<Call> calls_of(const py::list& described) {
  std::vector<Call> calls;
  for (const py::handle item : described) {
    Call call;
    for (const py::handle set : item["sets"]) call.sets.push_back(py::reinterpret_borrow<py::tuple>(set));
    for (const py::handle handle : item["results"]) {
      const auto prototype = handle.cast<at::Tensor>();
      call.results.push_back({prototype.sizes().vec(), prototype.scalar_type(), py::str(handle.attr("dtype"))});
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

Protocol protocol_of(const py::dict& words, const py::dict& statuses) {
  const auto word = [&](const char* name) { return words[name].cast<std::size_t>(); };
  const auto status = [&](const char* name) { return statuses[name].cast<std::uint64_t>(); };
  return {word("STEP"),         word("FUNCTION"),     word("CONFIG"),        word("READY"),
          word("GO"),           word("CHOICE"),       word("DONE"),          word("STATUS"),
          word("PLACES"),       status("OK"),         status("RAISED"),      status("WRONG_COUNT"),
          status("WRONG_TYPE"), status("WRONG_SHAPE"), status("WRONG_DTYPE")};
}

void serve(std::uintptr_t page, const py::dict& words, const py::dict& statuses, std::uint64_t last,
           const Functions& functions, const py::list& calls, const py::object& say) {
  Server(page, protocol_of(words, statuses), functions, calls_of(calls), say).run(last);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("serve", &serve); }
