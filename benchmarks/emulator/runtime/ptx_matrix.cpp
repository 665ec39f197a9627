// PTX instructions of a warp that move and multiply matrices: mma, ldmatrix, movmatrix and wgmma.
//
// wgmma is done at once and by warps: a warp has 16 of the 64 rows. Covered: f16, bf16, tf32 and e4m3 with float32 sums,
// operands in shared memory with K contiguous, all four swizzles.
#include <cmath>
#include <cstring>

#include "ptx.h"

namespace kbench {

namespace {

float half_value(uint16_t bits) {
    _Float16 h;
    std::memcpy(&h, &bits, 2);
    return float(h);
}
uint16_t half_bits(float f) {
    const auto h = _Float16(f);
    uint16_t bits;
    std::memcpy(&bits, &h, 2);
    return bits;
}
float word_value(uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}
float bf16_value(uint16_t bits) { return word_value(uint32_t(bits) << 16); }

// e4m3: a sign, four bits of exponent with a bias of 7, three bits; no infinity, and all ones are NaN.
float e4m3_value(uint8_t bits) {
    const unsigned size = bits & 0x7f, exponent = size >> 3, three = size & 7;
    const float value = size == 0x7f ? NAN : std::ldexp(float(exponent == 0 ? three : three + 8), int(exponent == 0 ? 1 : exponent) - 10);
    return bits & 0x80 ? -value : value;
}

enum Kind { kHalf, kBrain, kTf32, kE4m3 };
unsigned per_word(Kind kind) { return kind == kTf32 ? 1 : kind == kE4m3 ? 4 : 2; }
Kind kind_of(const PtxInstruction& i) { return i.has("e4m3") ? kE4m3 : i.has("tf32") ? kTf32 : i.has("bf16") ? kBrain : kHalf; }
float element(uint32_t word, unsigned place, Kind kind) {
    if (kind == kTf32) return word_value(word & 0xffffe000);
    if (kind == kE4m3) return e4m3_value(uint8_t(word >> (8 * place)));
    const auto bits = uint16_t(word >> (16 * place));
    return kind == kHalf ? half_value(bits) : bf16_value(bits);
}

PtxFrame& frame(void* brought) { return *static_cast<PtxFrame*>(brought); }

// The 16 rows of A from the registers of a warp: names[r] holds row g + 8 (r % 2), columns from 2t or t on, + half of k.
template <unsigned kMost>
void rows_from_registers(float (&a)[16][kMost], void** lanes, const PtxItem& item, unsigned k, Kind kind) {
    const unsigned words = per_word(kind), registers = unsigned(item.names.size());
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned r = 0; r < registers; ++r) {
            const auto word = uint32_t(frame(lanes[lane]).get(item, r));
            for (unsigned e = 0; e < words; ++e)
                a[lane / 4 + r % 2 * 8][r / 2 * (registers == 2 ? 0 : k / 2) + lane % 4 * words + e] = element(word, e, kind);
        }
}

void multiply_warp(void** lanes, unsigned) {
    PtxFrame& first = frame(lanes[0]);
    const PtxInstruction& i = *first.now;
    const Kind kind = kind_of(i);
    const unsigned k = i.has("m16n8k32") ? 32 : i.has("m16n8k16") ? 16 : i.has("m16n8k8") ? 8 : 4, words = per_word(kind);
    const bool half_sums = i.items[0].names.size() == 2;
    float a[16][32] = {}, b[32][8] = {}, c[16][8];
    rows_from_registers(a, lanes, i.items[1], k, kind);
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned r = 0; r < i.items[2].names.size(); ++r) {
            const auto word = uint32_t(frame(lanes[lane]).get(i.items[2], r));
            for (unsigned e = 0; e < words; ++e) b[r * (k / unsigned(i.items[2].names.size())) + lane % 4 * words + e][lane / 4] = element(word, e, kind);
        }
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned e = 0; e < 4; ++e) {
            const PtxFrame& f = frame(lanes[lane]);
            float& to = c[lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2];
            to = half_sums ? half_value(uint16_t(f.get(i.items[3], e / 2) >> (16 * (e % 2)))) : word_value(uint32_t(f.get(i.items[3], e)));
        }
    for (unsigned row = 0; row < 16; ++row)
        for (unsigned n = 0; n < k; ++n)
            for (unsigned column = 0; column < 8; ++column) c[row][column] += a[row][n] * b[n][column];
    for (unsigned lane = 0; lane < 32; ++lane) {
        const PtxFrame& f = frame(lanes[lane]);
        const auto sum = [&](unsigned e) { return c[lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2]; };
        for (unsigned e = 0; e < 4; e += half_sums ? 2 : 1) {
            uint64_t bits = 0;
            const float v = sum(e);
            if (half_sums) bits = half_bits(v) | uint32_t(half_bits(sum(e + 1))) << 16;
            else std::memcpy(&bits, &v, 4);
            f.set(i.items[0].names[half_sums ? e / 2 : e], bits, 32);
        }
    }
}
// Matrix instructions are the whole warp's.
void together(const char* what, void* brought, Combine combine, int line) {
    if (live_lanes() != 0xffffffff) fail("wrong mask", "a matrix instruction in a warp of which threads have returned, or with fewer than 32");
    collective(0xffffffff, what, brought, combine, line);
}
void mma(PtxFrame& f, const PtxInstruction&) { together("mma.sync", &f, multiply_warp, f.line); }

