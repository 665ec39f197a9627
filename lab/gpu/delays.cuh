// Lets half the threads of every warp come late to barriers and exchanges, other ones each time, for
// `changed_conditions.py`. With KBENCH_APART they also exchange in a branch of their own.
namespace kbench_conditions {
__device__ inline bool late(unsigned place) {
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned turn = place % 3;
    const unsigned bit = turn == 0 ? thread / 16 : turn == 1 ? thread / 32 + thread / 16 : thread;
    return (bit + place + blockIdx.x) % 2 != 0;
}

__device__ inline int wait_if(bool is_late) {
    if (is_late) __nanosleep(200);
    return 0;
}
}  // namespace kbench_conditions

#ifdef KBENCH_APART
#define KBENCH_EXCHANGE(call) \
    (kbench_conditions::late(__LINE__) ? (kbench_conditions::wait_if(true), call) : call)
#else
#define KBENCH_EXCHANGE(call) (kbench_conditions::wait_if(kbench_conditions::late(__LINE__)), call)
#endif
#define __shfl_sync(...) KBENCH_EXCHANGE(__shfl_sync(__VA_ARGS__))
#define __shfl_xor_sync(...) KBENCH_EXCHANGE(__shfl_xor_sync(__VA_ARGS__))
#define __shfl_up_sync(...) KBENCH_EXCHANGE(__shfl_up_sync(__VA_ARGS__))
#define __shfl_down_sync(...) KBENCH_EXCHANGE(__shfl_down_sync(__VA_ARGS__))
#define __ballot_sync(...) KBENCH_EXCHANGE(__ballot_sync(__VA_ARGS__))
#define __any_sync(...) KBENCH_EXCHANGE(__any_sync(__VA_ARGS__))
#define __all_sync(...) KBENCH_EXCHANGE(__all_sync(__VA_ARGS__))
#define __syncthreads() \
    (kbench_conditions::wait_if(kbench_conditions::late(__LINE__)), __syncthreads(), \
     (void)kbench_conditions::wait_if(kbench_conditions::late(__LINE__ + 1)))
