// The program that runs an emulated submission: it takes the system call filter first, then loads the submission.
//
//     launcher FILTER MODULE PLAN
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

int main(int count, char** words) {
    if (count != 4) return 2;
    std::ifstream file(words[1], std::ios::binary);
    std::string program((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    sock_fprog filter{static_cast<unsigned short>(program.size() / sizeof(sock_filter)), reinterpret_cast<sock_filter*>(program.data())};
    if (!program.empty()) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) return 3;
    }
    void* module = dlopen(words[2], RTLD_NOW);
    if (module == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 8;
    }
    const auto run = reinterpret_cast<int (*)(const char*)>(dlsym(module, "kbench_run"));
    return run == nullptr ? 8 : run(words[3]);
}
