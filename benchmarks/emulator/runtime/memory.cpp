// The memory of the emulated GPU: global, shared, and a shadow that knows who touched each word when.
//
// Compiled code calls a hook for every load and store (-fsanitize=thread without its library). Stacks are not watched.
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "state.h"

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char kb_names_begin[] __attribute__((weak, visibility("hidden")));
extern const char kb_names_end[] __attribute__((weak, visibility("hidden")));
alignas(1024) char kb_dynamic_shared[kbench::kMaxShared + 1024];
thread_local char kb_shared_probe = 1;  // makes the thread-local segment exist; __shared__ variables lie there
}

namespace kbench {

namespace {

// Who touched a word: thread, time, and place in the code with the bytes (4 bits) and whether it was atomic (1 bit).
struct Touch {
    uint32_t thread, time, site;
};
struct Cell {
    Touch writer, reader;
    uint32_t other_reader, other_time;  // another thread that read it
};

constexpr size_t kHeapBytes = size_t(2) << 30, kGranule = 16, kStackBytes = 64 << 10, kStacksBytes = size_t(9) << 29;
constexpr size_t kGuardedStacks = 24000;  // each is two mappings, and a process may have 65530
constexpr size_t kParameterBytes = 64 << 10, kAlignment = 512, kRedZone = 4096;
constexpr uint8_t kFreed = 0xff;

struct Piece {  // of global memory
    size_t bytes;
    bool freed;
    std::string name;
};

uintptr_t heap, heap_top, stacks, homes, module_begin, module_end;
uint8_t* granules;  // of each 16 bytes of the heap: how many may be touched
Cell *heap_cells, *module_cells, *shared_cells;
std::map<uintptr_t, Piece> pieces;
uintptr_t tls_begin;
size_t tls_bytes, slot_bytes, slots_mapped, dynamic_bytes, filled_bytes = sizeof(kb_dynamic_shared);
std::vector<uint8_t> tls_valid;  // by byte
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
    module_begin = here;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD) module_end = std::max(module_end, uintptr_t(info->dlpi_addr + part.p_vaddr + part.p_memsz));
        if (part.p_type == PT_TLS) tls_begin = uintptr_t(info->dlpi_tls_data), tls_bytes = part.p_memsz;
    }
    return 1;
}

uint32_t dynamic_offset() { return uint32_t((tls_bytes + 1023) / 1024 * 1024); }

void fill(void* at, size_t bytes) {
    auto* words = static_cast<uint32_t*>(at);
    std::fill(words, words + bytes / 4, state.options.poison);
}

// ---- where an address lies -------------------------------------------------------------------------------------------

struct Spot {
    enum { none, stack, global, shared, module } kind = none;
    Cell* cell = nullptr;  // of the word
    bool valid = true;
    size_t offset = 0;   // in shared memory
    unsigned slot = 0;
};

bool shared_valid(size_t offset, size_t bytes) {
    const size_t start = dynamic_offset();
    if (offset >= start) return offset + bytes <= start + dynamic_bytes;
    for (size_t i = offset; i < offset + bytes; ++i)
        if (i >= tls_valid.size() || !tls_valid[i]) return false;
    return true;
}

Spot shared_spot(size_t offset, unsigned slot, size_t bytes) {
    Spot spot;
    spot.kind = Spot::shared, spot.offset = offset, spot.slot = slot;
    spot.valid = shared_valid(offset, bytes);
    const size_t per_slot = (dynamic_offset() + sizeof(kb_dynamic_shared)) / 4;
    spot.cell = shared_cells + slot * per_slot + offset / 4;
    return spot;
}

bool heap_valid(uintptr_t place, size_t bytes) {
    const size_t first = (place - heap) / kGranule, last = (place + bytes - 1 - heap) / kGranule;
    for (size_t i = first; i <= last; ++i) {
        const size_t end = std::min(place + bytes, heap + (i + 1) * kGranule) - heap - i * kGranule;
        if (granules[i] == kFreed || end > granules[i]) return false;
    }
    return true;
}

