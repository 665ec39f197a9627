// Every access of compiled code: where its address lies, whether the thread may touch it, and who touched it before.
//
// The functions are in one file so that the compiler can inline them: they run at every load and store. Stacks are not watched.
#include <algorithm>
#include <cstring>

#include "memory.h"

namespace kbench {

namespace {

bool shared_valid(size_t offset, size_t bytes) {
    const size_t start = layout.dynamic_offset();
    if (offset >= start) return offset + bytes <= start + layout.dynamic_bytes;
    for (size_t i = offset; i < offset + bytes; ++i)
        if (i >= layout.tls_valid.size() || !layout.tls_valid[i]) return false;
    return true;
}

Spot shared_spot(size_t offset, unsigned slot, size_t bytes) {
    Spot spot;
    spot.kind = Spot::shared, spot.offset = offset, spot.slot = slot;
    spot.valid = shared_valid(offset, bytes);
    const size_t per_slot = (layout.dynamic_offset() + sizeof(kb_dynamic_shared)) / 4;
    spot.cell = layout.shared_cells + slot * per_slot + offset / 4;
    return spot;
}

bool heap_valid(uintptr_t place, size_t bytes) {
    const size_t first = (place - layout.heap) / kGranule, last = (place + bytes - 1 - layout.heap) / kGranule;
    for (size_t i = first; i <= last; ++i) {
        const size_t end = std::min(place + bytes, layout.heap + (i + 1) * kGranule) - layout.heap - i * kGranule;
        if (layout.granules[i] == kFreed || end > layout.granules[i]) return false;
    }
    return true;
}

}  // namespace

Spot spot_of(uintptr_t place, size_t bytes) {
    Spot spot;
    if (place - layout.stacks < kStacksBytes) {
        spot.kind = Spot::stack;
    } else if (place - layout.heap < kHeapBytes) {
        spot.kind = Spot::global, spot.cell = layout.heap_cells + (place - layout.heap) / 4, spot.valid = heap_valid(place, bytes);
    } else if (place - layout.tls_begin < layout.tls_bytes) {
        return shared_spot(place - layout.tls_begin, state.current->slot, bytes);
    } else if (place - uintptr_t(kb_dynamic_shared) < sizeof(kb_dynamic_shared)) {
        return shared_spot(place - uintptr_t(kb_dynamic_shared) + layout.dynamic_offset(), state.current->slot, bytes);
    } else if (layout.slots_mapped > 0 && place - layout.homes < layout.slots_mapped * layout.slot_bytes) {
        return shared_spot((place - layout.homes) % layout.slot_bytes, unsigned((place - layout.homes) / layout.slot_bytes), bytes);
    } else if (place - layout.module_begin < layout.module_end - layout.module_begin) {
        spot.kind = Spot::module, spot.cell = layout.module_cells + (place - layout.module_begin) / 4;
    }
    return spot;
}

// ---- who may touch what ---------------------------------------------------------------------------------------------

namespace {

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
};
std::vector<Guess> guesses;  // one for each thread that has read and not yet exchanged
constexpr uint32_t kAccessesOfGuess = 16;

void settle(Guess& guess) {
    guess.finding.by = guess.by;
    record(guess.finding);
}

void settle_guesses() {
    for (Guess& guess : guesses) settle(guess);
    guesses.clear();
}

void follow_guesses(const Cell& cell, uint32_t me, Access access) {
    for (size_t i = 0; i < guesses.size();) {
        Guess& guess = guesses[i];
        const bool exchanged = guess.cell == &cell && access == kCompare;
        if (guess.thread != me || (!exchanged && ++guess.accesses <= kAccessesOfGuess)) {
            ++i;
            continue;
        }
        if (!exchanged) settle(guess);
        guesses.erase(guesses.begin() + long(i));
    }
}

bool is_guessed(uintptr_t site) {
    return std::any_of(guesses.begin(), guesses.end(), [&](const Guess& guess) { return guess.finding.site == site; });
}

}  // namespace

void settle_write() {
    if (pending.word == nullptr) return;
    uint32_t* word = pending.word;
    pending.word = nullptr;
    pending.finding.by = pending.by;
    if (((*word ^ pending.value) & pending.bytes) != 0) record(pending.finding);
}

void settle_pending() {
    settle_guesses();
    settle_write();
}

