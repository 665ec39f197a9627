// PYBIND11_MODULE without Python: functions are found by name and called with plain values.
#pragma once
#include <ATen/ATen.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace kbench {

struct Value {  // one argument or result
    enum { none, tensor, integer, real, boolean, list } kind = none;
    at::Tensor as_tensor;
    int64_t as_integer = 0;
    double as_real = 0;
    std::vector<Value> items;
};

struct WrongArgument : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class T, class = void>
struct Argument;
template <>
struct Argument<at::Tensor> {
    static at::Tensor from(const Value& v) {
        if (v.kind != Value::tensor) throw WrongArgument("the function takes a tensor where the task gives something else");
        return v.as_tensor;
    }
};
template <class T>
struct Argument<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
    static T from(const Value& v) {
        if (v.kind == Value::real && std::is_floating_point_v<T>) return T(v.as_real);
        if (v.kind == Value::integer || v.kind == Value::boolean) return T(v.as_integer);
        throw WrongArgument("the function takes a number of another kind than the task gives");
    }
};
template <class T>
struct Argument<std::optional<T>> {
    static std::optional<T> from(const Value& v) {
        if (v.kind == Value::none) return std::nullopt;
        return Argument<T>::from(v);
    }
};
template <class T>
struct Argument<std::vector<T>> {
    static std::vector<T> from(const Value& v) {
        if (v.kind != Value::list) throw WrongArgument("the function takes a list where the task gives something else");
        std::vector<T> all;
        for (const Value& item : v.items) all.push_back(Argument<T>::from(item));
        return all;
    }
};
template <class... T>
struct Argument<std::tuple<T...>> {
    template <size_t... I>
    static std::tuple<T...> take(const Value& v, std::index_sequence<I...>) { return {Argument<T>::from(v.items[I])...}; }
    static std::tuple<T...> from(const Value& v) {
        if (v.kind != Value::list || v.items.size() != sizeof...(T)) throw WrongArgument("the function takes a tuple of another size");
        return take(v, std::index_sequence_for<T...>());
    }
};
template <class T, size_t N>
struct Argument<std::array<T, N>> {
    static std::array<T, N> from(const Value& v) {
        const auto all = Argument<std::vector<T>>::from(v);
        if (all.size() != N) throw WrongArgument("the function takes an array of another size");
        std::array<T, N> made;
        std::copy(all.begin(), all.end(), made.begin());
        return made;
    }
};
template <>
struct Argument<at::IntArrayRef> : Argument<std::vector<int64_t>> {};

inline void give(std::vector<at::Tensor>& to, const at::Tensor& t) { to.push_back(t); }
inline void give(std::vector<at::Tensor>& to, const std::vector<at::Tensor>& all) { to.insert(to.end(), all.begin(), all.end()); }
template <class... T>
void give(std::vector<at::Tensor>& to, const std::tuple<T...>& all) {
    std::apply([&](const auto&... item) { (give(to, item), ...); }, all);
}
template <class A, class B>
void give(std::vector<at::Tensor>& to, const std::pair<A, B>& both) { give(to, both.first), give(to, both.second); }
template <size_t N>
void give(std::vector<at::Tensor>& to, const std::array<at::Tensor, N>& all) { to.insert(to.end(), all.begin(), all.end()); }

using Function = std::function<std::vector<at::Tensor>(const std::vector<Value>&)>;

struct Module {
    std::map<std::string, Function> functions;
    template <class F, class... Extra>
    Module& def(const char* name, F f, const Extra&...) {
        functions[name] = wrapped(std::function(f));
        return *this;
    }
    std::string& doc() { return words; }
    std::string words;

private:
    template <class R, class... P>
    static Function wrapped(std::function<R(P...)> f) {
        return [f](const std::vector<Value>& given) {
            if (given.size() != sizeof...(P))
                throw WrongArgument("the function takes " + std::to_string(sizeof...(P)) + " arguments, the task gives " + std::to_string(given.size()));
            return call(f, given, std::index_sequence_for<P...>());
        };
    }
    template <class R, class... P, size_t... I>
    static std::vector<at::Tensor> call(const std::function<R(P...)>& f, const std::vector<Value>& given, std::index_sequence<I...>) {
        std::vector<at::Tensor> results;
        auto held = std::make_tuple(Argument<std::decay_t<P>>::from(given[I])...);  // what references point at
        give(results, f(static_cast<P>(static_cast<std::decay_t<P>&&>(std::get<I>(held)))...));
        return results;
    }
};

}  // namespace kbench

extern "C" void kbench_module(kbench::Module& m);
#define PYBIND11_MODULE(name, m) extern "C" void kbench_module(kbench::Module& m)

namespace pybind11 {
struct none {};
struct arg {
    explicit arg(const char*) {}
    template <class T>
    arg& operator=(const T&) { return *this; }
    arg& noconvert() { return *this; }
};
using module_ = kbench::Module;
using module = kbench::Module;
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}
template <class T = int>
struct call_guard {};
struct gil_scoped_release {};
}  // namespace pybind11
namespace py = pybind11;
