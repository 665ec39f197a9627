// Calls a submission's function as a plan says and writes its results. Linked to each submission; loaded by launcher.cpp.
//
// A plan is words: what to call, descriptors, and runs with their arguments and the places of their results.
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>

#include "../headers/emulator/binding.h"
#include "state.h"

namespace kbench {

int last_error = 0;
void memory_create();
void name_piece(const void* place, const std::string& name);
bool in_stack_guard(uintptr_t place);
void tell(const std::string& word, const std::string& text);
void forget_told();

void raw_copy(void* to, const void* from, size_t bytes) { std::memmove(to, from, bytes); }

void atomic_done(const void* place, uint64_t before, uint64_t after) {
    if (state.fiber == nullptr) return;
    published(), acquired(), meet_at(place);
    if (before == after) polled(place, before);
}

namespace {

class DeviceAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        void* at = device_allocate(bytes, false);
        if (at == nullptr && bytes > 0) abstain(0, "the submission needs more memory than the emulator has");
        return {at, at, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

private:
    static void release(void* place) { device_free(place); }
};
DeviceAllocator allocator;

struct Place {  // of a result
    at::ScalarType dtype;
    size_t offset;
    std::vector<int64_t> shape;
};

at::ScalarType dtype_in(std::istream& in) {
    std::string word;
    in >> word;
    return word == "int64" ? at::kLong : word == "bfloat16" ? at::kBFloat16 : word == "float8_e4m3fn" ? at::kFloat8_e4m3fn : at::kFloat;
}
std::vector<int64_t> shape_in(std::istream& in) {
    size_t count = 0;
    in >> count;
    std::vector<int64_t> shape(count);
    for (int64_t& size : shape) in >> size;
    return shape;
}

Value value_in(std::istream& in, const char* inputs) {
    std::string word;
    in >> word;
    Value value;
    if (word == "tensor") {
        std::string name;
        long long offset = 0;  // negative for zeros, as the emulator's memory is when it is fresh
        in >> name;
        const auto dtype = dtype_in(in);
        in >> offset;
        value.kind = Value::tensor;
        value.as_tensor = at::empty(shape_in(in), at::TensorOptions().dtype(dtype));
        if (offset >= 0) std::memcpy(value.as_tensor.data_ptr(), inputs + offset, value.as_tensor.nbytes());
        name_piece(value.as_tensor.data_ptr(), "the argument " + name);
    } else if (word == "int") {
        value.kind = Value::integer;
        in >> value.as_integer;
        value.as_real = double(value.as_integer);
    } else if (word == "bool") {
        value.kind = Value::boolean;
        in >> value.as_integer;
    } else if (word == "real") {
        value.kind = Value::real;
        in >> value.as_real;
    } else if (word == "list") {
        size_t count = 0;
        in >> count;
        value.kind = Value::list;
        for (size_t i = 0; i < count; ++i) value.items.push_back(value_in(in, inputs));
    }
    return value;
}

std::string shape_text(at::IntArrayRef shape) {
    std::ostringstream text;
    text << shape;
    return text.str();
}

// What is wrong with the results; else they are written.
std::string hand_over(const std::vector<at::Tensor>& results, const std::vector<Place>& places, int fd) {
    if (results.size() != places.size())
        return "it returned " + std::to_string(results.size()) + " results, not " + std::to_string(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
        if (!results[i].defined()) return "a result is no tensor";
        if (results[i].scalar_type() != places[i].dtype) return "a result has the wrong type of elements";
        if (results[i].sizes() != at::IntArrayRef(places[i].shape))
            return "a result has the shape " + shape_text(results[i].sizes()) + ", not " + shape_text(places[i].shape);
        const at::Tensor plain = results[i].contiguous();
        size_t done = 0;
        while (done < plain.nbytes()) {
            const ssize_t wrote = pwrite(fd, static_cast<const char*>(plain.data_ptr()) + done, plain.nbytes() - done, off_t(places[i].offset + done));
            if (wrote <= 0) std::_Exit(4);
            done += size_t(wrote);
        }
    }
    return "";
}

void on_fault(int, siginfo_t* info, void*) {
    const auto place = uintptr_t(info->si_addr);
    if (state.fiber == nullptr) std::_Exit(7);
    if (in_stack_guard(place)) record({"stack overflow", "a thread needs more stack than the emulator gives, 60 KiB", 0, 0, 0, ""});
    else record({"illegal address", "an access to an address that is no memory of the GPU", 0, 0, 0, describe(place)});
    std::_Exit(5);
}

void catch_faults() {
    static char stack[64 << 10];
    stack_t own{stack, 0, sizeof stack};
    sigaltstack(&own, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

constexpr int kSampledSeed = 3, kSampledSeconds = 6;

// At full size, a few blocks of each launch. Nothing is compared, and it may end at any time.
void sample(const Function& function, const std::vector<Value>& arguments) {
    std::signal(SIGVTALRM, [](int) { std::_Exit(0); });
    const itimerval limit{{0, 0}, {kSampledSeconds, 0}};
    setitimer(ITIMER_VIRTUAL, &limit, nullptr);
    last_error = 0, state.refused.clear();
    try {
        function(arguments);
    } catch (const std::exception&) {
        if (state.refused.empty()) return;  // it may be the zeros that it does not like
        last_error = 1;
    }
    settle_pending();
    if (last_error != 0 && !state.refused.empty()) record({"refused launch", state.refused, 0, 0, 0, "", state.refused_line});
}

void run(const Function& function, const std::vector<Value>& arguments, const std::vector<Place>& places, int results_fd) {
    state.refused.clear();
    try {
        const auto results = function(arguments);
        settle_pending();
        if (last_error != 0 && !state.refused.empty()) record({"refused launch", state.refused, 0, 0, 0, "", state.refused_line});
        if (work_is_left()) remark("not joined", "work on a stream of its own is under way when the function returns");
        const std::string problem = hand_over(results, places, results_fd);
        if (!problem.empty()) tell("result", problem);
    } catch (const c10::Error& error) {
        tell("raised", error.what_without_backtrace());
    } catch (const std::bad_alloc&) {
        abstain(0, "the submission needs more memory than the emulator has");
    } catch (const std::exception& error) {
        tell("raised", error.what());
    }
}

}  // namespace

}  // namespace kbench

extern "C" __attribute__((visibility("default"))) int kbench_run(const char* plan_path) {
    using namespace kbench;
    std::ifstream plan(plan_path);
    std::string word, name;
    int inputs_fd = -1, results_fd = -1;
    size_t inputs_bytes = 0;
    plan >> word >> name >> word >> inputs_fd >> inputs_bytes >> word >> results_fd >> word >> state.report_fd;
    const auto* inputs = static_cast<const char*>(mmap(nullptr, inputs_bytes, PROT_READ, MAP_SHARED, inputs_fd, 0));
    if (inputs == MAP_FAILED) return 3;
    memory_create();
    catch_faults();
    c10::SetCPUAllocator(&allocator, 200);
    at::set_num_threads(1);
    Module module;
    kbench_module(module);
    const auto found = module.functions.find(name);
    if (found == module.functions.end()) {
        tell("raised", "there is no function " + name);
        return 0;
    }
    while (plan >> word && word == "run") {
        size_t count = 0;
        std::string index;
        plan >> index >> state.options.seed >> state.options.poison >> count;
        state.options.sampled = state.options.seed == kSampledSeed;
        std::vector<Value> arguments;
        for (size_t i = 0; i < count; ++i) arguments.push_back(value_in(plan, inputs));
        plan >> count;
        std::vector<Place> places(count);
        for (Place& place : places) {
            place.dtype = dtype_in(plan);
            plan >> place.offset;
            place.shape = shape_in(plan);
        }
        tell("begin", index);
        forget_told();
        streams_reset();
        if (state.options.sampled) sample(found->second, arguments);
        else run(found->second, arguments, places, results_fd);
        tell("done", index);
        if (state.stopped || state.faulty) break;
    }
    std::_Exit(0);  // without the destructors of a module that may have been stopped in the middle
}
