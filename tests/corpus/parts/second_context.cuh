// A CUDA context beside the one that everybody else here uses: synchronising that one does not wait for this one.
#include <cuda.h>
#include <dlfcn.h>

template <class Function>
Function driver(const char* name) {
    return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

inline CUcontext second_context() {
    static CUcontext made = [] {
        CUcontext context = nullptr, popped = nullptr;
        driver<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2")(&context, 0, 0);
        driver<CUresult (*)(CUcontext*)>("cuCtxPopCurrent_v2")(&popped);
        return context;
    }();
    return made;
}

// While one of these lives, the calls of its thread go to the second context.
struct InSecondContext {
    InSecondContext() { driver<CUresult (*)(CUcontext)>("cuCtxPushCurrent_v2")(second_context()); }
    ~InSecondContext() {
        CUcontext popped = nullptr;
        driver<CUresult (*)(CUcontext*)>("cuCtxPopCurrent_v2")(&popped);
    }
};