Spot spot_of(uintptr_t place, size_t bytes) {
    Spot spot;
    if (place - stacks < kStacksBytes) {
        spot.kind = Spot::stack;
    } else if (place - heap < kHeapBytes) {
        spot.kind = Spot::global, spot.cell = heap_cells + (place - heap) / 4, spot.valid = heap_valid(place, bytes);
    } else if (place - tls_begin < tls_bytes) {
        return shared_spot(place - tls_begin, state.current->slot, bytes);
    } else if (place - uintptr_t(kb_dynamic_shared) < sizeof(kb_dynamic_shared)) {
        return shared_spot(place - uintptr_t(kb_dynamic_shared) + dynamic_offset(), state.current->slot, bytes);
    } else if (slots_mapped > 0 && place - homes < slots_mapped * slot_bytes) {
        return shared_spot((place - homes) % slot_bytes, unsigned((place - homes) / slot_bytes), bytes);
    } else if (place - module_begin < module_end - module_begin) {
        spot.kind = Spot::module, spot.cell = module_cells + (place - module_begin) / 4;
    }
    return spot;
}

// ---- who may touch what ----------------------------------------------------------------------------------------------

bool ordered(uint32_t thread, uint32_t time, bool shared) {
    const Fiber& me = *state.fiber;
    const Block& block = *me.block;
    const unsigned number = thread / kMaxThreads - 1, index = thread % kMaxThreads;
    if (number == block.number) {
        if (block.floor > time) return true;
        const Fiber& other = block.fibers[index];
        if (other.warp == me.warp) return other.synced > time && me.synced > time;
        return block.knows[me.warp * block.warps.size() + other.warp] > time;
    }
    if (shared) {  // what a block left there that is over, or never could see this one, is no race
        const auto& near = block.cluster->blocks;
        if (std::none_of(near.begin(), near.end(), [&](const Block* other) { return other->number == number; })) return true;
    }
    return state.launch.released[number] > time && state.launch.acquired[block.number] > time;
}

bool conflicts(uint32_t thread, uint32_t time, uint32_t me, bool shared) {
    if (thread == 0) return false;
    if (time < state.launch.began) return state.several_streams && !shared && !launch_was_over(time);
    return thread != me && !ordered(thread, time, shared);
}

struct Pending {  // two threads have written the same word; harmless if the value stays
    uint32_t* word = nullptr;
    uint32_t value = 0, bytes = 0;
    Finding finding;
    Index by[2] = {};
} pending;

// A thread reads a word that others change atomically. Harmless where it only tries to exchange what it has read.
struct Guess {
    const Cell* cell = nullptr;
    uint32_t thread = 0, accesses = 0;
    Finding finding;
    Index by[2] = {};
} guess;
constexpr uint32_t kAccessesOfGuess = 16;

void settle_guess() {
    if (guess.cell == nullptr) return;
    guess.cell = nullptr;
    guess.finding.by = guess.by;
    record(guess.finding);
}

void follow_guess(const Cell& cell, uint32_t me, Access access) {
    if (guess.cell == &cell && guess.thread == me && access == kCompare) guess.cell = nullptr;
    else if (guess.thread != me || ++guess.accesses > kAccessesOfGuess) settle_guess();
}

void settle_pending() {
    settle_guess();
    if (pending.word == nullptr) return;
    uint32_t* word = pending.word;
    pending.word = nullptr;
    pending.finding.by = pending.by;
    if (((*word ^ pending.value) & pending.bytes) != 0) record(pending.finding);
}

const char* race_text(bool first_writes, bool second_writes, bool streams) {
    if (streams) return "two launches on different streams touch it, one of them writes, and no event orders them";
    if (first_writes && second_writes) return "two threads write it without a barrier between them";
    return first_writes ? "a thread reads what another one has written, without a barrier between them"
                        : "a thread writes what another one has read, without a barrier between them";
}

