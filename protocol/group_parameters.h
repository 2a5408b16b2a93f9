// What a group's contexts at its switches have alike, but for the mode and the block, which are each switch's
// own: the message of the control plane (GroupConfig in proto/switch.proto), the manager's plan and the
// engine's context have these fields from here. A field more stands in the message, here, and where it is set
// and used.
#pragma once

#include <cstdint>
#include <string>

#include "base/types.h"
#include "protocol/modes.h"

namespace epic {

struct GroupParameters {
  uint64_t group_id = 0;    // unique for the life of a manager database
  uint32_t generation = 0;  // bumped when QPNs of an id are used again
  std::string name;
  Mode mode = kDefaultMode;
  uint32_t world_size = 0;
  uint32_t path_mtu = 1024;      // payload bytes per packet
  uint32_t message_packets = 1;  // M
  uint32_t window_messages = 1;  // W
  uint32_t slots = 2;            // N
  bool reproducible = false;     // sums in the order of children, the same bits each time
  // For the sum of a packet while it is built, in path MTUs: 1, 2 or 4. Types whose AccumulatorFactor is
  // larger are not combined.
  uint32_t accumulator_mtus = 2;
  uint64_t block = 0;        // its memory at the switch is this block, of several owners; 0: its own
  uint64_t block_bytes = 0;  // that the block is to have at least, for this owner
  Nanos prompt_ns = 20 * kMillisecond;  // first wait before a switch prompts a silent child
  // Of a group whose payloads lie in a pool: the most that a call's priority counts (priority.h); 0: no
  // limit.
  uint32_t priority_limit = 0;
};

// Message is proto::GroupConfig, which this folder does not know. These two are the only places that take it
// apart.

// What the message says, unchecked: its mode may be none of kModes. What earlier versions do not set has its
// default; times beyond their range are negative.
template <typename Message>
constexpr GroupParameters ParametersOf(const Message& message) {
  GroupParameters out{.group_id = message.group_id(),
                      .generation = message.generation(),
                      .name = message.name(),
                      .mode = static_cast<Mode>(message.mode()),
                      .world_size = message.world_size(),
                      .path_mtu = message.path_mtu(),
                      .message_packets = message.message_packets(),
                      .window_messages = message.window_messages(),
                      .slots = message.slots(),
                      .reproducible = message.reproducible(),
                      .accumulator_mtus = message.accumulator_mtus(),
                      .block = message.block(),
                      .block_bytes = message.block_bytes()};
  if (out.accumulator_mtus == 0) out.accumulator_mtus = message.narrow() ? 1 : 2;
  out.priority_limit = message.priority_limit();
  if (message.prompt_ns() != 0) out.prompt_ns = static_cast<Nanos>(message.prompt_ns());
  return out;
}

// Writes all of them into the message, and nothing else.
template <typename Message>
constexpr void SetParameters(const GroupParameters& parameters, Message* message) {
  message->set_group_id(parameters.group_id);
  message->set_generation(parameters.generation);
  message->set_name(parameters.name);
  message->set_mode(static_cast<decltype(message->mode())>(parameters.mode));
  message->set_world_size(parameters.world_size);
  message->set_path_mtu(parameters.path_mtu);
  message->set_message_packets(parameters.message_packets);
  message->set_window_messages(parameters.window_messages);
  message->set_slots(parameters.slots);
  message->set_reproducible(parameters.reproducible);
  message->set_narrow(parameters.accumulator_mtus == 1);
  message->set_accumulator_mtus(parameters.accumulator_mtus);
  message->set_block(parameters.block);
  message->set_block_bytes(parameters.block_bytes);
  message->set_priority_limit(parameters.priority_limit);
  message->set_prompt_ns(static_cast<uint64_t>(parameters.prompt_ns));
}

}  // namespace epic
