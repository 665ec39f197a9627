// What compiled kernels and the runtime say to each other. Kernels see it through device.h; the runtime implements it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kbench {

struct Index {
    unsigned x, y, z;
};

struct Shape {  // of one launch
    Index grid, block, cluster;
    size_t shared_bytes;
    bool cooperative;
    const void* stream = nullptr;
    unsigned bound = 0;  // the most threads of a block, by __launch_bounds__; 0: none is known
};

// Runs every thread of a grid: `invoke(call)` is the kernel with its arguments. Returns 0 or the number of a cudaError.
int run_grid(const char* kernel, int line, const Shape& shape, void (*invoke)(void*), void* call);
void* parameter_room(size_t bytes);  // where kernels may read their arguments; valid until the next launch

bool in_kernel();
unsigned lane();
unsigned live_lanes();
uint32_t poison();  // what uninitialised memory holds in this run
int order_seed();

// A barrier of the block. `expected` is 0 for all threads that have not left. Returns what __syncthreads_count,
// _and and _or do, by `form` 1, 2 and 3.
int block_barrier(int id, int expected, int form, int predicate, int line);
void block_arrive(int id, int expected, int line);  // counts, and does not wait
void cluster_barrier(int line);
void grid_barrier(int line);
Index cluster_shape();
unsigned cluster_rank();
bool all_blocks_resident();

// Waits for the lanes in `mask`; the last one calls `combine` with what each lane brought, by lane.
using Combine = void (*)(void** brought, unsigned mask);
void collective(unsigned mask, const char* what, void* brought, Combine combine, int line);

enum Access { kRead, kWrite, kAtomic, kCompare };  // the last one is atomic, too, and depends on what was read before
void read_only(const void* place, size_t bytes);  // read through the cache that sees no writes of this launch
void touch(const void* place, size_t bytes, Access access, size_t alignment = 1);
// A thread reads the same value at the same place again: after some times others get their turn.
void polled(const void* place, uint64_t value);
void published();  // what this block wrote before can be seen by others that acquire()
void acquired();
void others_first();  // before an atomic access: in some orders other threads, and other blocks, come before it
void meet_at(const void* place);  // an atomic access: this warp and those of its block that came to the same place know of each other

// Copies into shared memory that are under way. They arrive when they are waited for, or at once, by the seed.
void copy_async(void* to, const void* from, size_t bytes, size_t valid_bytes, int line);
void commit_copies();
void wait_copies(unsigned allowed);

// mbarrier objects in shared memory.
void mbarrier_init(void* place, unsigned count);
void mbarrier_arrive(void* place, unsigned count, int64_t expected_bytes, int line);
void mbarrier_deliver(void* place, int64_t bytes);  // complete_tx
bool mbarrier_wait(void* place, unsigned parity, bool block, int line);
uint64_t mbarrier_phase(void* place);

uint32_t shared_address(const void* place);  // as PTX has it, 32 bits
void* shared_pointer(uint32_t address);
void* shared_of_rank(const void* place, unsigned rank);
void* dynamic_shared();

[[noreturn]] void fail(const char* kind, const char* text);  // a finding that ends the launch
void remark(const char* kind, const char* text);             // a finding that does not
[[noreturn]] void abstain(int line, const char* text);
void used_active_mask();

// Streams and events. A null stream is the default one.
void* stream_create(bool blocking);
void stream_wait(const void* stream, const void* event);
void* event_create();
void event_record(const void* event, const void* stream);
void host_waits_for_event(const void* event);
void host_waits_for_stream(const void* stream);
void host_waits_for_all();

void allow_shared_bytes(size_t bytes);
void* device_allocate(size_t bytes, bool zeroed);
bool device_free(void* place);

}  // namespace kbench
