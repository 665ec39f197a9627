// cuda::barrier, cuda::pipeline and cuda::memcpy_async of libcu++, for blocks and single threads.
#pragma once
#include "groups.h"

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <size_t Alignment>
struct aligned_size_t {
    size_t value;
    explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
    constexpr operator size_t() const { return value; }
};

template <thread_scope Scope, class Completion = void>
class barrier {
public:
    using arrival_token = uint64_t;
    arrival_token arrive(ptrdiff_t count = 1, KB_LINE) {
        kbench::commit_copies(), kbench::wait_copies(0);  // what this thread copies is there when the phase ends
        const uint64_t phase = kbench::mbarrier_phase(this);
        kbench::mbarrier_arrive(this, unsigned(count), 0, kb_line);
        return phase;
    }
    void wait(arrival_token phase, KB_LINE) { kbench::mbarrier_wait(this, unsigned(phase & 1), true, kb_line); }
    void arrive_and_wait(KB_LINE) { wait(arrive(1, kb_line), kb_line); }
    void wait_parity(bool parity, KB_LINE) { kbench::mbarrier_wait(this, unsigned(parity), true, kb_line); }

private:
    alignas(8) uint64_t word_;
};
template <thread_scope Scope>
void init(barrier<Scope>* place, ptrdiff_t count) { kbench::mbarrier_init(place, unsigned(count)); }

template <thread_scope Scope>
class pipeline {  // all threads produce and consume
public:
    void producer_acquire(KB_LINE) const { together(kb_line); }
    void producer_commit() { kbench::commit_copies(), ++committed_; }
    void consumer_wait(KB_LINE) const {
        kbench::wait_copies(committed_ - consumed_ - 1);
        together(kb_line);
    }
    void consumer_release() { ++consumed_; }
    void wait_prior(unsigned stages, int line) const {
        kbench::wait_copies(stages);
        together(line);
    }
    void quit() const {}

private:
    void together(int line) const {
        if constexpr (Scope != thread_scope_thread) kbench::block_barrier(0, 0, 0, 0, line);
    }
    unsigned committed_ = 0, consumed_ = 0;
};
template <thread_scope Scope, uint8_t Stages>
struct pipeline_shared_state {};
inline pipeline<thread_scope_thread> make_pipeline() { return {}; }
template <class Group, thread_scope Scope, uint8_t Stages>
pipeline<Scope> make_pipeline(const Group&, pipeline_shared_state<Scope, Stages>*) { return {}; }
enum class pipeline_role { producer, consumer };
template <class Group, thread_scope Scope, uint8_t Stages, class Role>
pipeline<Scope> make_pipeline(const Group&, pipeline_shared_state<Scope, Stages>*, Role, KB_LINE) {
    kbench::abstain(kb_line, "a pipeline whose threads have roles is not modelled");
}
template <uint8_t Prior, thread_scope Scope>
void pipeline_consumer_wait_prior(const pipeline<Scope>& p, KB_LINE) { p.wait_prior(Prior, kb_line); }

namespace kb_detail {
template <class T>
void copy_share(T* to, const T* from, size_t bytes, size_t rank, size_t threads, int line) {
    const size_t piece = bytes % 4 == 0 ? 4 : 1;
    for (size_t at = piece * rank; at < bytes; at += piece * threads)
        kbench::copy_async(reinterpret_cast<char*>(to) + at, reinterpret_cast<const char*>(from) + at, piece, piece, line);
}
}  // namespace kb_detail
template <class T, class Size, thread_scope Scope>
void memcpy_async(T* to, const T* from, Size bytes, barrier<Scope>&, KB_LINE) { kb_detail::copy_share(to, from, bytes, 0, 1, kb_line); }
template <class T, class Size, thread_scope Scope>
void memcpy_async(T* to, const T* from, Size bytes, pipeline<Scope>&, KB_LINE) { kb_detail::copy_share(to, from, bytes, 0, 1, kb_line); }
template <class Group, class T, class Size, class Done>
void memcpy_async(const Group& g, T* to, const T* from, Size bytes, Done&, KB_LINE) {
    kb_detail::copy_share(to, from, bytes, g.thread_rank(), g.size(), kb_line);
}

}  // namespace cuda
