// Cooperative groups and asynchronous copies of C++: blocks, tiles of warps, clusters, grids.
#pragma once
#include "device.h"

namespace cooperative_groups {

using kbench::Index;

struct thread_block {
    void sync(KB_LINE) const { kbench::block_barrier(0, 0, 0, 0, kb_line); }
    static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

struct grid_group {
    void sync(KB_LINE) const {
        if (!kbench::all_blocks_resident()) kbench::fail("grid barrier", "grid.sync() in a kernel that was not launched cooperatively");
        kbench::grid_barrier(kb_line);
    }
    static bool is_valid() { return kbench::all_blocks_resident(); }
    static unsigned long long block_rank() { return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z); }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    static unsigned long long size() { return num_blocks() * thread_block::size(); }
    static unsigned long long num_threads() { return size(); }
};
inline grid_group this_grid() { return {}; }

struct cluster_group {
    void sync(KB_LINE) const { kbench::cluster_barrier(kb_line); }
    struct arrival_token {};
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token = {}, KB_LINE) const { kbench::cluster_barrier(kb_line); }
    static unsigned block_rank() { return kbench::cluster_rank(); }
    static unsigned num_blocks() { return kbench::cluster_shape().x * kbench::cluster_shape().y * kbench::cluster_shape().z; }
    static dim3 dim_blocks() { return dim3(kbench::cluster_shape().x, kbench::cluster_shape().y, kbench::cluster_shape().z); }
    static dim3 block_index() { return dim3(kbench::cluster_rank(), 0, 0); }
    static unsigned thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    static unsigned num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned size() { return num_threads(); }
    template <class T>
    T* map_shared_rank(T* p, unsigned rank) const { return static_cast<T*>(kbench::shared_of_rank(p, rank)); }
};
inline cluster_group this_cluster() { return {}; }

template <unsigned Size, class Parent = void>
struct thread_block_tile {
    static_assert(Size <= 32, "tiles of more than a warp are not modelled");
    static unsigned first() { return kbench::lane() & ~(Size - 1); }
    static unsigned mask() { return (Size == 32 ? 0xffffffffu : (1u << Size) - 1) << first(); }
    static unsigned thread_rank() { return kbench::lane() & (Size - 1); }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
    static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
    void sync(KB_LINE) const { kbench::collective(mask(), "sync of a tile", nullptr, nullptr, kb_line); }
    template <class T> T shfl(T v, int from, KB_LINE) const { return __shfl_sync(mask(), v, from, Size, kb_line); }
    template <class T> T shfl_up(T v, unsigned d, KB_LINE) const { return __shfl_up_sync(mask(), v, d, Size, kb_line); }
    template <class T> T shfl_down(T v, unsigned d, KB_LINE) const { return __shfl_down_sync(mask(), v, d, Size, kb_line); }
    template <class T> T shfl_xor(T v, unsigned b, KB_LINE) const { return __shfl_xor_sync(mask(), v, int(b), Size, kb_line); }
    unsigned ballot(int p, KB_LINE) const { return __ballot_sync(mask(), p, kb_line) >> first(); }
    int any(int p, KB_LINE) const { return __any_sync(mask(), p, kb_line); }
    int all(int p, KB_LINE) const { return __all_sync(mask(), p, kb_line); }
    template <class T> unsigned match_any(T v, KB_LINE) const { return __match_any_sync(mask(), v, kb_line) >> first(); }
};
template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }

// Which lanes run together is up to the GPU. Here each is alone, which is allowed; what follows from it is never held against a kernel.
struct coalesced_group {
    void sync(KB_LINE) const { (void)kb_line; }
    static constexpr unsigned thread_rank() { return 0; }
    static constexpr unsigned size() { return 1; }
    static constexpr unsigned num_threads() { return 1; }
    static constexpr unsigned meta_group_rank() { return 0; }
    static constexpr unsigned meta_group_size() { return 1; }
    template <class T> T shfl(T v, int) const { return v; }
    template <class T> T shfl_up(T v, unsigned) const { return v; }
    template <class T> T shfl_down(T v, unsigned) const { return v; }
    unsigned ballot(int p) const { return p != 0; }
    int any(int p) const { return p != 0; }
    int all(int p) const { return p != 0; }
    template <class T> unsigned match_any(T) const { return 1; }
};
inline coalesced_group coalesced_threads() {
    kbench::remark("coalesced lanes", "each lane is a group of its own here");
    return {};
}
template <class T, class F>
T reduce(const coalesced_group&, T v, F) { return v; }
template <class T, class F>
T inclusive_scan(const coalesced_group&, T v, F) { return v; }

template <class G> void sync(const G& g, KB_LINE) { g.sync(kb_line); }

template <class T = void> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T = void> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T = void> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <> struct plus<void> { template <class T> T operator()(T a, T b) const { return a + b; } };
template <> struct less<void> { template <class T> T operator()(T a, T b) const { return b < a ? b : a; } };
template <> struct greater<void> { template <class T> T operator()(T a, T b) const { return a < b ? b : a; } };

template <unsigned Size, class Parent, class T, class F>
T reduce(const thread_block_tile<Size, Parent>& tile, T v, F f, KB_LINE) {
    for (unsigned step = Size / 2; step > 0; step /= 2) v = f(v, tile.shfl_xor(v, step, kb_line));
    return v;
}
template <unsigned Size, class Parent, class T, class F = plus<>>
T inclusive_scan(const thread_block_tile<Size, Parent>& tile, T v, F f = {}, KB_LINE) {
    for (unsigned step = 1; step < Size; step *= 2) {
        const T before = tile.shfl_up(v, step, kb_line);
        if (tile.thread_rank() >= step) v = f(before, v);
    }
    return v;
}

template <class G, class T>
void memcpy_async(const G& g, T* to, const T* from, size_t bytes, KB_LINE) {
    for (size_t i = g.thread_rank(); i < bytes / 4; i += g.size())
        kbench::copy_async(reinterpret_cast<char*>(to) + 4 * i, reinterpret_cast<const char*>(from) + 4 * i, 4, 4, kb_line);
    kbench::commit_copies();
}
template <class G>
void wait(const G& g, KB_LINE) {
    kbench::wait_copies(0);
    g.sync(kb_line);
}

}  // namespace cooperative_groups

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zero_bytes = 0, KB_LINE) {
    kbench::copy_async(to, from, bytes, bytes - zero_bytes, kb_line);
}
inline void __pipeline_commit() { kbench::commit_copies(); }
inline void __pipeline_wait_prior(size_t n) { kbench::wait_copies(unsigned(n)); }
