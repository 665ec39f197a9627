// What was found, written line by line to a descriptor. Who reads it takes nothing in it for granted.
#include <set>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "state.h"

namespace kbench {

namespace {

constexpr size_t kFindingsMax = 24;
constexpr const char* kNotes[] = {"uninitialised", "undefined shuffle", "not joined", "coalesced lanes"};  // no fault by themselves
// What is a fault whatever the values are, and whichever blocks have run.
constexpr const char* kSampled[] = {"race", "out of bounds", "use after free", "illegal address", "misaligned address", "divergent barrier", "wrong mask", "stale read",
                                    "stack overflow", "refused launch"};
std::set<std::tuple<std::string, uintptr_t, uintptr_t>> told;

std::string clean(const std::string& text) {
    std::string kept = text.substr(0, 600);
    std::replace_if(kept.begin(), kept.end(), [](unsigned char c) { return c < 32 || c > 126; }, ' ');
    return kept;
}

void put(const std::string& line) {
    size_t done = 0;
    while (done < line.size()) {
        const ssize_t wrote = write(state.report_fd, line.data() + done, line.size() - done);
        if (wrote <= 0) std::_Exit(4);
        done += size_t(wrote);
    }
}

void add_index(std::string& line, const Index& i) {
    line += "\t" + std::to_string(i.x) + "\t" + std::to_string(i.y) + "\t" + std::to_string(i.z);
}

}  // namespace

void tell(const std::string& word, const std::string& text) { put(word + "\t" + clean(text) + "\n"); }

bool is_news(const char* kind, uintptr_t site, uintptr_t other_site) { return told.count({kind, site, other_site}) == 0; }

// finding, kind, text, where, kernel, line of the launch, site, other site, block, thread, other block, other thread, line
void record(const Finding& finding) {
    if (state.options.sampled && std::none_of(std::begin(kSampled), std::end(kSampled), [&](const char* kind) { return std::strcmp(finding.kind, kind) == 0; }))
        return;
    if (told.size() >= kFindingsMax || !told.insert({finding.kind, finding.site, finding.other_site}).second) return;
    if (std::none_of(std::begin(kNotes), std::end(kNotes), [&](const char* kind) { return std::strcmp(finding.kind, kind) == 0; }))
        state.faulty = true;
    const Launch& launch = state.launch;
    std::string line = std::string("finding\t") + finding.kind + "\t" + clean(finding.text) + "\t" + clean(finding.where);
    line += "\t" + clean(launch.kernel) + "\t" + std::to_string(launch.line);
    line += "\t" + std::to_string(finding.site) + "\t" + std::to_string(finding.other_site);
    const Fiber* fiber = state.fiber;
    add_index(line, finding.by ? finding.by[0] : fiber ? fiber->block->index : Index{});
    add_index(line, finding.by ? finding.by[1] : fiber ? fiber->thread : Index{});
    const unsigned block = finding.other / kMaxThreads, thread = finding.other % kMaxThreads;
    line += "\t" + std::to_string(finding.other ? int(block) - 1 : -1) + "\t" + std::to_string(finding.other ? int(thread) : -1);
    line += "\t" + std::to_string(finding.line ? finding.line : finding.site ? 0 : state.line);
    put(line + "\n");
}

void forget_told() { told.clear(); }

void remark(const char* kind, const char* text) { record({kind, text, 0, 0, 0, ""}); }

void fail(const char* kind, const char* text) {
    record({kind, text, 0, 0, 0, ""});
    if (state.fiber != nullptr) stop();
    std::_Exit(5);
}

void abstain(int line, const char* text) {
    if (state.options.sampled) std::_Exit(0);
    put("abstain\t" + std::to_string(line) + "\t" + clean(text) + "\n");
    std::_Exit(6);
}

}  // namespace kbench
