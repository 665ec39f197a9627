// The memory of the emulated GPU: its address space, allocations, stacks, and the shared memory of each block.
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "memory.h"

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char kb_names_begin[] __attribute__((weak, visibility("hidden")));
extern const char kb_names_end[] __attribute__((weak, visibility("hidden")));
alignas(1024) char kb_dynamic_shared[kbench::kMaxShared + 1024];
thread_local char kb_shared_probe = 1;  // makes the thread-local segment exist; __shared__ variables lie there
}

namespace kbench {

Layout layout;

namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr size_t kGuardedStacks = 24000;  // each is two mappings, and a process may have 65530
constexpr size_t kParameterBytes = 64 << 10, kAlignment = 512, kRedZone = 4096;

struct Piece {  // of global memory
    size_t bytes;
    bool freed;
    std::string name;
};

std::map<uintptr_t, Piece> pieces;
uintptr_t heap_top;
size_t filled_bytes = sizeof(kb_dynamic_shared);
std::vector<bool> guarded;

void* map(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        std::fprintf(stderr, "the emulator cannot reserve %zu bytes of address space\n", bytes);
        std::exit(3);
    }
    return at;
}

template <typename F>
void each_shared_name(F f) {
    const char* at = kb_names_begin;
    while (at != nullptr && at < kb_names_end) {
        int64_t offset, bytes;
        std::memcpy(&offset, at, 8), std::memcpy(&bytes, at + 8, 8);
        f(size_t(offset), size_t(bytes), at + 16);
        at += 16 + (std::strlen(at + 16) + 8) / 8 * 8;
    }
}

int find_segments(dl_phdr_info* info, size_t, void*) {
    const auto here = uintptr_t(&__ehdr_start);
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD && info->dlpi_addr + part.p_vaddr == here) ours = true;
    }
    if (!ours) return 0;
    layout.module_begin = here;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD) layout.module_end = std::max(layout.module_end, uintptr_t(info->dlpi_addr + part.p_vaddr + part.p_memsz));
        if (part.p_type == PT_TLS) layout.tls_begin = uintptr_t(info->dlpi_tls_data), layout.tls_bytes = part.p_memsz;
    }
    return 1;
}

void fill(void* at, size_t bytes) {
    auto* words = static_cast<uint32_t*>(at);
    std::fill(words, words + bytes / 4, state.options.poison);
}

}  // namespace

// ---- global memory --------------------------------------------------------------------------------------------------

void* device_allocate(size_t bytes, bool zeroed) {
    if (bytes == 0) return nullptr;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t gap = std::max(kRedZone, std::min(rounded, size_t(1) << 20)) / kAlignment * kAlignment;
    if (heap_top + rounded + gap > layout.heap + kHeapBytes) return nullptr;
    const uintptr_t at = heap_top;
    heap_top += rounded + gap;
    const size_t first = (at - layout.heap) / kGranule, whole = bytes / kGranule;
    std::memset(layout.granules + first, int(kGranule), whole);
    if (bytes % kGranule) layout.granules[first + whole] = uint8_t(bytes % kGranule);
    pieces[at] = {bytes, false, ""};
    if (!zeroed && !state.options.sampled) fill(reinterpret_cast<void*>(at), rounded);
    return reinterpret_cast<void*>(at);
}

bool device_free(void* place) {
    if (place == nullptr) return true;
    const auto found = pieces.find(uintptr_t(place));
    if (found == pieces.end() || found->second.freed) return false;
    const size_t granules_used = (found->second.bytes + kGranule - 1) / kGranule;
    std::memset(layout.granules + (found->first - layout.heap) / kGranule, kFreed, granules_used);
    const uintptr_t first = (found->first + 4095) & ~uintptr_t(4095), last = (found->first + found->second.bytes) & ~uintptr_t(4095);
    if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    found->second.freed = true;
    return true;
}

void name_piece(const void* place, const std::string& name) {
    const auto found = pieces.find(uintptr_t(place));
    if (found != pieces.end()) found->second.name = name;
}

