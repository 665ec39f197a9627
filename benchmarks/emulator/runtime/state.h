// The state of the emulated GPU. Does not know CUDA's names: those are in ../headers.
#pragma once
#include <cstdio>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "../headers/emulator/abi.h"

namespace kbench {

constexpr unsigned kWarp = 32, kMaxThreads = 1024, kProcessors = 132;
constexpr size_t kMaxShared = 227 << 10, kDefaultShared = 48 << 10;

enum class Status : uint8_t { ready, waiting, spinning, left };

struct Block;

struct Copy {
    void* to;
    const void* from;
    size_t bytes, valid_bytes;
    uintptr_t site;
};

struct Fiber {  // one CUDA thread
    void* stack_pointer = nullptr;
    Block* block = nullptr;
    Index thread{};
    unsigned number = 0, warp = 0, lane = 0;
    Status status = Status::ready;
    uint32_t synced = 0;  // when this lane last met lanes of its warp
    const char* waits_at = nullptr;
    int waits_line = 0;
    const void* polled = nullptr;
    uint64_t polled_value = 0;
    unsigned polls = 0, stepped_aside = 0;
    std::vector<Copy> started;                // copies of the open group
    std::deque<std::vector<Copy>> committed;  // closed groups, oldest first
};

struct Gate {  // a barrier of a block, a cluster or a grid
    std::vector<Fiber*> waiting;
    unsigned arrived = 0, count = 0;
    bool all = true, any = false;
    int line = 0, form = 0;  // of those who wait
    int result[4] = {};
};

struct Meeting {  // lanes of a warp that wait for each other
    unsigned mask = 0, arrived = 0;
    const char* what = nullptr;
    Combine combine = nullptr;
    void* brought[kWarp] = {};
};

struct Mbarrier {
    unsigned expected = 0, pending = 0;
    int64_t bytes = 0;
    uint64_t phase = 0;
    std::vector<uint32_t> knows;
    std::vector<Fiber*> waiting;
};

struct Cluster {
    std::vector<Block*> blocks;
    Gate gate;
};

struct Warp {
    std::vector<Meeting> meetings;
    unsigned alive = 0;  // mask of lanes
};

struct Block {
    Index index{};
    unsigned number = 0, slot = 0, rank = 0, alive = 0;
    Cluster* cluster = nullptr;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::deque<Fiber*> ready;
    std::vector<Fiber*> spinning;
    Gate gates[16];
    std::vector<uint32_t> knows;  // knows[w * warps + v]: until when warp w has seen what warp v did
    std::unordered_map<const void*, std::vector<uint32_t>> known_at;  // by place of an atomic access: what is known there
    uint32_t floor = 0;           // everything before is seen by all threads of the block
    std::unordered_map<uint32_t, Mbarrier> mbarriers;
};

struct Launch {
    const char* kernel = "";
    int line = 0;
    Shape shape{};
    void (*invoke)(void*) = nullptr;
    void* call = nullptr;
    uint32_t began = 0;
    std::vector<uint32_t> released, acquired;  // by block
    bool several = false;                      // blocks live at a time
};

struct Options {
    int seed = 0;
    bool sampled = false;  // a few blocks of each launch, on memory full of zeros; results are not looked at
    uint32_t poison = 0xfff7fff3;
};

struct State {
    Fiber* fiber = nullptr;
    Block* current = nullptr;  // whose shared memory lies in the window
    Launch launch;
    Options options;
    uint32_t now = 1;
    size_t allowed_shared = kDefaultShared;
    unsigned changes_of_block = 0;  // of this launch that others_first() made
    bool change_block = false;      // the next thread is one of another block
    bool stopped = false, used_active_mask = false, several_streams = false;
    bool faulty = false;  // something was found that is not only a note
    int line = 0;         // of the built-in function or asm statement at work
    int report_fd = -1;
    std::string refused;  // the last launch that was refused, and why
    int refused_line = 0;
};

extern State state;

// memory.cpp
void memory_begin();
void memory_fill_shared(size_t dynamic_bytes);
void memory_prepare_slots(unsigned slots);
void memory_activate(Block* block);
std::string describe(uintptr_t place);
std::string shared_variable_above(size_t bytes);  // says so of a static one that is larger; empty if there is none
uintptr_t stack_of(unsigned index);
unsigned stack_capacity();

// accesses.cpp
void settle_write();    // records a race of two writes that was held back, if it did harm
void settle_pending();  // the same, and races of threads that did not exchange what they had read

// streams.cpp
void streams_reset();
void stream_begins(const void* stream, uint32_t began);  // a launch
bool launch_was_over(uint32_t time);                     // the launch of that time, before the one at work began
bool work_is_left();                                     // that the default stream does not wait for

// findings.cpp
struct Finding {
    const char* kind;
    std::string text;
    uintptr_t site = 0, other_site = 0;
    uint32_t other = 0;  // thread number as in a cell; 0: none
    std::string where = "";
    int line = 0;  // where there is no site
    const Index* by = nullptr;  // block and thread, where another one runs by now
};
void record(const Finding& finding);
bool is_news(const char* kind, uintptr_t site, uintptr_t other_site);  // nothing like it was recorded in this run
[[noreturn]] void stop();

inline uint32_t name_of(const Fiber& fiber) { return (fiber.block->number + 1) * kMaxThreads + fiber.number; }

}  // namespace kbench
