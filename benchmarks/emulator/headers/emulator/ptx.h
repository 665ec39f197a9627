// Inline PTX: `asm` statements become calls of `ptx`, which interprets their text. What it does not know, it abstains on.
#pragma once
#include <initializer_list>
#include <type_traits>

#include "abi.h"

namespace kbench {

struct PtxOperand {
    void* place;      // of an output; nullptr for inputs
    uint64_t value;   // of an input
    unsigned bytes;
};

template <class T>
PtxOperand operand(const char* constraint, T&& v) {
    using Plain = std::decay_t<T>;
    PtxOperand made{nullptr, 0, unsigned(sizeof(Plain))};
    if constexpr (std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>> && !std::is_array_v<std::remove_reference_t<T>>) {
        if (constraint[0] == '=' || constraint[0] == '+') {
            made.place = &v;
            return made;
        }
    }
    const Plain copy = v;
    if constexpr (std::is_integral_v<Plain> && std::is_signed_v<Plain>) made.value = uint64_t(int64_t(copy)), made.bytes = 8;
    else __builtin_memcpy(&made.value, &copy, sizeof copy < 8 ? sizeof copy : 8);
    return made;
}

void ptx(int line, const char* text, std::initializer_list<PtxOperand> outputs, std::initializer_list<PtxOperand> inputs);

}  // namespace kbench
