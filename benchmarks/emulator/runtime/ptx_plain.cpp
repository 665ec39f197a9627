// PTX instructions of one thread: arithmetic, loads and stores, copies, barriers, fences.
#include <cmath>
#include <cstring>

#include "ptx.h"

namespace kbench {

namespace {

float as_float(uint64_t v) {
    float f;
    std::memcpy(&f, &v, 4);
    return f;
}
uint64_t of_float(float f) {
    uint64_t v = 0;
    std::memcpy(&v, &f, 4);
    return v;
}
double as_double(uint64_t v) {
    double d;
    std::memcpy(&d, &v, 8);
    return d;
}
uint64_t of_double(double d) {
    uint64_t v;
    std::memcpy(&v, &d, 8);
    return v;
}
int64_t as_signed(uint64_t v, unsigned bits) { return bits >= 64 ? int64_t(v) : int64_t(v << (64 - bits)) >> (64 - bits); }
uint64_t cropped(uint64_t v, unsigned bits) { return bits >= 64 ? v : v & ((uint64_t(1) << bits) - 1); }

void nothing(PtxFrame&, const PtxInstruction&) {}
void move(PtxFrame& f, const PtxInstruction& i) {
    if (i.items[0].names.size() == 2) {  // {low, high} = both
        const uint64_t both = f.get(i.items[1]);
        f.set(i.items[0].names[0], cropped(both, i.bits / 2), i.bits / 2);
        f.set(i.items[0].names[1], cropped(both >> i.bits / 2, i.bits / 2), i.bits / 2);
        return;
    }
    uint64_t value = f.get(i.items[1]);
    if (i.items[1].names.size() == 2) value = cropped(value, i.bits / 2) | f.get(i.items[1], 1) << i.bits / 2;
    f.set(i.items[0], value, i.bits);
}

template <class F>
void two(PtxFrame& f, const PtxInstruction& i, F apply) {
    const uint64_t a = f.get(i.items[1]), b = f.get(i.items[2]);
    if (i.type == 'f' && i.bits == 32) f.set(i.items[0], of_float(float(apply(as_float(a), as_float(b)))), 32);
    else if (i.type == 'f' && i.bits == 64) f.set(i.items[0], of_double(double(apply(as_double(a), as_double(b)))), 64);
    else if (i.type == 's') f.set(i.items[0], cropped(uint64_t(apply(as_signed(a, i.bits), as_signed(b, i.bits))), i.bits), i.bits);
    else f.set(i.items[0], cropped(uint64_t(apply(cropped(a, i.bits), cropped(b, i.bits))), i.bits), i.bits);
}
void add(PtxFrame& f, const PtxInstruction& i) { two(f, i, [](auto a, auto b) { return a + b; }); }
void subtract(PtxFrame& f, const PtxInstruction& i) { two(f, i, [](auto a, auto b) { return a - b; }); }
void multiply(PtxFrame& f, const PtxInstruction& i) { two(f, i, [](auto a, auto b) { return a * b; }); }
void least(PtxFrame& f, const PtxInstruction& i) { two(f, i, [](auto a, auto b) { return b < a || a != a ? b : a; }); }
void most(PtxFrame& f, const PtxInstruction& i) { two(f, i, [](auto a, auto b) { return b > a || a != a ? b : a; }); }
template <class F>
void bitwise(PtxFrame& f, const PtxInstruction& i, F apply) {
    f.set(i.items[0], cropped(apply(f.get(i.items[1]), i.items.size() > 2 ? f.get(i.items[2]) : 0), i.bits), i.bits);
}
void both(PtxFrame& f, const PtxInstruction& i) { bitwise(f, i, [](uint64_t a, uint64_t b) { return a & b; }); }
void either(PtxFrame& f, const PtxInstruction& i) { bitwise(f, i, [](uint64_t a, uint64_t b) { return a | b; }); }
void differ(PtxFrame& f, const PtxInstruction& i) { bitwise(f, i, [](uint64_t a, uint64_t b) { return a ^ b; }); }
void invert(PtxFrame& f, const PtxInstruction& i) { bitwise(f, i, [](uint64_t a, uint64_t) { return ~a; }); }
void shift_left(PtxFrame& f, const PtxInstruction& i) { bitwise(f, i, [](uint64_t a, uint64_t b) { return b > 63 ? 0 : a << b; }); }
void shift_right(PtxFrame& f, const PtxInstruction& i) {
    const uint64_t a = f.get(i.items[1]), n = f.get(i.items[2]);
    const uint64_t v = i.type == 's' ? uint64_t(as_signed(a, i.bits) >> std::min<uint64_t>(n, 63)) : n > 63 ? 0 : cropped(a, i.bits) >> n;
    f.set(i.items[0], cropped(v, i.bits), i.bits);
}
void fused(PtxFrame& f, const PtxInstruction& i) {
    const uint64_t a = f.get(i.items[1]), b = f.get(i.items[2]), c = f.get(i.items[3]);
    if (i.type == 'f' && i.bits == 32) f.set(i.items[0], of_float(std::fma(as_float(a), as_float(b), as_float(c))), 32);
    else if (i.type == 'f') f.set(i.items[0], of_double(std::fma(as_double(a), as_double(b), as_double(c))), 64);
    else f.set(i.items[0], cropped(a * b + c, i.bits), i.bits);
}
template <class F>
void one(PtxFrame& f, const PtxInstruction& i, F apply) {
    f.set(i.items[0], of_float(apply(as_float(f.get(i.items[1])))), 32);
}
void exponential(PtxFrame& f, const PtxInstruction& i) { one(f, i, [](float v) { return std::exp2(v); }); }
void logarithm(PtxFrame& f, const PtxInstruction& i) { one(f, i, [](float v) { return std::log2(v); }); }
void reciprocal(PtxFrame& f, const PtxInstruction& i) { one(f, i, [](float v) { return 1 / v; }); }
void reciprocal_root(PtxFrame& f, const PtxInstruction& i) { one(f, i, [](float v) { return float(1 / std::sqrt(double(v))); }); }
void root(PtxFrame& f, const PtxInstruction& i) { one(f, i, [](float v) { return std::sqrt(v); }); }
void tangent(PtxFrame& f, const PtxInstruction& i) { one(f, i, [](float v) { return std::tanh(v); }); }
void to_tf32(PtxFrame& f, const PtxInstruction& i) {
    f.set(i.items[0], uint64_t((uint32_t(f.get(i.items[1])) + 0x1000) & 0xffffe000), 32);
}

// To the nearest float8 of four bits of exponent and three more, ties to even; what is too large becomes the largest.
uint8_t e4m3_bits(float v) {
    if (std::isnan(v)) return 0x7f;
    const float size = std::min(std::fabs(v), 448.0f);
    const int exponent = std::max(size == 0 ? -6 : std::ilogb(size), -6);  // below 2^-6 the steps stay as they are
    const float steps = std::nearbyint(std::ldexp(size, 3 - exponent));    // 8 to 16 of them, or fewer than 8
    const auto bits = uint8_t(steps + float((exponent + 6) * 8));
    return std::signbit(v) ? uint8_t(bits | 0x80) : bits;
}
void to_two_e4m3(PtxFrame& f, const PtxInstruction& i) {  // the first operand becomes the upper half
    const auto part = [&](size_t n) {
        const auto bits = uint32_t(f.get(i.items[n]));
        float v;
        std::memcpy(&v, &bits, 4);
        return unsigned(e4m3_bits(v));
    };
    f.set(i.items[0], part(1) << 8 | part(2), 16);
}

void compare(PtxFrame& f, const PtxInstruction& i) {
    const uint64_t a = f.get(i.items[1]), b = f.get(i.items[2]);
    const auto decide = [&](auto x, auto y) {
        const std::string& how = i.words[1];
        return how == "eq" ? x == y : how == "ne" ? x != y : how == "lt" ? x < y : how == "le" ? x <= y : how == "gt" ? x > y : x >= y;
    };
    const bool yes = i.type == 'f' ? (i.bits == 32 ? decide(as_float(a), as_float(b)) : decide(as_double(a), as_double(b)))
                     : i.type == 's' ? decide(as_signed(a, i.bits), as_signed(b, i.bits))
                                     : decide(cropped(a, i.bits), cropped(b, i.bits));
    f.set(i.items[0], yes, 1);
}
void select(PtxFrame& f, const PtxInstruction& i) { f.set(i.items[0], f.get(i.items[3]) ? f.get(i.items[1]) : f.get(i.items[2]), i.bits); }

void* place_of(PtxFrame& f, const PtxInstruction& i, const PtxItem& item) {
    for (const std::string& word : i.words)
        if (word.rfind("shared", 0) == 0) return f.shared(item);
    return reinterpret_cast<void*>(f.address(item));
}

bool is_strong(const PtxInstruction& i) { return i.has("relaxed") || i.has("acquire") || i.has("release") || i.has("volatile"); }

void load(PtxFrame& f, const PtxInstruction& i) {
    const unsigned bytes = i.bits / 8;
    auto* from = static_cast<char*>(place_of(f, i, i.items[1]));
    touch(from, size_t(bytes) * i.vector, is_strong(i) ? kAtomic : kRead, size_t(bytes) * i.vector);
    uint64_t first = 0;
    for (unsigned n = 0; n < i.vector; ++n) {
        uint64_t value = 0;
        std::memcpy(&value, from + n * bytes, bytes);
        if (i.type == 's') value = uint64_t(as_signed(value, i.bits));
        f.set(i.items[0].names[n], value, 64);
        first ^= value;
    }
    if (is_strong(i)) acquired(), polled(from, first);
}
void store(PtxFrame& f, const PtxInstruction& i) {
    const unsigned bytes = i.bits / 8;
    auto* to = static_cast<char*>(place_of(f, i, i.items[0]));
    touch(to, size_t(bytes) * i.vector, is_strong(i) ? kAtomic : kWrite, size_t(bytes) * i.vector);
    for (unsigned n = 0; n < i.vector; ++n) {
        const uint64_t value = f.get(i.items[1], n);
        std::memcpy(to + n * bytes, &value, bytes);
    }
    if (is_strong(i)) published();
}
void reduce(PtxFrame& f, const PtxInstruction& i) {  // red and atom: add, or and so on of one number
    const bool gives = i.words[0] == "atom";
    auto* at = static_cast<char*>(place_of(f, i, i.items[gives ? 1 : 0]));
    const unsigned bytes = i.bits / 8;
    others_first();
    touch(at, bytes, i.has("cas") ? kCompare : kAtomic, bytes);
    uint64_t old = 0;
    std::memcpy(&old, at, bytes);
    const uint64_t v = f.get(i.items[gives ? 2 : 1]);
    uint64_t made = old;
    if (i.has("add")) made = i.type != 'f' ? old + v : bytes == 4 ? of_float(as_float(old) + as_float(v)) : of_double(as_double(old) + as_double(v));
    else if (i.has("exch")) made = v;
    else if (i.has("or")) made = old | v;
    else if (i.has("and")) made = old & v;
    else if (i.has("cas")) made = cropped(old, i.bits) == cropped(v, i.bits) ? f.get(i.items[3]) : old;
    else if (i.has("max")) made = i.type == 's' ? uint64_t(std::max(as_signed(old, i.bits), as_signed(v, i.bits))) : std::max(old, v);
    else if (i.has("min")) made = i.type == 's' ? uint64_t(std::min(as_signed(old, i.bits), as_signed(v, i.bits))) : std::min(old, v);
    else abstain(f.line, "this PTX atomic is not modelled");
    std::memcpy(at, &made, bytes);
    if (gives) f.set(i.items[0], old, 64);
    published(), acquired();
    if (made == old) polled(at, old);
}

void copy(PtxFrame& f, const PtxInstruction& i) {
    const auto bytes = size_t(f.get(i.items[2]));
    size_t valid = bytes;
    if (i.items.size() > 3 && !i.has("L2::cache_hint")) valid = uint32_t(f.get(i.items[3]));
    copy_async(f.shared(i.items[0]), reinterpret_cast<void*>(f.address(i.items[1])), bytes, valid, f.line);
}
void commit(PtxFrame&, const PtxInstruction&) { commit_copies(); }
void wait_some(PtxFrame& f, const PtxInstruction& i) { wait_copies(unsigned(f.get(i.items[0]))); }
void wait_all(PtxFrame&, const PtxInstruction&) {
    commit_copies();
    wait_copies(0);
}
void copy_bulk(PtxFrame& f, const PtxInstruction& i) {
    auto* to = static_cast<char*>(f.shared(i.items[0]));
    const auto* from = reinterpret_cast<const char*>(f.address(i.items[1]));
    const auto bytes = uint32_t(f.get(i.items[2]));
    if (bytes % 16 != 0) fail("misaligned address", "a bulk copy moves multiples of 16 bytes");
    touch(from, bytes, kRead, 16), touch(to, bytes, kWrite, 16);
    std::memcpy(to, from, bytes);
    mbarrier_deliver(f.shared(i.items[3]), bytes);
}

void begin(PtxFrame& f, const PtxInstruction& i) { mbarrier_init(f.shared(i.items[0]), unsigned(f.get(i.items[1]))); }
void arrive(PtxFrame& f, const PtxInstruction& i) {
    const bool counts = i.has("expect_tx");
    const PtxItem& at = i.items[0].address ? i.items[0] : i.items[1];
    const size_t next = i.items[0].address ? 1 : 2;
    const auto amount = i.items.size() > next ? int64_t(uint32_t(f.get(i.items[next]))) : int64_t(0);
    void* place = f.shared(at);
    if (!i.items[0].address) f.set(i.items[0], mbarrier_phase(place), 64);
    mbarrier_arrive(place, counts || i.items.size() <= next ? 1 : unsigned(amount), counts ? amount : 0, f.line);
}
void expect(PtxFrame& f, const PtxInstruction& i) { mbarrier_arrive(f.shared(i.items[0]), 0, int64_t(uint32_t(f.get(i.items[1]))), f.line); }
void await(PtxFrame& f, const PtxInstruction& i) {
    const bool parity = i.has("parity");
    void* place = f.shared(i.items[1]);
    const uint64_t phase = f.get(i.items[2]);
    const bool waits = i.words[1] == "try_wait";
    bool done = true;
    if (waits || mbarrier_phase(place) % 2 != phase % 2) done = mbarrier_wait(place, unsigned(phase & 1), waits, f.line);
    else done = false;
    (void)parity;
    if (!done) polled(place, mbarrier_phase(place));
    f.set(i.items[0], done, 1);
}

void barrier(PtxFrame& f, const PtxInstruction& i) {
    const int expected = i.items.size() > 1 ? int(f.get(i.items[1])) : 0;
    if (i.has("arrive")) block_arrive(int(f.get(i.items[0])), expected, f.line);
    else block_barrier(int(f.get(i.items[0])), expected, 0, 0, f.line);
}
void barrier_of_cluster(PtxFrame& f, const PtxInstruction& i) {
    if (i.has("wait")) cluster_barrier(f.line);
}
void rank_address(PtxFrame& f, const PtxInstruction& i) {
    const auto rank = unsigned(f.get(i.items[2]));
    f.set(i.items[0], (uint32_t(f.get(i.items[1])) & 0xffffff) | (rank + 1) << 24, 32);
}
void convert_address(PtxFrame& f, const PtxInstruction& i) {
    const uint64_t v = f.get(i.items[1]);
    for (const std::string& word : i.words)
        if (word.rfind("shared", 0) == 0)
            return f.set(i.items[0], i.has("to") ? shared_address(reinterpret_cast<void*>(v)) : uint64_t(shared_pointer(uint32_t(v))), 64);
    f.set(i.items[0], v, 64);
}

void any_of_three(PtxFrame& f, const PtxInstruction& i) {  // lop3: bit by bit from a table
    const uint64_t a = f.get(i.items[1]), b = f.get(i.items[2]), c = f.get(i.items[3]), table = f.get(i.items[4]);
    uint64_t v = 0;
    for (unsigned bit = 0; bit < 32; ++bit) v |= (table >> ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)) & 1) << bit;
    f.set(i.items[0], v, 32);
}
void permute(PtxFrame& f, const PtxInstruction& i) {  // prmt without a mode: any four of eight bytes, or their signs
    if (i.words.size() > 2) abstain(f.line, "this mode of prmt is not modelled");
    const uint64_t bytes = cropped(f.get(i.items[1]), 32) | f.get(i.items[2]) << 32, chosen = f.get(i.items[3]);
    uint64_t v = 0;
    for (unsigned n = 0; n < 4; ++n) {
        const uint64_t byte = bytes >> 8 * (chosen >> 4 * n & 7) & 0xff;
        v |= (chosen >> (4 * n + 3) & 1 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * n;
    }
    f.set(i.items[0], v, 32);
}
void count_bits(PtxFrame& f, const PtxInstruction& i) { f.set(i.items[0], uint64_t(__builtin_popcountll(cropped(f.get(i.items[1]), i.bits))), 32); }
void leading_zeros(PtxFrame& f, const PtxInstruction& i) {
    const uint64_t v = cropped(f.get(i.items[1]), i.bits);
    f.set(i.items[0], v == 0 ? i.bits : uint64_t(__builtin_clzll(v)) - (64 - i.bits), 32);
}

struct Row {
    const char* name;
    PtxAction action;
};
constexpr Row kByFirstWord[] = {
    {"lop3", any_of_three}, {"prmt", permute}, {"popc", count_bits}, {"clz", leading_zeros},
    {"mov", move}, {"add", add}, {"sub", subtract}, {"min", least}, {"max", most}, {"and", both}, {"or", either},
    {"xor", differ}, {"not", invert}, {"shl", shift_left}, {"shr", shift_right}, {"fma", fused}, {"ex2", exponential},
    {"lg2", logarithm}, {"rcp", reciprocal}, {"rsqrt", reciprocal_root}, {"sqrt", root}, {"tanh", tangent},
    {"setp", compare}, {"selp", select}, {"ld", load}, {"ldu", load}, {"st", store}, {"red", reduce}, {"atom", reduce},
    {"fence", nothing}, {"membar", nothing}, {"prefetch", nothing}, {"prefetchu", nothing}, {"createpolicy", nothing},
    {"setmaxnreg", nothing}, {"griddepcontrol", nothing}, {"nanosleep", nothing}, {"discard", nothing},
    {"applypriority", nothing}, {"bar", barrier}, {"mapa", rank_address}, {"cvta", convert_address},
};

bool starts(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

}  // namespace

PtxAction plain_action(const PtxInstruction& i) {
    const std::string& text = i.text[0] == '@' ? i.text.substr(i.text.find_first_of(" \t\n") + 1) : i.text;
    if (starts(text, "cp.async.bulk.prefetch")) return nothing;
    if (starts(text, "cp.async.bulk.shared") && i.has("global") && i.has("mbarrier::complete_tx::bytes") && !i.has("multicast::cluster")) return copy_bulk;
    if (starts(text, "cp.async.ca") || starts(text, "cp.async.cg")) return copy;
    if (starts(text, "cp.async.commit_group")) return commit;
    if (starts(text, "cp.async.wait_group")) return wait_some;
    if (starts(text, "cp.async.wait_all")) return wait_all;
    if (starts(text, "mbarrier.init")) return begin;
    if (starts(text, "mbarrier.inval")) return nothing;
    if (starts(text, "mbarrier.expect_tx")) return expect;
    if (starts(text, "mbarrier.arrive") && !i.has("noComplete")) return arrive;
    if (starts(text, "mbarrier.try_wait") || starts(text, "mbarrier.test_wait")) return i.has("parity") ? await : nullptr;
    if (starts(text, "barrier.cluster")) return barrier_of_cluster;
    if (starts(text, "barrier.sync") || starts(text, "barrier.arrive")) return barrier;
    if (starts(text, "mul.lo") || (starts(text, "mul.") && i.type == 'f')) return multiply;
    if (starts(text, "mad.lo") || (starts(text, "mad.") && i.type == 'f')) return fused;
    if (starts(text, "cvt.rna.tf32.f32")) return to_tf32;
    if (starts(text, "cvt.rn.satfinite.e4m3x2.f32")) return to_two_e4m3;
    if ((i.words[0] == "ld" || i.words[0] == "st") && i.bits < 8) return nullptr;
    for (const Row& row : kByFirstWord)
        if (i.words[0] == row.name) return row.action;
    return nullptr;
}

}  // namespace kbench
