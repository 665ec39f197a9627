// Threads as fibres: blocks, warps, barriers, and who runs next. Everything runs on one thread of the host.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "scheduler.h"

extern "C" {
kbench::Index kb_threadIdx, kb_blockIdx, kb_blockDim, kb_gridDim;
void kb_switch(void** from, void* to);
void kb_enter();
}

// Keeps what the calling convention wants kept, and goes on where `to` left off.
#if defined(__x86_64__)
asm(R"(
.text
.hidden kb_switch
.globl kb_switch
.type kb_switch, @function
kb_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
constexpr int kKept = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.hidden kb_switch
.globl kb_switch
kb_switch:
    sub sp, sp, #176
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
)");
#else
#error "fibres are written for x86-64 and aarch64"
#endif

namespace kbench {

State state;
std::vector<Block*> live;

namespace {

constexpr unsigned kIdleRoundsMax = 200000;
constexpr unsigned kAsideMax = 6, kChangesMax = 200;  // of a thread, and of a launch: they take time
constexpr size_t kInterleaved = 4;                    // blocks that take turns although none waits
constexpr unsigned kSampledBlocks = 16;  // of a launch: the first and last ones, and others between them
constexpr std::chrono::milliseconds kSampledLaunch(700);
void* scheduler_stack;
std::vector<unsigned> free_slots;
std::mt19937 shuffler;

std::string text_of(const Index& i) { return std::to_string(i.x) + " x " + std::to_string(i.y) + " x " + std::to_string(i.z); }

void prepare_stack(Fiber& fiber, unsigned index) {
    auto* top = reinterpret_cast<uint64_t*>(stack_of(index));
#if defined(__x86_64__)
    *--top = 0;  // the return address of kb_enter, never used
    *--top = reinterpret_cast<uint64_t>(&kb_enter);
    for (int i = 0; i < kKept; ++i) *--top = 0;
#else
    top -= 22;
    std::memset(top, 0, 176);
    top[11] = reinterpret_cast<uint64_t>(&kb_enter);
#endif
    fiber.stack_pointer = top;
}

void arrange(std::vector<Fiber*>& fibers) {
    if (state.options.seed == 1) std::reverse(fibers.begin(), fibers.end());
    else if (state.options.seed > 1) std::shuffle(fibers.begin(), fibers.end(), shuffler);
}

void go(void** from) {
    Block* block = state.current;
    if (block == nullptr || block->ready.empty() || state.change_block) {
        state.fiber = nullptr;
        kb_switch(from, scheduler_stack);
        return;
    }
    Fiber* next = block->ready.front();
    block->ready.pop_front();
    state.fiber = next;
    kb_threadIdx = next->thread;
    if (from != &next->stack_pointer) kb_switch(from, next->stack_pointer);
}

}  // namespace

unsigned volume(const Index& i) { return i.x * i.y * i.z; }

void wake(std::vector<Fiber*>& fibers, bool soon) {
    if (state.options.seed > 1) std::shuffle(fibers.begin(), fibers.end(), shuffler);
    for (Fiber* fiber : fibers) fiber->status = Status::ready, fiber->waits_at = nullptr;
    if (soon)
        for (auto it = fibers.rbegin(); it != fibers.rend(); ++it) (*it)->block->ready.push_front(*it);
    else
        for (Fiber* fiber : fibers) fiber->block->ready.push_back(fiber);
    fibers.clear();
}

void leave_cpu() { go(&state.fiber->stack_pointer); }

// An order that a GPU could have: what this thread has read may have changed before it changes that itself.
void others_first() {
    if (state.fiber == nullptr || state.options.seed < 2 || state.options.sampled) return;
    Fiber& fiber = *state.fiber;
    if (fiber.stepped_aside >= kAsideMax || shuffler() % 2 == 0) return;
    ++fiber.stepped_aside;
    state.change_block = shuffler() % 4 == 0 && state.changes_of_block < kChangesMax;
    state.changes_of_block += state.change_block;
    if (fiber.block->ready.empty() && !state.change_block) return;
    fiber.block->ready.push_back(&fiber);
    leave_cpu();
}

void wait(const char* at, int line) {
    Fiber* fiber = state.fiber;
    fiber->status = Status::waiting, fiber->waits_at = at, fiber->waits_line = line;
    leave_cpu();
}

namespace {

void leave() {
    Fiber& fiber = *state.fiber;
    Block& block = *fiber.block;
    wait_copies(0);
    fiber.status = Status::left;
    --block.alive;
    block.warps[fiber.warp].alive &= ~(1u << fiber.lane);
    release_those_who_wait_for(fiber);
}

Block* make_block(unsigned number, Cluster* cluster, unsigned rank) {
    const Shape& shape = state.launch.shape;
    auto* block = new Block;
    block->number = number, block->rank = rank, block->cluster = cluster;
    const Index& grid = shape.grid;
    block->index = {number % grid.x, number / grid.x % grid.y, number / (grid.x * grid.y)};
    const unsigned threads = volume(shape.block), warps = (threads + kWarp - 1) / kWarp;
    block->alive = threads;
    block->slot = free_slots.back();
    free_slots.pop_back();
    block->fibers.resize(threads);
    block->warps.resize(warps);
    block->knows.assign(size_t(warps) * warps, 0);
    block->floor = ++state.now;
    std::vector<Fiber*> order;
    for (unsigned i = 0; i < threads; ++i) {
        Fiber& fiber = block->fibers[i];
        fiber.block = block, fiber.number = i, fiber.warp = i / kWarp, fiber.lane = i % kWarp;
        fiber.thread = {i % shape.block.x, i / shape.block.x % shape.block.y, i / (shape.block.x * shape.block.y)};
        fiber.synced = state.now;
        prepare_stack(fiber, block->slot * threads + i);
        block->warps[fiber.warp].alive |= 1u << fiber.lane;
        order.push_back(&fiber);
    }
    arrange(order);
    block->ready.assign(order.begin(), order.end());
    cluster->blocks.push_back(block);
    live.push_back(block);
    memory_activate(block);
    memory_fill_shared(shape.shared_bytes);
    return block;
}

void forget_finished() {
    for (size_t i = 0; i < live.size();) {
        Cluster* cluster = live[i]->cluster;
        bool over = true;
        for (Block* block : cluster->blocks) over = over && block->alive == 0;
        if (!over) {
            ++i;
            continue;
        }
        for (Block* block : cluster->blocks) {
            live.erase(std::find(live.begin(), live.end(), block));
            free_slots.push_back(block->slot);
            if (state.current == block) state.current = nullptr;
            delete block;
        }
        delete cluster;
        i = 0;
    }
}

std::string waiting_text() {
    std::unordered_map<std::string, std::pair<Fiber*, unsigned>> places;
    unsigned left = 0;
    for (Block* block : live)
        for (Fiber& fiber : block->fibers) {
            if (fiber.status == Status::left) ++left;
            if (fiber.waits_at == nullptr) continue;
            auto& [first, count] = places[std::string(fiber.waits_at) + " in line " + std::to_string(fiber.waits_line)];
            if (count++ == 0) first = &fiber;
        }
    std::string text;
    for (const auto& [place, who] : places) {
        const Index& t = who.first->thread;
        text += (text.empty() ? "" : "; ") + std::to_string(who.second) + " thread(s) wait at " + place +
                ", the first is thread (" + std::to_string(t.x) + ", " + std::to_string(t.y) + ", " +
                std::to_string(t.z) + ") of block " + std::to_string(who.first->block->number);
    }
    if (left > 0) text += "; " + std::to_string(left) + " thread(s) have returned";
    return text;
}

unsigned resident_max() {
    const Shape& shape = state.launch.shape;
    const unsigned threads = volume(shape.block);
    unsigned together = std::min(2048 / std::max(threads, 1u), 32u);
    if (shape.shared_bytes > 0) together = std::min<unsigned>(together, unsigned(kMaxShared / shape.shared_bytes));
    return kProcessors * std::max(together, 1u);
}

unsigned resident_here() { return std::min(resident_max(), stack_capacity() / volume(state.launch.shape.block)); }

bool wake_spinning() {
    bool any = false;
    for (Block* block : live)
        if (!block->spinning.empty()) any = true, wake(block->spinning, false);
    return any;
}

void report_deadlock() {
    if (state.options.sampled) std::_Exit(0);  // they may wait for a block that is left out
    if (state.used_active_mask) abstain(state.launch.line, "threads diverge around __activemask, which is not modelled");
    record({"divergent barrier", "threads wait for each other for ever: " + waiting_text()});
}

std::vector<unsigned> sampled(const std::vector<unsigned>& order) {
    if (order.size() <= kSampledBlocks) return order;
    std::vector<unsigned> kept;
    const size_t last = order.size() - 1, ends = kSampledBlocks / 4;
    for (size_t i = 0; i < ends; ++i) kept.push_back(order[i]), kept.push_back(order[last - i]);
    for (size_t i = 1; i <= kSampledBlocks - 2 * ends; ++i) kept.push_back(order[ends + (order.size() - 2 * ends) * i / (kSampledBlocks - 2 * ends + 1)]);
    return kept;
}

void run_blocks() {
    const Launch& launch = state.launch;
    const unsigned blocks = volume(launch.shape.grid), together = volume(launch.shape.cluster);
    std::vector<unsigned> order(blocks / together);
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
    if (state.options.seed == 1) std::reverse(order.begin(), order.end());
    if (state.options.seed > 1) std::shuffle(order.begin(), order.end(), shuffler);
    if (state.options.sampled) order = sampled(order);
    const auto began = std::chrono::steady_clock::now();
    const unsigned most = std::max(together, resident_here());
    size_t next = 0;
    unsigned idle = 0;
    const auto start = [&] {
        auto* cluster = new Cluster;
        const unsigned first = order[next++];
        // a cluster of several in x; blocks of it are neighbours
        for (unsigned rank = 0; rank < together; ++rank) make_block(first * together + rank, cluster, rank);
    };
    const auto may_start = [&] {
        if (state.options.sampled && std::chrono::steady_clock::now() - began > kSampledLaunch) return false;
        return next < order.size() && live.size() + together <= most;
    };
    const auto several = [&] {
        if (live.empty() || launch.several) return;
        state.launch.several = true;
        memory_prepare_slots(most);
    };
    while (!state.stopped) {
        Block* chosen = state.current != nullptr && !state.current->ready.empty() ? state.current : nullptr;
        if (state.change_block) {
            state.change_block = false;
            if (live.size() < kInterleaved && may_start()) several(), start();
            std::vector<Block*> others;
            for (Block* block : live)
                if (block != state.current && !block->ready.empty()) others.push_back(block);
            if (!others.empty()) chosen = others[shuffler() % others.size()];
        }
        for (size_t i = 0; chosen == nullptr && i < live.size(); ++i)
            if (!live[i]->ready.empty()) chosen = live[i];
        if (chosen != nullptr) {
            memory_activate(chosen);
            kb_blockIdx = chosen->index;
            go(&scheduler_stack);
            if (state.stopped) break;
            forget_finished();
            continue;
        }
        if (may_start()) {
            several(), start();
        } else if (live.empty()) {
            break;
        } else if (++idle > kIdleRoundsMax || !wake_spinning()) {
            report_deadlock();
            state.stopped = true;
        }
    }
}

void forget_all() {
    for (Block* block : live) {
        Cluster* cluster = block->cluster;
        cluster->blocks.erase(std::find(cluster->blocks.begin(), cluster->blocks.end(), block));
        if (cluster->blocks.empty()) delete cluster;
        delete block;
    }
    live.clear();
    forget_grid_barrier();
    state.current = nullptr, state.fiber = nullptr;
}

}  // namespace

[[noreturn]] void stop() {
    state.stopped = true;
    void* nowhere = nullptr;
    state.fiber = nullptr;
    kb_switch(&nowhere, scheduler_stack);
    std::abort();
}

int run_grid(const char* kernel, int line, const Shape& shape, void (*invoke)(void*), void* call) {
    constexpr int kInvalidValue = 1, kInvalidConfiguration = 9, kTooLarge = 720, kIllegalAddress = 700;
    if (state.stopped) return kIllegalAddress;
    if (state.fiber != nullptr) abstain(line, "a kernel launches another one, which is not modelled");
    const unsigned threads = volume(shape.block), together = volume(shape.cluster);
    const Index& grid = shape.grid;
    const auto refuse = [&](int error, const std::string& why) {
        state.refused = std::string("the launch of ") + kernel + " is refused: " + why, state.refused_line = line;
        return error;
    };
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return kInvalidConfiguration;
    if (threads == 0 || threads > kMaxThreads || shape.block.x > 1024 || shape.block.y > 1024 || shape.block.z > 64)
        return refuse(kInvalidConfiguration, "a block of " + text_of(shape.block) + " threads");
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        return refuse(kInvalidConfiguration, "a grid of " + text_of(grid) + " blocks, where y and z may be 65535");
    if (shape.shared_bytes > state.allowed_shared)
        return refuse(kInvalidValue, std::to_string(shape.shared_bytes) + " bytes of dynamic shared memory, where " +
                                         std::to_string(state.allowed_shared) + " are allowed");
    if (shape.bound != 0 && threads > shape.bound)
        return refuse(kInvalidValue, std::to_string(threads) + " threads in a block, where its __launch_bounds__ allows " + std::to_string(shape.bound));
    if (uint64_t(grid.x) * grid.y * grid.z >= 1u << 21) abstain(line, "the grid has more than 2 million blocks");
    if (together > 1 && (grid.x % shape.cluster.x || volume(shape.cluster) != shape.cluster.x)) {
        if (grid.x % shape.cluster.x) return kInvalidConfiguration;
        abstain(line, "clusters of more than one dimension are not modelled");
    }
    const unsigned blocks = volume(grid);
    state.line = 0;
    state.launch = {kernel, line, shape, invoke, call, ++state.now, {}, {}, false};
    state.launch.released.assign(blocks, 0), state.launch.acquired.assign(blocks, 0);
    state.used_active_mask = false;
    state.change_block = false, state.changes_of_block = 0;
    stream_begins(shape.stream, state.launch.began);
    shuffler.seed(unsigned(state.options.seed));
    kb_blockDim = shape.block, kb_gridDim = grid;
    if (shape.cooperative && blocks > resident_max())
        return refuse(kTooLarge, "a cooperative launch of " + std::to_string(blocks) + " blocks, of which " + std::to_string(resident_max()) + " fit");
    if (shape.cooperative && state.options.sampled) std::_Exit(0);  // all of its blocks are needed
    if (shape.cooperative && blocks > resident_here()) abstain(line, "a cooperative launch with more threads than the emulator holds");
    memory_begin();
    if (const std::string large = shared_variable_above(kDefaultShared); !large.empty())
        return refuse(kInvalidValue, large + ", and nvcc allows " + std::to_string(kDefaultShared) + " bytes in all");
    free_slots.clear();
    for (unsigned i = std::max(together, resident_here()); i-- > 0;) free_slots.push_back(i);
    if (together > 1) state.launch.several = true, memory_prepare_slots(std::max(together, resident_here()));
    run_blocks();
    forget_all();
    ++state.now;
    return state.stopped ? kIllegalAddress : 0;
}

bool in_kernel() { return state.fiber != nullptr; }
unsigned lane() { return state.fiber->lane; }
unsigned live_lanes() { return state.fiber->block->warps[state.fiber->warp].alive; }
uint32_t poison() { return state.options.poison; }
int order_seed() { return state.options.seed; }
Index cluster_shape() { return state.launch.shape.cluster; }
unsigned cluster_rank() { return state.fiber->block->rank; }
bool all_blocks_resident() { return state.launch.shape.cooperative; }
void used_active_mask() { state.used_active_mask = true; }

}  // namespace kbench

extern "C" void kb_enter() {
    using namespace kbench;
    state.launch.invoke(state.launch.call);
    leave();
    void* nowhere = nullptr;
    go(&nowhere);
    std::abort();
}
