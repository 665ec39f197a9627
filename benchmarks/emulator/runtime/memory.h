// The address space of the emulated GPU: what `memory.cpp` lays out and `accesses.cpp` looks up at every access.
#pragma once
#include <vector>

#include "state.h"

#pragma GCC visibility push(hidden)
extern "C" char kb_dynamic_shared[kbench::kMaxShared + 1024];

namespace kbench {

// Who touched a word: thread, time, and place in the code with the bytes (4 bits) and whether it was atomic (1 bit).
struct Touch {
    uint32_t thread, time, site;
};
struct Cell {
    Touch writer, reader;
    uint32_t other_reader, other_time;  // another thread that read it
};

constexpr size_t kHeapBytes = size_t(2) << 30, kGranule = 16, kStacksBytes = size_t(9) << 29;
constexpr uint8_t kFreed = 0xff;

struct Layout {
    uintptr_t heap, stacks, homes, module_begin, module_end;
    uint8_t* granules;  // of each 16 bytes of the heap: how many may be touched
    Cell *heap_cells, *module_cells, *shared_cells;
    uintptr_t tls_begin;  // of the window, where the static shared memory of the block at work lies
    size_t tls_bytes, slot_bytes, slots_mapped, dynamic_bytes;
    std::vector<uint8_t> tls_valid;  // by byte

    uint32_t dynamic_offset() const { return uint32_t((tls_bytes + 1023) / 1024 * 1024); }
};
extern Layout layout;

struct Spot {  // where an address lies
    enum { none, stack, global, shared, module } kind = none;
    Cell* cell = nullptr;  // of the word
    bool valid = true;
    size_t offset = 0;  // in shared memory
    unsigned slot = 0;
};
Spot spot_of(uintptr_t place, size_t bytes);

}  // namespace kbench
#pragma GCC visibility pop
