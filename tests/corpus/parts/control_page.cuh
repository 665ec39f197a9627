// Finds the page over which calls are announced and reported, among the mappings of this process.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

using Words = volatile uint64_t*;
enum Place { STEP = 0, CONFIG = 2, READY = 16, GO = 32, CHOICE = 33, DONE = 48, STATUS = 49, EVENT_NS = 50, PLACES = 56 };

inline Words control_page() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned long from, to;
        char mode[5];
        if (std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, mode) != 3) continue;
        if (std::string(mode) == "rw-s" && to - from == 4096 && line.find("/memfd:") != std::string::npos)
            return reinterpret_cast<Words>(from);
    }
    return nullptr;
}
