// What --json prints: docs/JSON.md is its description, and what changes there changes kJsonVersion.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

namespace epic::manager {

// Another one when a field goes or means something else; fields that are added leave it.
inline constexpr int kJsonVersion = 1;

// The reply as one object, fields by their names in the .proto files, those that are not optional also when they are 0 or
// empty. IPv4 addresses (fixed32) and MACs (bytes) are text, numbers are numbers, events have a time and a type. now_ms, since
// 1970, is when the reply came.
std::string ToJson(const google::protobuf::Message& reply, int64_t now_ms);

}  // namespace epic::manager
