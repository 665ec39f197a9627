// Reads the text of an asm statement once and runs it: labels, predicates, jumps. Actions are in ptx_plain and ptx_matrix.
#include "ptx.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace kbench {

namespace {

struct Program {
    std::vector<PtxInstruction> instructions;
    std::unordered_map<std::string, size_t> labels;
    std::unordered_map<std::string, unsigned> registers;
};

std::string trimmed(const std::string& text) {
    const size_t first = text.find_first_not_of(" \t\n\r"), last = text.find_last_not_of(" \t\n\r");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> cut(const std::string& text, char at) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (char c : text) {
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c == at && depth == 0) parts.emplace_back();
        else parts.back() += c;
    }
    return parts;
}

PtxName name_in(Program& program, const std::string& text) {
    PtxName name;
    if (text.empty() || text == "_") return name;
    if (text[0] == '%' && text.size() > 1 && std::isdigit(static_cast<unsigned char>(text[1]))) {
        name.kind = PtxName::operand, name.index = unsigned(std::strtoul(text.c_str() + 1, nullptr, 10));
    } else if (text[0] == '0' && text.size() > 2 && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
        name.kind = PtxName::number, name.value = std::strtoull(text.c_str() + 2, nullptr, 16);
    } else if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-') {
        const bool real = text.find('.') != std::string::npos;
        const auto value = real ? int64_t(0) : int64_t(std::strtoll(text.c_str(), nullptr, 0));
        name.kind = PtxName::number, name.value = uint64_t(value);
        if (real) {
            const float f = std::strtof(text.c_str(), nullptr);
            name.value = 0;
            std::memcpy(&name.value, &f, 4);
        }
    } else {
        name.kind = PtxName::reg;
        name.index = program.registers.emplace(text, unsigned(program.registers.size())).first->second;
    }
    return name;
}

PtxItem item_in(Program& program, std::string text) {
    PtxItem item;
    text = trimmed(text);
    if (!text.empty() && text[0] == '[') {
        item.address = true;
        text = trimmed(text.substr(1, text.rfind(']') - 1));
        const size_t plus = text.find('+');
        if (plus != std::string::npos) {
            item.offset = std::strtoll(trimmed(text.substr(plus + 1)).c_str(), nullptr, 0);
            text = trimmed(text.substr(0, plus));
        }
        item.names.push_back(name_in(program, text));
    } else if (!text.empty() && text[0] == '{') {
        for (const std::string& part : cut(text.substr(1, text.rfind('}') - 1), ',')) item.names.push_back(name_in(program, trimmed(part)));
    } else {
        for (const std::string& part : cut(text, '|')) item.names.push_back(name_in(program, trimmed(part)));
    }
    return item;
}

void find_type(PtxInstruction& made) {
    for (auto it = made.words.rbegin(); it != made.words.rend(); ++it) {
        const std::string& word = *it;
        if (word == "pred") made.type = 'p', made.bits = 1;
        else if (word.size() >= 2 && std::strchr("usfb", word[0]) != nullptr && std::isdigit(static_cast<unsigned char>(word[1])) &&
                 word.find('x') == std::string::npos)
            made.type = word[0], made.bits = unsigned(std::strtoul(word.c_str() + 1, nullptr, 10));
        else continue;
        break;
    }
    made.vector = made.has("v2") ? 2 : made.has("v4") ? 4 : 1;
}

