#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

using Words = volatile uint64_t*;
enum { kStep = 0, kReady = 16, kGo = 32, kChoice = 33, kDone = 48, kStatus = 49, kPlaces = 56 };

// The page that is shared with the judge and writable: where calls are announced and reported.
static Words control_page() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned long from, to;
        char mode[5];
        std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, mode);
        if (std::string(mode) == "rw-s" && to - from == 4096) return reinterpret_cast<Words>(from);
    }
    return nullptr;
}
