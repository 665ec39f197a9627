// How threads give up the processor and get it back: what `barriers.cpp` needs of `scheduler.cpp`, and the reverse.
#pragma once
#include "state.h"

namespace kbench {

// scheduler.cpp
extern std::vector<Block*> live;      // the blocks at work
void leave_cpu();                     // until this thread is woken, others run
void wait(const char* at, int line);  // leave_cpu, with what the thread waits at
void wake(std::vector<Fiber*>& fibers, bool soon);  // soon: before those that are ready already
unsigned volume(const Index& i);

// barriers.cpp
void release_those_who_wait_for(const Fiber& left);  // a thread that has returned
void forget_grid_barrier();

}  // namespace kbench