std::string shared_variable_above(size_t bytes) {
    std::string text;
    each_shared_name([&](size_t, size_t size, const char* mangled) {
        if (size > bytes) text = "shared variable " + std::string(mangled).substr(0, 300) + " has " + std::to_string(size) + " bytes";
    });
    return text;
}

std::string describe(uintptr_t place) {
    const Spot spot = spot_of(place, 1);
    char text[400];
    if (spot.kind == Spot::shared) {
        std::string name = "shared memory";
        size_t start = 0, bytes = layout.tls_bytes;
        if (spot.offset >= layout.dynamic_offset()) {
            name = "dynamic shared memory", start = layout.dynamic_offset(), bytes = layout.dynamic_bytes;
        } else {
            bool found = false;
            each_shared_name([&](size_t at, size_t size, const char* mangled) {
                if (at <= spot.offset && (!found || at >= start)) name = mangled, start = at, bytes = size, found = true;
            });
            name = "shared variable " + name;
        }
        std::snprintf(text, sizeof text, "byte %zu of %.300s, which has %zu bytes", spot.offset - start, name.c_str(), bytes);
        return text;
    }
    if (spot.kind == Spot::global && !pieces.empty()) {
        auto next = pieces.upper_bound(place);
        if (next != pieces.begin()) {
            auto before = std::prev(next);
            const uintptr_t end = before->first + before->second.bytes;
            if (next != pieces.end() && place >= end && next->first - place < place - end) before = next;
            const Piece& piece = before->second;
            const std::string name = piece.name.empty() ? "memory that the submission allocated" : piece.name;
            std::snprintf(text, sizeof text, "byte %lld of %.200s%s, which has %zu bytes",
                          (long long)(place - before->first), name.c_str(), piece.freed ? " (freed)" : "", piece.bytes);
            return text;
        }
    }
    if (spot.kind == Spot::module) return "a variable of the module";
    std::snprintf(text, sizeof text, "address 0x%llx, which is no memory of the GPU", (unsigned long long)place);
    return text;
}

// ---- set-up ---------------------------------------------------------------------------------------------------------

void memory_create() {
    layout.heap = (uintptr_t(map(kHeapBytes + kAlignment)) + kAlignment - 1) / kAlignment * kAlignment;
    heap_top = layout.heap + (1 << 20);
    layout.granules = static_cast<uint8_t*>(map(kHeapBytes / kGranule));
    layout.heap_cells = static_cast<Cell*>(map(kHeapBytes / 4 * sizeof(Cell)));
    layout.stacks = uintptr_t(map(kStacksBytes));
    guarded.assign(kStacksBytes / kStackBytes, false);
    kb_shared_probe = 2;
    dl_iterate_phdr(find_segments, nullptr);
    layout.tls_valid.assign(layout.tls_bytes, 0);
    each_shared_name([&](size_t offset, size_t bytes, const char*) {
        for (size_t i = offset; i < offset + bytes && i < layout.tls_bytes; ++i) layout.tls_valid[i] = 1;
    });
    layout.module_cells = static_cast<Cell*>(map(((layout.module_end - layout.module_begin) / 4 + 1) * sizeof(Cell)));
    layout.slot_bytes = (layout.dynamic_offset() + sizeof(kb_dynamic_shared) + 4095) / 4096 * 4096;
    layout.shared_cells = static_cast<Cell*>(map((layout.dynamic_offset() + sizeof(kb_dynamic_shared)) / 4 * sizeof(Cell)));
}

void* parameter_room(size_t bytes) {
    if (bytes > kParameterBytes) abstain(0, "the arguments of a kernel are too large");
    return reinterpret_cast<void*>(layout.stacks);
}

uintptr_t stack_of(unsigned index) {
    const size_t place = kParameterBytes / kStackBytes + index;
    const uintptr_t low = layout.stacks + place * kStackBytes;
    if (place < kGuardedStacks && !guarded[place]) mprotect(reinterpret_cast<void*>(low), 4096, PROT_NONE), guarded[place] = true;
    return low + kStackBytes;
}

unsigned stack_capacity() { return unsigned(kStacksBytes / kStackBytes - kParameterBytes / kStackBytes); }

bool in_stack_guard(uintptr_t place) {
    return place - layout.stacks < kStacksBytes && place - layout.stacks >= kParameterBytes && (place - layout.stacks) % kStackBytes < 4096;
}

