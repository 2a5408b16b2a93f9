// Messages of proto/ from a fuzzer's bytes, as a peer may send them: a valid one with a few edits, anything
// that the schema allows, or bytes that only happen to parse. One builder for all messages, by protobuf's
// reflection.
#pragma once

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fuzz_input.h"

namespace epic::fuzz {

// Texts that mean something to the code under test: names, addresses.
using Words = std::vector<std::string>;

// Changes one field somewhere in the message, also below it: a scalar to a value near the old one, a bound or
// a word; an element of a list added, doubled, swapped or removed; a message cleared.
void Edit(FuzzInput& in, const Words& words, google::protobuf::Message* message);

// Takes the message through its bytes, or replaces it by bytes of the input; false if they do not parse, so
// that gRPC would not have let the call through.
bool Receive(FuzzInput& in, const Words& words, google::protobuf::Message* message);

// The message's bytes, the same for the same contents: maps are sorted.
std::string StableBytes(const google::protobuf::Message& message);

// What arrives where a correct peer would have sent `valid`; nothing if gRPC refuses the bytes.
template <typename Message>
std::optional<Message> Received(FuzzInput& in, const Words& words, Message valid) {
  if (!Receive(in, words, &valid)) return std::nullopt;
  return valid;
}

}  // namespace epic::fuzz