namespace {

const char* race_text(bool first_writes, bool second_writes, bool streams) {
    if (streams) return "two launches on different streams touch it, one of them writes, and no event orders them";
    if (first_writes && second_writes) return "two threads write it without a barrier between them";
    return first_writes ? "a thread reads what another one has written, without a barrier between them"
                        : "a thread writes what another one has read, without a barrier between them";
}

void race(uintptr_t place, const Touch& before, bool before_wrote, bool write, uintptr_t site, const Cell& cell, bool exchanges) {
    if (!is_news("race", site, before.site >> 5)) return;
    Finding finding{"race", race_text(before_wrote, write, before.time < state.launch.began), site, before.site >> 5, before.thread, describe(place)};
    if (before_wrote && !write && (before.site & 16) && before.time >= state.launch.began) {
        if (!is_guessed(site)) guesses.push_back({&cell, name_of(*state.fiber), 0, finding, {state.fiber->block->index, state.fiber->thread}});
        return;
    }
    if (!before_wrote && exchanges && before.time >= state.launch.began) {  // the reader may yet exchange what it has read
        guesses.push_back({&cell, before.thread, 0, finding, {state.fiber->block->index, state.fiber->thread}});
        return;
    }
    if (!(before_wrote && write)) return record(finding);
    settle_write();
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) bytes |= before.site >> i & 1 ? 0xffu << (8 * i) : 0;
    auto* word = reinterpret_cast<uint32_t*>(place & ~uintptr_t(3));
    pending = {word, *word, bytes, finding, {state.fiber->block->index, state.fiber->thread}};
}

void note(Cell& cell, uintptr_t place, uint32_t mask, Access access, uintptr_t site, bool shared) {
    const uint32_t me = name_of(*state.fiber);
    const bool atomic = access >= kAtomic, write = access != kRead;
    if (!guesses.empty()) follow_guesses(cell, me, access);
    if (access == kCompare && cell.reader.thread == me) cell.reader = {};
    const Touch mine{me, state.now, uint32_t(site) << 5 | (atomic ? 16u : 0u) | mask};
    const auto meets = [&](const Touch& other) { return (other.site & mask) && !(atomic && (other.site & 16)); };
    if ((cell.writer.thread != me || state.several_streams) && meets(cell.writer) && conflicts(cell.writer.thread, cell.writer.time, me, shared))
        race(place, cell.writer, true, write, site, cell, false);
    if (write) {
        if (meets(cell.reader)) {
            if (conflicts(cell.reader.thread, cell.reader.time, me, shared)) race(place, cell.reader, false, true, site, cell, access == kCompare);
            else if (conflicts(cell.other_reader, cell.other_time, me, shared))
                race(place, {cell.other_reader, cell.other_time, cell.reader.site}, false, true, site, cell, access == kCompare);
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
    if (pending.word != nullptr) settle_write();
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

// ---- what compiled code and the headers call ------------------------------------------------------------------------

void touch(const void* place, size_t bytes, Access access, size_t alignment) {
    if (state.fiber != nullptr) check(uintptr_t(place), bytes, alignment, access, uintptr_t(__builtin_return_address(0)) - layout.module_begin);
}

void read_only(const void* place, size_t bytes) {
    if (state.fiber == nullptr) return;
    const Spot spot = spot_of(uintptr_t(place), bytes);
    if (spot.kind != Spot::global || !spot.valid || spot.cell->writer.thread == 0 || spot.cell->writer.time < state.launch.began) return;
    const Touch& writer = spot.cell->writer;
    record({"stale read", "reads through the read-only cache what the same launch has written", uintptr_t(__builtin_return_address(0)) - layout.module_begin,
            writer.site >> 5, writer.thread, describe(uintptr_t(place))});
}

// ---- copies that are under way --------------------------------------------------------------------------------------

namespace {

void arrive(const Copy& copy) {
    check(uintptr_t(copy.to), copy.bytes, 1, kWrite, copy.site);
    std::memcpy(copy.to, copy.from, copy.valid_bytes);
    std::memset(static_cast<char*>(copy.to) + copy.valid_bytes, 0, copy.bytes - copy.valid_bytes);
}

}  // namespace

void copy_async(void* to, const void* from, size_t bytes, size_t valid_bytes, int) {
    const uintptr_t site = uintptr_t(__builtin_return_address(0)) - layout.module_begin;
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
    record({"misaligned address", "an access needs an address that is a multiple of " + std::to_string(alignment), from - layout.module_begin, 0, 0,
            describe(place)});
    stop();
}

// The hooks: `site` is the place in the compiled code.
void hook(const void* place, size_t bytes, size_t alignment, Access access, const void* from) {
    check(uintptr_t(place), bytes, alignment, access, uintptr_t(from) - layout.module_begin);
}

}  // namespace kbench
