// Streams and events: which launch was over before another one began. Launches run one after the other all the same.
//
// Each stream knows how many launches of every stream came before its next one; events carry what a stream knew.
#include <algorithm>
#include <vector>

#include "state.h"

namespace kbench {

namespace {

using Known = std::vector<uint32_t>;  // by stream: so many of its launches are over

struct Stream {
    Known known;
    uint32_t launches = 0;
    bool blocking = true;  // waits for the default stream, which waits for it
};

struct Launched {
    uint32_t began;
    size_t stream;
    uint32_t number;
};

std::vector<Stream> streams;  // the first one is the default stream
std::vector<Known> events;
std::vector<Launched> launched;
Known host, current;  // what the host and the launch at work know

void learn(Known& to, const Known& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

// Handles are small numbers: 0 to 2 mean the default stream, as CUDA has it.
size_t number_of(const void* stream) {
    const auto handle = reinterpret_cast<uintptr_t>(stream) / 8;
    return handle < streams.size() ? handle : 0;
}

Known& event_of(const void* event) {
    const auto handle = reinterpret_cast<uintptr_t>(event) / 8;
    if (events.size() <= handle && handle < (1u << 20)) events.resize(handle + 1);
    return events[handle < events.size() ? handle : 0];
}

void* handle_of(size_t number) { return reinterpret_cast<void*>(8 * number); }

}  // namespace

void streams_reset() {
    streams.assign(1, {}), events.assign(1, {});
    launched.clear(), host.clear(), current.clear();
    state.several_streams = false;
}

void* stream_create(bool blocking) {
    Stream fresh;
    fresh.blocking = blocking;
    streams.push_back(fresh);
    state.several_streams = true;
    return handle_of(streams.size() - 1);
}

void* event_create() {
    events.emplace_back();
    return handle_of(events.size() - 1);
}

void event_record(const void* event, const void* stream) {
    const size_t number = number_of(stream);
    Known known = streams[number].known;
    learn(known, host);
    event_of(event) = known;
}

void stream_wait(const void* stream, const void* event) { learn(streams[number_of(stream)].known, event_of(event)); }
void host_waits_for_event(const void* event) { learn(host, event_of(event)); }
void host_waits_for_stream(const void* stream) {
    const size_t number = number_of(stream);
    learn(host, streams[number].known);
    if (number == 0)
        for (const Stream& other : streams)
            if (other.blocking) learn(host, other.known);
}
void host_waits_for_all() {
    for (const Stream& stream : streams) learn(host, stream.known);
}

void stream_begins(const void* handle, uint32_t began) {
    const size_t number = number_of(handle);
    Stream& stream = streams[number];
    learn(stream.known, host);
    if (number == 0)
        for (const Stream& other : streams)
            if (other.blocking) learn(stream.known, other.known);
    if (number > 0 && stream.blocking) learn(stream.known, streams[0].known);
    current = stream.known;
    stream.known.resize(std::max(stream.known.size(), number + 1));
    stream.known[number] = ++stream.launches;
    launched.push_back({began, number, stream.launches});
}

bool launch_was_over(uint32_t time) {
    const auto after = std::upper_bound(launched.begin(), launched.end(), time,
                                        [](uint32_t t, const Launched& item) { return t < item.began; });
    if (after == launched.begin()) return true;  // of a run before this one
    const Launched& launch = *std::prev(after);
    return launch.stream < current.size() && current[launch.stream] >= launch.number;
}

bool work_is_left() {
    Known seen = host;
    for (const Stream& stream : streams)
        if (stream.blocking) learn(seen, stream.known);
    for (size_t i = 0; i < streams.size(); ++i)
        if (streams[i].launches > (i < seen.size() ? seen[i] : 0)) return true;
    return false;
}

}  // namespace kbench