void race(uintptr_t place, const Touch& before, bool before_wrote, bool write, uintptr_t site, const Cell& cell) {
    if (!is_news("race", site, before.site >> 5)) return;
    Finding finding{"race", race_text(before_wrote, write, before.time < state.launch.began), site, before.site >> 5, before.thread, describe(place)};
    if (before_wrote && !write && (before.site & 16) && before.time >= state.launch.began) {
        if (guess.cell != nullptr && guess.finding.site == site) return;  // its other half
        settle_guess();
        guess = {&cell, name_of(*state.fiber), 0, finding, {state.fiber->block->index, state.fiber->thread}};
        return;
    }
    if (!(before_wrote && write)) return record(finding);
    settle_pending();
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) bytes |= before.site >> i & 1 ? 0xffu << (8 * i) : 0;
    auto* word = reinterpret_cast<uint32_t*>(place & ~uintptr_t(3));
    pending = {word, *word, bytes, finding, {state.fiber->block->index, state.fiber->thread}};
}

void note(Cell& cell, uintptr_t place, uint32_t mask, Access access, uintptr_t site, bool shared) {
    const uint32_t me = name_of(*state.fiber);
    const bool atomic = access >= kAtomic, write = access != kRead;
    if (guess.cell != nullptr) follow_guess(cell, me, access);
    if (access == kCompare && cell.reader.thread == me) cell.reader = {};
    const Touch mine{me, state.now, uint32_t(site) << 5 | (atomic ? 16u : 0u) | mask};
    const auto meets = [&](const Touch& other) { return (other.site & mask) && !(atomic && (other.site & 16)); };
    if ((cell.writer.thread != me || state.several_streams) && meets(cell.writer) && conflicts(cell.writer.thread, cell.writer.time, me, shared))
        race(place, cell.writer, true, write, site, cell);
    if (write) {
        if (meets(cell.reader)) {
            if (conflicts(cell.reader.thread, cell.reader.time, me, shared)) race(place, cell.reader, false, true, site, cell);
            else if (conflicts(cell.other_reader, cell.other_time, me, shared))
                race(place, {cell.other_reader, cell.other_time, cell.reader.site}, false, true, site, cell);
        }
        if (cell.writer.thread == me && cell.writer.time == state.now) cell.writer.site |= mask;
        else cell.writer = mine;
    }
    if (access == kRead) {
        if (cell.reader.thread != me) cell.other_reader = cell.reader.thread, cell.other_time = cell.reader.time;
        cell.reader = mine;
    }
}

[[noreturn]] void bad_access(const Spot& spot, uintptr_t place, size_t bytes, Access access, uintptr_t site) {
    const char* verb = access == kRead ? "reads " : access == kWrite ? "writes " : "atomically changes ";
    const std::string where = describe(place);
    const bool freed = where.find("freed") != std::string::npos;
    const char* kind = spot.kind == Spot::none ? "illegal address" : freed ? "use after free" : "out of bounds";
    record({kind, verb + std::to_string(bytes) + " bytes that it may not touch", site, 0, 0, where});
    stop();
}

void check(uintptr_t place, size_t bytes, size_t alignment, Access access, uintptr_t site) {
    const Spot spot = spot_of(place, bytes);
    if (spot.kind == Spot::stack) return;
    if (spot.kind == Spot::none || !spot.valid) bad_access(spot, place, bytes, access, site);
    if (place % alignment != 0) {
        record({"misaligned address", "an access of " + std::to_string(bytes) + " bytes needs an address that is a multiple of " +
                                          std::to_string(alignment), site, 0, 0, describe(place)});
        stop();
    }
    if (pending.word != nullptr) settle_pending();
    Cell* cell = spot.cell;
    for (uintptr_t word = place & ~uintptr_t(3); word < place + bytes; word += 4, ++cell) {
        const unsigned from = unsigned(std::max(place, word) - word), to = unsigned(std::min(place + bytes, word + 4) - word);
        if (access != kWrite && !state.options.sampled && spot.kind != Spot::module && *reinterpret_cast<uint32_t*>(word) == state.options.poison &&
            is_news("uninitialised", site, 0))
            record({"uninitialised", "reads memory that nobody has written", site, 0, 0, describe(word)});
        note(*cell, word, (1u << to) - (1u << from), access, site, spot.kind == Spot::shared);
    }
}

}  // namespace