void add_statement(Program& program, std::string text) {
    text = trimmed(text);
    while (!text.empty() && (text[0] == '{' || text[0] == '}')) text = trimmed(text.substr(1));
    while (!text.empty() && text.back() == '}' && text.find('{') == std::string::npos) text = trimmed(text.substr(0, text.size() - 1));
    const size_t colon = text.find(':');
    if (colon != std::string::npos && (colon + 1 == text.size() || text[colon + 1] != ':') &&
        text.find_first_of(" .") > colon) {
        program.labels[trimmed(text.substr(0, colon))] = program.instructions.size();
        return add_statement(program, text.substr(colon + 1));
    }
    if (text.empty() || text.rfind(".reg", 0) == 0 || text.rfind("//", 0) == 0) return;
    PtxInstruction made;
    made.text = text;
    if (text[0] == '@') {
        made.negated = text[1] == '!';
        const size_t space = text.find_first_of(" \t\n");
        made.predicate = int(name_in(program, text.substr(made.negated ? 2 : 1, space - (made.negated ? 2 : 1))).index);
        text = trimmed(text.substr(space));
    }
    const size_t space = text.find_first_of(" \t\n");
    made.words = cut(text.substr(0, space), '.');
    const std::string rest = space == std::string::npos ? "" : trimmed(text.substr(space));
    if (made.words[0] == "bra") {
        made.jump = true, made.target = rest;
    } else {
        if (!rest.empty())
            for (const std::string& part : cut(rest, ',')) made.items.push_back(item_in(program, part));
        find_type(made);
        made.action = plain_action(made);
        if (made.action == nullptr) made.action = matrix_action(made);
    }
    program.instructions.push_back(made);
}

Program parsed(const char* text) {
    Program program;
    std::string all;
    for (const char* c = text; *c != 0; ++c) {
        if (c[0] == '%' && c[1] == '%') continue;
        if (c[0] == '/' && c[1] == '/') {
            while (*c != 0 && *c != '\n') ++c;
            if (*c == 0) break;
        }
        all += *c;
    }
    for (const std::string& statement : [&] {
             std::vector<std::string> parts(1);
             for (char c : all)
                 if (c == ';') parts.emplace_back();
                 else parts.back() += c;
             return parts;
         }())
        add_statement(program, statement);
    return program;
}

Program& program_of(const char* text) {
    static std::unordered_map<const char*, Program> known;
    static const char* last_text = nullptr;
    static Program* last = nullptr;
    if (text == last_text) return *last;
    auto found = known.find(text);
    if (found == known.end()) found = known.emplace(text, parsed(text)).first;
    last_text = text, last = &found->second;
    return *last;
}

}  // namespace

uint64_t PtxFrame::get(const PtxName& name) const {
    if (name.kind == PtxName::number) return name.value;
    if (name.kind == PtxName::reg) return registers[name.index];
    if (name.kind == PtxName::nothing) return 0;
    const PtxOperand& operand = operands[name.index];
    if (operand.place == nullptr) return operand.value;
    uint64_t value = 0;
    std::memcpy(&value, operand.place, operand.bytes);
    return value;
}

void PtxFrame::set(const PtxName& name, uint64_t value, unsigned bits) const {
    if (name.kind == PtxName::reg) registers[name.index] = bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1);
    else if (name.kind == PtxName::operand && operands[name.index].place != nullptr)
        std::memcpy(operands[name.index].place, &value, operands[name.index].bytes);
}

void ptx(int line, const char* text, std::initializer_list<PtxOperand> outputs, std::initializer_list<PtxOperand> inputs) {
    if (*text == 0) return;
    if (!in_kernel()) abstain(line, "inline assembly outside of a kernel");
    state.line = line;
    PtxOperand operands[160];
    if (outputs.size() + inputs.size() > 160) abstain(line, "inline assembly with more than 160 operands");
    std::copy(outputs.begin(), outputs.end(), operands);
    std::copy(inputs.begin(), inputs.end(), operands + outputs.size());
    Program& program = program_of(text);
    std::vector<uint64_t> registers(program.registers.size());
    PtxFrame frame{operands, registers, line};
    for (size_t at = 0; at < program.instructions.size(); ++at) {
        const PtxInstruction& instruction = program.instructions[at];
        if (instruction.predicate >= 0 && (registers[size_t(instruction.predicate)] != 0) == instruction.negated) continue;
        if (instruction.jump) {
            at = program.labels[instruction.target] - 1;
            continue;
        }
        if (instruction.action == nullptr) {
            const std::string unknown = "the PTX instruction '" + instruction.text.substr(0, 120) + "' is not modelled";
            abstain(line, unknown.c_str());
        }
        frame.now = &instruction;
        instruction.action(frame, instruction);
    }
}

}  // namespace kbench
