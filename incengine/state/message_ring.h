// A ring of messages of different lengths in one region of memory, each in one piece: what mode I buffers per
// queue pair (docs/PROTOCOL-MODE-I.md, section 2). Holds places only, the bytes are the owner's. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/snapshot.h"
#include "base/types.h"
#include "protocol/context_memory.h"
#include "roce/transport/ring.h"

namespace epic::engine {

struct Message {
  uint64_t at = 0;  // where it begins, in bytes from the start of the group's memory
  uint32_t bytes = 0;
  bool control = false;  // it carries immediate data
  uint32_t imm = 0;
  uint32_t holders = 0;     // those that have to release it
  int64_t packets_end = 0;  // of one that was received: packets of its stream up to its end
  Index index = 0;          // of a sum: the group's index of its first packet
};

class MessageRing {
 public:
  // The region [base, base + capacity), for at most max_messages.
  MessageRing(uint64_t base, size_t capacity, size_t max_messages)
      : base_(base), capacity_(capacity), messages_(max_messages) {}

  // Where a message of that many bytes can go next, nothing if there is no room. A place once given stays
  // good until the next Append.
  std::optional<uint64_t> Place(size_t bytes) const;

  // Takes the place for a message, which may be shorter than what was asked for. Returns the message's
  // number; they count from 0.
  uint64_t Append(const Message& message);

  // One holder less. Messages leave in order, when nobody holds them or any before them.
  void Release(uint64_t number);

  bool empty() const { return messages_.empty(); }
  size_t size() const { return messages_.size(); }
  // Where the stream of messages is behind those that have left (Message::packets_end).
  int64_t left_packets_end() const { return left_packets_end_; }
  // The oldest message and its number.
  const Message& front() const { return messages_.front(); }
  uint64_t front_number() const { return first_; }
  // The number that the next one gets.
  uint64_t end_number() const { return first_ + messages_.size(); }
  // A message that has not left.
  Message& at(uint64_t number) { return messages_[static_cast<size_t>(number - first_)]; }

  // Whether so many bytes from there on lie in its region.
  bool Contains(uint64_t at, size_t bytes) const {
    return at >= base_ && bytes <= capacity_ && at - base_ <= capacity_ - bytes;
  }
  // Aborts if something does not hold that always does: messages lie one behind the other, and begin anew at
  // most once; somebody holds the oldest.
  void CheckInvariants() const;

  static constexpr size_t kAlignment = kArenaPiece;

 private:
  friend struct epic::Snapshot;
  uint64_t base_;
  size_t capacity_;
  roce::Ring<Message> messages_;
  uint64_t first_ = 0;
  int64_t left_packets_end_ = 0;
  size_t tail_ = 0;  // behind the newest message, from base
};

}  // namespace epic::engine