// ---- global memory ---------------------------------------------------------------------------------------------------

void* device_allocate(size_t bytes, bool zeroed) {
    if (bytes == 0) return nullptr;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t gap = std::max(kRedZone, std::min(rounded, size_t(1) << 20)) / kAlignment * kAlignment;
    if (heap_top + rounded + gap > heap + kHeapBytes) return nullptr;
    const uintptr_t at = heap_top;
    heap_top += rounded + gap;
    const size_t first = (at - heap) / kGranule, whole = bytes / kGranule;
    std::memset(granules + first, int(kGranule), whole);
    if (bytes % kGranule) granules[first + whole] = uint8_t(bytes % kGranule);
    pieces[at] = {bytes, false, ""};
    if (!zeroed && !state.options.sampled) fill(reinterpret_cast<void*>(at), rounded);
    return reinterpret_cast<void*>(at);
}

bool device_free(void* place) {
    if (place == nullptr) return true;
    const auto found = pieces.find(uintptr_t(place));
    if (found == pieces.end() || found->second.freed) return false;
    const size_t granules_used = (found->second.bytes + kGranule - 1) / kGranule;
    std::memset(granules + (found->first - heap) / kGranule, kFreed, granules_used);
    const uintptr_t first = (found->first + 4095) & ~uintptr_t(4095), last = (found->first + found->second.bytes) & ~uintptr_t(4095);
    if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    found->second.freed = true;
    return true;
}

void name_piece(const void* place, const std::string& name) {
    const auto found = pieces.find(uintptr_t(place));
    if (found != pieces.end()) found->second.name = name;
}