struct Fetch {
    PtxFrame* frame;
    void* row;
};
void load_tiles(void** lanes, unsigned) {
    auto& first = *static_cast<Fetch*>(lanes[0]);
    const PtxInstruction& i = *first.frame->now;
    const bool turned = i.has("trans");
    for (unsigned m = 0; m < i.items[0].names.size(); ++m) {
        uint16_t tile[8][8];
        for (unsigned row = 0; row < 8; ++row) std::memcpy(tile[row], static_cast<Fetch*>(lanes[m * 8 + row])->row, 16);
        for (unsigned lane = 0; lane < 32; ++lane) {
            const unsigned r = lane / 4, c = lane % 4 * 2;
            const uint32_t word = turned ? tile[c][r] | uint32_t(tile[c + 1][r]) << 16 : tile[r][c] | uint32_t(tile[r][c + 1]) << 16;
            static_cast<Fetch*>(lanes[lane])->frame->set(i.items[0].names[m], word, 32);
        }
    }
}
void store_tiles(void** lanes, unsigned) {
    auto& first = *static_cast<Fetch*>(lanes[0]);
    const PtxInstruction& i = *first.frame->now;
    const bool turned = i.has("trans");
    for (unsigned m = 0; m < i.items[1].names.size(); ++m)
        for (unsigned lane = 0; lane < 32; ++lane) {
            const auto word = uint32_t(static_cast<Fetch*>(lanes[lane])->frame->get(i.items[1], m));
            for (unsigned e = 0; e < 2; ++e) {
                const unsigned r = turned ? lane % 4 * 2 + e : lane / 4, c = turned ? lane / 4 : lane % 4 * 2 + e;
                const auto half = uint16_t(word >> (16 * e));
                std::memcpy(static_cast<char*>(static_cast<Fetch*>(lanes[m * 8 + r])->row) + 2 * c, &half, 2);
            }
        }
}
void fetch(PtxFrame& f, const PtxInstruction& i) {
    const bool stores = i.words[0] == "stmatrix";
    Fetch mine{&f, nullptr};
    if (lane() < 8 * i.items[stores ? 1 : 0].names.size()) {
        mine.row = f.shared(i.items[stores ? 0 : 1]);
        touch(mine.row, 16, stores ? kWrite : kRead, 16);
    }
    together(stores ? "stmatrix" : "ldmatrix", &mine, stores ? store_tiles : load_tiles, f.line);
}

void turn_tile(void** lanes, unsigned) {
    const PtxInstruction& i = *frame(lanes[0]).now;
    uint16_t tile[8][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
        const auto word = uint32_t(frame(lanes[lane]).get(i.items[1]));
        tile[lane / 4][lane % 4 * 2] = uint16_t(word), tile[lane / 4][lane % 4 * 2 + 1] = uint16_t(word >> 16);
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned r = lane / 4, c = lane % 4 * 2;
        frame(lanes[lane]).set(i.items[0], tile[c][r] | uint32_t(tile[c + 1][r]) << 16, 32);
    }
}
void turn(PtxFrame& f, const PtxInstruction&) { together("movmatrix", &f, turn_tile, f.line); }

// ---- wgmma -------------------------------------------------------------------------------------------------------------

// A matrix in shared memory as its descriptor says, K contiguous.
struct Operand {
    uint32_t start, leading, stride, swizzle;
    explicit Operand(uint64_t d)
        : start(uint32_t(d & 0x3fff) << 4), leading(uint32_t(d >> 16 & 0x3fff) << 4), stride(uint32_t(d >> 32 & 0x3fff) << 4),
          swizzle(uint32_t(d >> 62)) {}
    uint32_t address(unsigned row, unsigned byte) const {  // of 16 bytes
        if (swizzle == 0) return start + row / 8 * stride + byte / 16 * leading + row % 8 * 16;
        const uint32_t width = swizzle == 1 ? 128 : swizzle == 2 ? 64 : 32, bits = width - 16;
        const uint32_t plain = start + row / 8 * stride + row % 8 * width + byte;
        return plain ^ (plain >> 3 & bits & 0x70);
    }
    void read(float* to, unsigned row, unsigned k, Kind kind) const {
        for (unsigned part = 0; part < 2; ++part) {
            const char* from = static_cast<char*>(shared_pointer(address(row, part * 16)));
            touch(from, 16, kRead, 16);
            for (unsigned word = 0; word < 4; ++word) {
                uint32_t bits;
                std::memcpy(&bits, from + 4 * word, 4);
                for (unsigned e = 0; e < per_word(kind); ++e) to[part * k / 2 + word * per_word(kind) + e] = element(bits, e, kind);
            }
        }
    }
};

