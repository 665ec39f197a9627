// Parsed PTX and what instructions work on.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "../headers/emulator/ptx.h"
#include "state.h"

namespace kbench {

struct PtxName {  // what an instruction names: an operand of the statement, a register, a number
    enum { operand, reg, number, nothing } kind = nothing;
    unsigned index = 0;
    uint64_t value = 0;
};

struct PtxItem {  // one of the comma separated parts: a name, {several}, or [an address]
    std::vector<PtxName> names;
    bool address = false;
    int64_t offset = 0;
};

struct PtxFrame;
struct PtxInstruction;
using PtxAction = void (*)(PtxFrame&, const PtxInstruction&);

struct PtxInstruction {
    std::string text;
    std::vector<std::string> words;  // the opcode, cut at its dots
    std::vector<PtxItem> items;
    PtxAction action = nullptr;
    int predicate = -1;
    bool negated = false, jump = false;
    std::string target;
    unsigned bits = 32;  // of the type
    char type = 'b';     // u, s, f or b
    unsigned vector = 1;

    bool has(const char* word) const {
        for (const std::string& item : words)
            if (item == word) return true;
        return false;
    }
};

struct PtxFrame {
    const PtxOperand* operands;
    std::vector<uint64_t>& registers;
    int line;
    const PtxInstruction* now = nullptr;

    uint64_t get(const PtxName& name) const;
    uint64_t get(const PtxItem& item, size_t i = 0) const { return get(item.names[i]); }
    void set(const PtxName& name, uint64_t value, unsigned bits) const;
    void set(const PtxItem& item, uint64_t value, unsigned bits) const { set(item.names[0], value, bits); }
    uint64_t address(const PtxItem& item) const { return get(item.names[0]) + uint64_t(item.offset); }
    void* shared(const PtxItem& item) const { return shared_pointer(uint32_t(address(item))); }
};

PtxAction plain_action(const PtxInstruction& instruction);   // ptx_plain.cpp
PtxAction matrix_action(const PtxInstruction& instruction);  // ptx_matrix.cpp

}  // namespace kbench