std::string describe(uintptr_t place) {
    const Spot spot = spot_of(place, 1);
    char text[400];
    if (spot.kind == Spot::shared) {
        std::string name = "shared memory";
        size_t start = 0, bytes = tls_bytes;
        if (spot.offset >= dynamic_offset()) {
            name = "dynamic shared memory", start = dynamic_offset(), bytes = dynamic_bytes;
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

// ---- set-up ----------------------------------------------------------------------------------------------------------

void memory_create() {
    heap = (uintptr_t(map(kHeapBytes + kAlignment)) + kAlignment - 1) / kAlignment * kAlignment;
    heap_top = heap + (1 << 20);
    granules = static_cast<uint8_t*>(map(kHeapBytes / kGranule));
    heap_cells = static_cast<Cell*>(map(kHeapBytes / 4 * sizeof(Cell)));
    stacks = uintptr_t(map(kStacksBytes));
    guarded.assign(kStacksBytes / kStackBytes, false);
    kb_shared_probe = 2;
    dl_iterate_phdr(find_segments, nullptr);
    tls_valid.assign(tls_bytes, 0);
    each_shared_name([&](size_t offset, size_t bytes, const char*) {
        for (size_t i = offset; i < offset + bytes && i < tls_bytes; ++i) tls_valid[i] = 1;
    });
    module_cells = static_cast<Cell*>(map(((module_end - module_begin) / 4 + 1) * sizeof(Cell)));
    slot_bytes = (dynamic_offset() + sizeof(kb_dynamic_shared) + 4095) / 4096 * 4096;
    shared_cells = static_cast<Cell*>(map((dynamic_offset() + sizeof(kb_dynamic_shared)) / 4 * sizeof(Cell)));
}

void* parameter_room(size_t bytes) {
    if (bytes > kParameterBytes) abstain(0, "the arguments of a kernel are too large");
    return reinterpret_cast<void*>(stacks);
}

uintptr_t stack_of(unsigned index) {
    const size_t place = kParameterBytes / kStackBytes + index;
    const uintptr_t low = stacks + place * kStackBytes;
    if (place < kGuardedStacks && !guarded[place]) mprotect(reinterpret_cast<void*>(low), 4096, PROT_NONE), guarded[place] = true;
    return low + kStackBytes;
}

unsigned stack_capacity() { return unsigned(kStacksBytes / kStackBytes - kParameterBytes / kStackBytes); }

bool in_stack_guard(uintptr_t place) {
    return place - stacks < kStacksBytes && place - stacks >= kParameterBytes && (place - stacks) % kStackBytes < 4096;
}

void memory_begin() { dynamic_bytes = state.launch.shape.shared_bytes; }

void memory_fill_shared(size_t bytes) {
    settle_pending();
    each_shared_name([&](size_t offset, size_t size, const char*) { fill(reinterpret_cast<char*>(tls_begin) + offset, size); });
    const size_t wanted = (std::max(bytes, filled_bytes) + 3) / 4 * 4;
    fill(kb_dynamic_shared, std::min(wanted, sizeof(kb_dynamic_shared)));
    filled_bytes = bytes;
}

void memory_prepare_slots(unsigned slots) {
    if (slots <= slots_mapped) return;
    homes = uintptr_t(map(slots * slot_bytes));
    Cell* old = shared_cells;
    const size_t bytes = (dynamic_offset() + sizeof(kb_dynamic_shared)) / 4 * sizeof(Cell);
    shared_cells = static_cast<Cell*>(map(slots * bytes));
    if (slots_mapped == 0) std::memcpy(shared_cells, old, bytes);
    slots_mapped = slots;
}

// Brings a block's shared memory into the window, where compiled code looks for it.
void memory_activate(Block* block) {
    if (state.current == block) return;
    settle_pending();
    if (state.launch.several) {
        const auto move = [](Block* owner, bool out) {
            char* home = reinterpret_cast<char*>(homes + owner->slot * slot_bytes);
            char* window = reinterpret_cast<char*>(tls_begin);
            each_shared_name([&](size_t offset, size_t bytes, const char*) {
                std::memcpy(out ? home + offset : window + offset, out ? window + offset : home + offset, bytes);
            });
            std::memcpy(out ? home + dynamic_offset() : kb_dynamic_shared, out ? kb_dynamic_shared : home + dynamic_offset(),
                        dynamic_bytes);
        };
        if (state.current != nullptr) move(state.current, true);
        move(block, false);
    }
    state.current = block;
}

void memory_settle() { settle_pending(); }

// ---- what compiled code and the headers call ---------------------------------------------------------------------------

void touch(const void* place, size_t bytes, Access access, size_t alignment) {
    if (state.fiber != nullptr) check(uintptr_t(place), bytes, alignment, access, uintptr_t(__builtin_return_address(0)) - module_begin);
}

void read_only(const void* place, size_t bytes) {
    if (state.fiber == nullptr) return;
    const Spot spot = spot_of(uintptr_t(place), bytes);
    if (spot.kind != Spot::global || !spot.valid || spot.cell->writer.thread == 0 || spot.cell->writer.time < state.launch.began) return;
    const Touch& writer = spot.cell->writer;
    record({"stale read", "reads through the read-only cache what the same launch has written", uintptr_t(__builtin_return_address(0)) - module_begin,
            writer.site >> 5, writer.thread, describe(uintptr_t(place))});
}

uint32_t shared_address(const void* pointer) {
    const auto place = uintptr_t(pointer);
    if (place - tls_begin < tls_bytes) return uint32_t(place - tls_begin);
    if (place - uintptr_t(kb_dynamic_shared) < sizeof(kb_dynamic_shared))
        return uint32_t(place - uintptr_t(kb_dynamic_shared)) + dynamic_offset();
    if (slots_mapped > 0 && place - homes < slots_mapped * slot_bytes)
        for (Block* other : state.fiber->block->cluster->blocks)
            if (other->slot == (place - homes) / slot_bytes)
                return uint32_t((place - homes) % slot_bytes) | (other->rank + 1) << 24;
    fail("illegal address", "the address of something that is not in shared memory is used as one of shared memory");
}

void* shared_pointer(uint32_t address) {
    const uint32_t offset = address & 0xffffff, rank = address >> 24;
    if (rank > 0) return shared_of_rank(shared_pointer(offset), rank - 1);
    if (offset >= dynamic_offset()) return kb_dynamic_shared + (offset - dynamic_offset());
    return reinterpret_cast<char*>(tls_begin) + offset;
}

void* shared_of_rank(const void* place, unsigned rank) {
    const uint32_t offset = shared_address(place) & 0xffffff;
    const auto& blocks = state.fiber->block->cluster->blocks;
    if (rank >= blocks.size()) fail("illegal address", "a rank that the cluster does not have");
    if (blocks[rank] == state.fiber->block) return shared_pointer(offset);
    return reinterpret_cast<void*>(homes + blocks[rank]->slot * slot_bytes + offset);
}

void* dynamic_shared() { return kb_dynamic_shared; }
void allow_shared_bytes(size_t bytes) { state.allowed_shared = std::max(state.allowed_shared, std::min(bytes, kMaxShared)); }

// ---- copies that are under way -----------------------------------------------------------------------------------------

namespace {

void arrive(const Copy& copy) {
    check(uintptr_t(copy.to), copy.bytes, 1, kWrite, copy.site);
    std::memcpy(copy.to, copy.from, copy.valid_bytes);
    std::memset(static_cast<char*>(copy.to) + copy.valid_bytes, 0, copy.bytes - copy.valid_bytes);
}

}  // namespace

void copy_async(void* to, const void* from, size_t bytes, size_t valid_bytes, int) {
    const uintptr_t site = uintptr_t(__builtin_return_address(0)) - module_begin;
    if (valid_bytes > bytes) valid_bytes = bytes;
    if (valid_bytes > 0) check(uintptr_t(from), valid_bytes, bytes, kRead, site);
    check(uintptr_t(to), bytes, bytes, kWrite, site);
    const Copy copy{to, from, bytes, valid_bytes, site};
    if (state.options.seed == 1) arrive(copy);
    else state.fiber->started.push_back(copy);
}

void commit_copies() {
    state.fiber->committed.push_back(std::move(state.fiber->started));
    state.fiber->started.clear();
}

void wait_copies(unsigned allowed) {
    Fiber& fiber = *state.fiber;
    while (fiber.committed.size() > allowed) {
        for (const Copy& copy : fiber.committed.front()) arrive(copy);
        fiber.committed.pop_front();
    }
}

// A GPU's widest access has 16 bytes. Stacks are registers there, or aligned by the compiler.
void check_alignment(uintptr_t place, size_t alignment, uintptr_t from) {
    alignment = std::min(alignment, size_t(16));
    if (place % alignment == 0 || spot_of(place, 1).kind == Spot::stack) return;
    record({"misaligned address", "an access needs an address that is a multiple of " + std::to_string(alignment), from - module_begin, 0, 0,
            describe(place)});
    stop();
}

// The hooks: `site` is the place in the compiled code.
void hook(const void* place, size_t bytes, size_t alignment, Access access, const void* from) {
    check(uintptr_t(place), bytes, alignment, access, uintptr_t(from) - module_begin);
}

}  // namespace kbench
