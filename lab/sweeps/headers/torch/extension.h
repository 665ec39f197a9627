// A stand-in for torch's header that compiles in half a second, for measuring many settings of a template.
//
// It covers what the templates use: contiguous tensors of float or int64, allocated as torch does (64-byte aligned), the
// parallel loops (on one thread) and a module of one function, which `kbench_call` calls and times.
// Not covered: operators, strides, gradients, threads, Python.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace torch {

struct Options {};
struct Sizes : std::vector<int64_t> {
    using std::vector<int64_t>::vector;
    const std::vector<int64_t>& vec() const { return *this; }
    Sizes(const std::vector<int64_t>& from) : std::vector<int64_t>(from) {}
};

class Tensor {
    std::shared_ptr<void> memory;
    Sizes shape;

public:
    Tensor() = default;
    Tensor(std::shared_ptr<void> memory, Sizes shape) : memory(std::move(memory)), shape(std::move(shape)) {}
    const Sizes& sizes() const { return shape; }
    int64_t dim() const { return int64_t(shape.size()); }
    int64_t size(int64_t axis) const { return shape[axis < 0 ? axis + dim() : axis]; }
    int64_t numel() const {
        int64_t count = 1;
        for (int64_t extent : shape) count *= extent;
        return count;
    }
    Options options() const { return {}; }
    Tensor contiguous() const { return *this; }
    void* data() const { return memory.get(); }
    template <typename T>
    const T* const_data_ptr() const { return static_cast<const T*>(memory.get()); }
    template <typename T>
    T* mutable_data_ptr() const { return static_cast<T*>(memory.get()); }
};

inline Tensor empty(Sizes shape, Options = {}) {
    size_t bytes = sizeof(float);
    for (int64_t extent : shape) bytes *= size_t(extent);
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, std::max<size_t>(bytes, 64))) std::abort();
    return {std::shared_ptr<void>(memory, std::free), std::move(shape)};
}

inline Tensor zeros(Sizes shape, Options = {}) {
    Tensor made = empty(std::move(shape));
    std::fill_n(made.mutable_data_ptr<float>(), made.numel(), 0.0f);
    return made;
}

}  // namespace torch

namespace at {

inline int get_num_threads() { return 1; }

template <typename F>
void parallel_for(int64_t begin, int64_t end, int64_t, const F& body) {
    if (begin < end) body(begin, end);
}

template <typename T, typename F, typename Merge>
T parallel_reduce(int64_t begin, int64_t end, int64_t, T start, const F& body, const Merge&) {
    return begin < end ? body(begin, end, start) : start;
}

}  // namespace at

namespace kbench {

// One argument as it comes from outside: a tensor, a number, numbers or nothing.
struct Argument {
    void* data;
    int64_t dims, shape[8];
    double number;
    int64_t present;
};

inline torch::Tensor tensor_of(const Argument& from) {
    return {std::shared_ptr<void>(from.data, [](void*) {}), torch::Sizes(from.shape, from.shape + from.dims)};
}

inline void convert(const Argument& from, torch::Tensor& to) { to = tensor_of(from); }
inline void convert(const Argument& from, double& to) { to = from.number; }
inline void convert(const Argument& from, int64_t& to) { to = int64_t(from.number); }
inline void convert(const Argument& from, std::vector<int64_t>& to) { to.assign(from.shape, from.shape + from.dims); }
inline void convert(const Argument& from, std::tuple<torch::Tensor>& to) { std::get<0>(to) = tensor_of(from); }
inline void convert(const Argument& from, std::vector<torch::Tensor>& to) { to = {tensor_of(from)}; }
inline void convert(const Argument& from, std::optional<torch::Tensor>& to) {
    if (from.present) to = tensor_of(from);
}

using Results = std::vector<torch::Tensor>;
inline void keep(Results& results, torch::Tensor made) { results = {std::move(made)}; }
inline void keep(Results& results, std::vector<torch::Tensor> made) { results = std::move(made); }

struct Module {
    std::function<int64_t(const Argument*, Results&)> call;

    template <typename R, typename... A>
    void def(const char*, R (*function)(A...)) {
        call = [function](const Argument* from, Results& results) {
            std::tuple<std::decay_t<A>...> arguments;
            std::apply([&](auto&... each) { (convert(*from++, each), ...); }, arguments);
            const auto start = std::chrono::steady_clock::now();
            R made = std::apply(function, arguments);
            const auto end = std::chrono::steady_clock::now();
            keep(results, std::move(made));
            return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
        };
    }
};

}  // namespace kbench

// Nanoseconds of one call; `outputs` receives where the results lie until the next call.
#define PYBIND11_MODULE(name, module)                                                                            \
    static void kbench_define(kbench::Module& module);                                                           \
    extern "C" __attribute__((visibility("default"))) int64_t kbench_call(const kbench::Argument* arguments,     \
                                                                          void** outputs) {                      \
        static kbench::Module made = [] { kbench::Module m; kbench_define(m); return m; }();                     \
        static kbench::Results results;                                                                          \
        results.clear();                                                                                         \
        const int64_t nanoseconds = made.call(arguments, results);                                               \
        for (size_t i = 0; i < results.size(); ++i) outputs[i] = results[i].data();                              \
        return nanoseconds;                                                                                      \
    }                                                                                                            \
    static void kbench_define(kbench::Module& module)
