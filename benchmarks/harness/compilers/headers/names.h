// The names that <torch/types.h> gives to what ATen has under another name.
#pragma once
#include <c10/core/ScalarType.h>

#include <optional>

namespace torch {
using namespace at;  // NOLINT: the stock header does the same
using std::nullopt;
using std::optional;

using Dtype = at::ScalarType;
constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
}  // namespace torch
