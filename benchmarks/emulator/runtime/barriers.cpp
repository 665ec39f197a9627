// Where threads wait for each other: barriers, warps that meet, mbarriers, and values that another thread has to change.
#include <algorithm>
#include <cstring>

#include "scheduler.h"

namespace kbench {

namespace {

constexpr unsigned kPollsMax = 32;
Gate grid_gate;

void open(Gate& gate) {
    gate.result[1] = int(gate.count), gate.result[2] = gate.all, gate.result[3] = gate.any;
    gate.arrived = 0, gate.count = 0, gate.all = true, gate.any = false, gate.line = 0;
}

// Warps that met know what each of them knew.
void join_warps(Block& block, const std::vector<bool>& met) {
    const size_t warps = block.warps.size();
    std::vector<uint32_t> all(warps, 0);
    for (size_t w = 0; w < warps; ++w)
        if (met[w])
            for (size_t v = 0; v < warps; ++v) all[v] = std::max(all[v], block.knows[w * warps + v]);
    for (size_t w = 0; w < warps; ++w)
        if (met[w]) all[w] = state.now;
    for (size_t w = 0; w < warps; ++w)
        if (met[w]) std::copy(all.begin(), all.end(), block.knows.begin() + long(w * warps));
}

void complete_block_gate(Block& block, int id, bool everybody) {
    Gate& gate = block.gates[id];
    ++state.now;
    if (everybody) {
        block.floor = state.now;
    } else {
        std::vector<bool> met(block.warps.size());
        for (Fiber* fiber : gate.waiting) met[fiber->warp] = true;
        join_warps(block, met);
    }
    for (Fiber* fiber : gate.waiting) fiber->synced = state.now;
    open(gate);
    wake(gate.waiting, false);
}

void try_gates_of_all(Block& block) {
    Gate& gate = block.gates[0];
    if (!gate.waiting.empty() && gate.arrived >= block.alive) complete_block_gate(block, 0, true);
    Gate& common = block.cluster->gate;
    unsigned alive = 0;
    for (Block* other : block.cluster->blocks) alive += other->alive;
    if (!common.waiting.empty() && common.arrived >= alive) {
        ++state.now;
        for (Block* other : block.cluster->blocks) {
            state.launch.released[other->number] = state.launch.acquired[other->number] = state.now;
            other->floor = state.now;
        }
        open(common);
        wake(common.waiting, false);
    }
}

void finish_meeting(Warp& warp, size_t place, Block& block, unsigned first_fiber) {
    Meeting meeting = warp.meetings[place];
    warp.meetings.erase(warp.meetings.begin() + long(place));
    if (meeting.combine != nullptr) meeting.combine(meeting.brought, meeting.arrived);
    ++state.now;
    std::vector<Fiber*> woken;
    for (unsigned lane = 0; lane < kWarp; ++lane)
        if (meeting.arrived >> lane & 1) {
            Fiber& fiber = block.fibers[first_fiber + lane];
            fiber.synced = state.now;
            if (fiber.status == Status::waiting) woken.push_back(&fiber);
        }
    if (state.options.seed == 1) std::reverse(woken.begin(), woken.end());
    wake(woken, true);
}

}  // namespace

void release_those_who_wait_for(const Fiber& left) {
    Block& block = *left.block;
    Warp& warp = block.warps[left.warp];
    for (size_t i = 0; i < warp.meetings.size();) {
        if ((warp.meetings[i].mask & warp.alive & ~warp.meetings[i].arrived) == 0)
            finish_meeting(warp, i, block, left.warp * kWarp), i = 0;
        else ++i;
    }
    try_gates_of_all(block);
}

void forget_grid_barrier() { grid_gate = {}; }

int block_barrier(int id, int expected, int form, int predicate, int line) {
    Fiber& fiber = *state.fiber;
    Block& block = *fiber.block;
    Gate& gate = block.gates[id & 15];
    if (!gate.waiting.empty() && gate.form != form) {
        const std::string text = "threads of one block wait for each other in different forms of a barrier, in lines " +
                                 std::to_string(gate.waiting.front()->waits_line) + " and " + std::to_string(line);
        record({"divergent barrier", text, 0, 0, 0, "", line});
        stop();
    }
    gate.form = form;
    if (id == 0 && !gate.waiting.empty() && gate.waiting.front()->waits_line != line)
        for (const Fiber* other : gate.waiting)
            if (other->warp == fiber.warp && other->waits_line != line) {
                const std::string text = "threads of one warp wait at barriers in different lines, " +
                                         std::to_string(other->waits_line) + " and " + std::to_string(line);
                record({"divergent barrier", text, 0, 0, 0, "", line});
                stop();
            }
    ++gate.arrived;
    gate.count += predicate != 0, gate.all = gate.all && predicate, gate.any = gate.any || predicate;
    gate.waiting.push_back(&fiber);
    fiber.status = Status::waiting, fiber.waits_at = id == 0 ? "a barrier of the block" : "a named barrier";
    fiber.waits_line = line;
    const unsigned wanted = expected == 0 ? block.alive : unsigned(expected);
    if (gate.arrived >= wanted) complete_block_gate(block, id & 15, wanted >= block.alive);
    leave_cpu();
    return gate.result[form];
}

void block_arrive(int id, int expected, int) {
    Block& block = *state.fiber->block;
    Gate& gate = block.gates[id & 15];
    ++gate.arrived;
    // who arrives without waiting is seen by those who wait; taken as if all warps had met
    if (gate.arrived >= unsigned(expected)) complete_block_gate(block, id & 15, true);
}

void cluster_barrier(int line) {
    Block& block = *state.fiber->block;
    Gate& gate = block.cluster->gate;
    ++gate.arrived;
    gate.waiting.push_back(state.fiber);
    state.fiber->status = Status::waiting;
    state.fiber->waits_at = "a barrier of the cluster", state.fiber->waits_line = line;
    try_gates_of_all(block);
    leave_cpu();
}

void grid_barrier(int line) {
    const unsigned everybody = volume(state.launch.shape.grid) * volume(state.launch.shape.block);
    ++grid_gate.arrived;
    grid_gate.waiting.push_back(state.fiber);
    state.fiber->status = Status::waiting, state.fiber->waits_at = "a barrier of the grid";
    state.fiber->waits_line = line;
    if (grid_gate.arrived >= everybody) {
        ++state.now;
        for (uint32_t& time : state.launch.released) time = state.now;
        for (uint32_t& time : state.launch.acquired) time = state.now;
        for (Block* block : live) block->floor = state.now;
        open(grid_gate);
        wake(grid_gate.waiting, false);
    }
    leave_cpu();
}

void collective(unsigned mask, const char* what, void* brought, Combine combine, int line) {
    Fiber& fiber = *state.fiber;
    Block& block = *fiber.block;
    Warp& warp = block.warps[fiber.warp];
    state.line = line;
    if (!(mask >> fiber.lane & 1)) {
        std::string text = std::string(what) + " in line " + std::to_string(line) + " is called by lane " +
                           std::to_string(fiber.lane) + ", which its mask " + std::to_string(mask) + " leaves out";
        fail("wrong mask", text.c_str());
    }
    size_t place = 0;
    while (place < warp.meetings.size() &&
           (warp.meetings[place].mask != mask || std::strcmp(warp.meetings[place].what, what) != 0 ||
            (warp.meetings[place].arrived >> fiber.lane & 1)))
        ++place;
    if (place == warp.meetings.size()) {
        Meeting meeting;
        meeting.mask = mask, meeting.what = what, meeting.combine = combine;
        warp.meetings.push_back(meeting);
    }
    Meeting& meeting = warp.meetings[place];
    meeting.arrived |= 1u << fiber.lane;
    meeting.brought[fiber.lane] = brought;
    if ((mask & warp.alive & ~meeting.arrived) == 0) {
        finish_meeting(warp, place, block, fiber.warp * kWarp);
        return;
    }
    wait(what, line);
}

void polled(const void* place, uint64_t value) {
    Fiber& fiber = *state.fiber;
    if (fiber.polled != place || fiber.polled_value != value) {
        fiber.polled = place, fiber.polled_value = value, fiber.polls = 0;
        return;
    }
    if (++fiber.polls < kPollsMax) return;
    fiber.polls = kPollsMax / 2;
    fiber.status = Status::spinning, fiber.waits_at = "a value that does not change", fiber.waits_line = 0;
    fiber.block->spinning.push_back(&fiber);
    leave_cpu();
}

void published() { state.launch.released[state.fiber->block->number] = ++state.now; }
void meet_at(const void* place) {
    Block& block = *state.fiber->block;
    const size_t warps = block.warps.size(), w = state.fiber->warp;
    if (warps < 2) return;
    auto& there = block.known_at[place];
    there.resize(warps);
    block.knows[w * warps + w] = ++state.now;
    for (size_t v = 0; v < warps; ++v) {
        uint32_t& here = block.knows[w * warps + v];
        here = there[v] = std::max(there[v], here);
    }
}
void acquired() { state.launch.acquired[state.fiber->block->number] = ++state.now; }

namespace {

Mbarrier& mbarrier_at(void* place, int line) {
    auto& all = state.fiber->block->mbarriers;
    const auto found = all.find(shared_address(place));
    if (found == all.end()) {
        const std::string text = "an mbarrier is used before it is initialised, in line " + std::to_string(line);
        fail("uninitialised barrier", text.c_str());
    }
    return found->second;
}

void advance(Mbarrier& barrier) {
    if (barrier.pending > 0 || barrier.bytes != 0) return;
    barrier.pending = barrier.expected;
    ++barrier.phase;
    ++state.now;
    for (Fiber* fiber : barrier.waiting) fiber->synced = state.now;
    wake(barrier.waiting, false);
}

}  // namespace

void mbarrier_init(void* place, unsigned count) {
    touch(place, 8, kWrite, 8);
    Mbarrier fresh;
    fresh.expected = fresh.pending = count;
    fresh.knows.assign(state.fiber->block->warps.size(), 0);
    state.fiber->block->mbarriers[shared_address(place)] = fresh;
}

void mbarrier_arrive(void* place, unsigned count, int64_t expected_bytes, int line) {
    Mbarrier& barrier = mbarrier_at(place, line);
    Block& block = *state.fiber->block;
    const size_t warps = block.warps.size(), w = state.fiber->warp;
    for (size_t v = 0; v < warps; ++v) barrier.knows[v] = std::max(barrier.knows[v], block.knows[w * warps + v]);
    barrier.knows[w] = ++state.now;
    barrier.bytes += expected_bytes;
    barrier.pending -= std::min(count, barrier.pending);
    advance(barrier);
}

void mbarrier_deliver(void* place, int64_t bytes) {
    Mbarrier& barrier = mbarrier_at(place, 0);
    barrier.knows[state.fiber->warp] = ++state.now;
    barrier.bytes -= bytes;
    advance(barrier);
}

bool mbarrier_wait(void* place, unsigned parity, bool block_until, int line) {
    Block& block = *state.fiber->block;
    const size_t warps = block.warps.size(), w = state.fiber->warp;
    while ((mbarrier_at(place, line).phase & 1) == parity) {
        mbarrier_at(place, line).waiting.push_back(state.fiber);
        wait("an mbarrier", line);
        if (!block_until) break;
    }
    Mbarrier& barrier = mbarrier_at(place, line);
    if ((barrier.phase & 1) == parity) return false;
    for (size_t v = 0; v < warps; ++v)
        block.knows[w * warps + v] = std::max(block.knows[w * warps + v], barrier.knows[v]);
    state.fiber->synced = state.now;
    return true;
}

uint64_t mbarrier_phase(void* place) { return mbarrier_at(place, 0).phase; }

}  // namespace kbench