void memory_begin() { layout.dynamic_bytes = state.launch.shape.shared_bytes; }

void memory_fill_shared(size_t bytes) {
    settle_write();
    each_shared_name([&](size_t offset, size_t size, const char*) { fill(reinterpret_cast<char*>(layout.tls_begin) + offset, size); });
    const size_t wanted = (std::max(bytes, filled_bytes) + 3) / 4 * 4;
    fill(kb_dynamic_shared, std::min(wanted, sizeof(kb_dynamic_shared)));
    filled_bytes = bytes;
}

void memory_prepare_slots(unsigned slots) {
    if (slots <= layout.slots_mapped) return;
    layout.homes = uintptr_t(map(slots * layout.slot_bytes));
    Cell* old = layout.shared_cells;
    const size_t bytes = (layout.dynamic_offset() + sizeof(kb_dynamic_shared)) / 4 * sizeof(Cell);
    layout.shared_cells = static_cast<Cell*>(map(slots * bytes));
    if (layout.slots_mapped == 0) std::memcpy(layout.shared_cells, old, bytes);
    layout.slots_mapped = slots;
}

// Brings a block's shared memory into the window, where compiled code looks for it.
void memory_activate(Block* block) {
    if (state.current == block) return;
    settle_write();
    if (state.launch.several) {
        const auto move = [](Block* owner, bool out) {
            char* home = reinterpret_cast<char*>(layout.homes + owner->slot * layout.slot_bytes);
            char* window = reinterpret_cast<char*>(layout.tls_begin);
            each_shared_name([&](size_t offset, size_t bytes, const char*) {
                std::memcpy(out ? home + offset : window + offset, out ? window + offset : home + offset, bytes);
            });
            std::memcpy(out ? home + layout.dynamic_offset() : kb_dynamic_shared, out ? kb_dynamic_shared : home + layout.dynamic_offset(),
                        layout.dynamic_bytes);
        };
        if (state.current != nullptr) move(state.current, true);
        move(block, false);
    }
    state.current = block;
}

// ---- shared memory --------------------------------------------------------------------------------------------------

uint32_t shared_address(const void* pointer) {
    const auto place = uintptr_t(pointer);
    if (place - layout.tls_begin < layout.tls_bytes) return uint32_t(place - layout.tls_begin);
    if (place - uintptr_t(kb_dynamic_shared) < sizeof(kb_dynamic_shared))
        return uint32_t(place - uintptr_t(kb_dynamic_shared)) + layout.dynamic_offset();
    if (layout.slots_mapped > 0 && place - layout.homes < layout.slots_mapped * layout.slot_bytes)
        for (Block* other : state.fiber->block->cluster->blocks)
            if (other->slot == (place - layout.homes) / layout.slot_bytes)
                return uint32_t((place - layout.homes) % layout.slot_bytes) | (other->rank + 1) << 24;
    fail("illegal address", "the address of something that is not in shared memory is used as one of shared memory");
}

void* shared_pointer(uint32_t address) {
    const uint32_t offset = address & 0xffffff, rank = address >> 24;
    if (rank > 0) return shared_of_rank(shared_pointer(offset), rank - 1);
    if (offset >= layout.dynamic_offset()) return kb_dynamic_shared + (offset - layout.dynamic_offset());
    return reinterpret_cast<char*>(layout.tls_begin) + offset;
}

void* shared_of_rank(const void* place, unsigned rank) {
    const uint32_t offset = shared_address(place) & 0xffffff;
    const auto& blocks = state.fiber->block->cluster->blocks;
    if (rank >= blocks.size()) fail("illegal address", "a rank that the cluster does not have");
    if (blocks[rank] == state.fiber->block) return shared_pointer(offset);
    return reinterpret_cast<void*>(layout.homes + blocks[rank]->slot * layout.slot_bytes + offset);
}

void* dynamic_shared() { return kb_dynamic_shared; }
void allow_shared_bytes(size_t bytes) { state.allowed_shared = std::max(state.allowed_shared, std::min(bytes, kMaxShared)); }

}  // namespace kbench