unsigned columns_of(const PtxInstruction& i) {
    for (const std::string& word : i.words)
        if (word.rfind("m64n", 0) == 0) return unsigned(std::strtoul(word.c_str() + 4, nullptr, 10));
    return 0;
}

void multiply_group(void** lanes, unsigned) {
    PtxFrame& first = frame(lanes[0]);
    const PtxInstruction& i = *first.now;
    const Kind kind = kind_of(i);
    const unsigned n = columns_of(i), k = 8 * per_word(kind);
    const bool a_in_registers = i.items[1].names.size() == 4, adds = first.get(i.items[3]) != 0;
    static float a[16][32], b[256][32], transposed[32][256], d[16][256];
    if (a_in_registers) {
        rows_from_registers(a, lanes, i.items[1], k, kind);
    } else {
        const Operand matrix(first.get(i.items[1]));
        const unsigned warp = state.fiber->warp % 4;
        for (unsigned row = 0; row < 16; ++row) matrix.read(a[row], warp * 16 + row, k, kind);
    }
    const Operand matrix(first.get(i.items[2]));
    for (unsigned column = 0; column < n; ++column) {
        matrix.read(b[column], column, k, kind);
        for (unsigned e = 0; e < k; ++e) transposed[e][column] = b[column][e];
    }
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned e = 0; e < n / 2; ++e) {
            const unsigned row = lane / 4 + e / 2 % 2 * 8, column = e / 4 * 8 + lane % 4 * 2 + e % 2;
            d[row][column] = adds ? word_value(uint32_t(frame(lanes[lane]).get(i.items[0], e))) : 0;
        }
    for (unsigned row = 0; row < 16; ++row)
        for (unsigned e = 0; e < k; ++e)
            for (unsigned column = 0; column < n; ++column) d[row][column] += a[row][e] * transposed[e][column];
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned e = 0; e < n / 2; ++e) {
            const unsigned row = lane / 4 + e / 2 % 2 * 8, column = e / 4 * 8 + lane % 4 * 2 + e % 2;
            uint64_t bits = 0;
            std::memcpy(&bits, &d[row][column], 4);
            frame(lanes[lane]).set(i.items[0].names[e], bits, 32);
        }
}
void wgmma(PtxFrame& f, const PtxInstruction& i) {
    for (size_t n = 4; n < i.items.size(); ++n) {  // scale-a, scale-b, then whether operands are transposed
        const bool transposes = n >= 6;
        if (f.get(i.items[n]) != (transposes ? 0u : 1u)) abstain(f.line, "wgmma with negated or transposed operands is not modelled");
    }
    together("wgmma", &f, multiply_group, f.line);
}
void nothing(PtxFrame&, const PtxInstruction&) {}
void elect(PtxFrame& f, const PtxInstruction& i) {
    const auto mask = uint32_t(f.get(i.items[1]));
    const unsigned leader = mask == 0 ? 0 : unsigned(__builtin_ctz(mask));
    f.set(i.items[0].names[0], leader, 32);
    if (i.items[0].names.size() > 1) f.set(i.items[0].names[1], lane() == leader, 1);
}

}  // namespace

PtxAction matrix_action(const PtxInstruction& i) {
    const std::string& first = i.words[0];
    if (first == "mma") {
        const bool eight = i.has("m16n8k32") && i.has("e4m3") && !i.has("e5m2"), shape = eight || i.has("m16n8k16") || i.has("m16n8k8") || (i.has("m16n8k4") && i.has("tf32"));
        const bool small = i.has("e4m3") || i.has("e5m2");  // f16 may be that of their sums
        const bool type = eight || (!small && i.has("f16")) || i.has("bf16") || i.has("tf32");
        const bool sums = i.words.back() == "f32" || i.words.back() == "f16";
        return shape && type && sums && i.items.size() == 4 && i.has("row") && i.has("col") ? mma : nullptr;
    }
    if ((first == "ldmatrix" || first == "stmatrix") && i.has("b16")) return fetch;
    if (first == "movmatrix") return turn;
    if (first == "elect") return elect;
    if (first == "wgmma") {
        if (i.words[1] != "mma_async") return nothing;
        const std::string& last = i.words.back();
        const bool type = last == "f16" || last == "bf16" || last == "tf32" || (last == "e4m3" && !i.has("e5m2"));
        return type && i.has("f32") && columns_of(i) <= 256 && i.items.size() >= 4 ? wgmma : nullptr;
    }
    return nullptr;
}

}  // namespace kbench
