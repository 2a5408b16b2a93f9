// For the fuzz target of the engine: a group with a block beside another one that has it or may have it.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/check.h"
#include "incengine/core/engine.h"
#include "incengine/modes/table.h"
#include "protocol/control.h"

namespace epic::engine {

constexpr uint64_t kBlock = 1;

inline std::span<const uint8_t> BytesOf(const Engine& engine, const Block& block) {
  return engine.arena().At(block.offset, block.bytes);
}

// Another group, of one rank, takes the block, and keeps it. What is in it then.
inline std::vector<uint8_t> OtherTakesBlock(GroupConfig config, const EndpointConfig& rank, Engine& engine,
                                            Effects& effects) {
  config.group_id = 2;
  config.world_size = 1;
  config.parent.reset();
  config.children = {rank};
  config.children[0].ranks = {0};
  EPIC_CHECK(engine.Install(config).ok());
  ControlHeader header{.collective = Collective::kAllReduce,
                       .op = ReduceOp::kSum,
                       .type = DataType::kInt32,
                       .count = 8,
                       .flags = kRequestFlag,
                       .window = 1};
  std::array<uint8_t, kControlBytes> bytes;
  Encode(header, bytes);
  roce::Packet p;
  p.src_ip = config.children[0].remote_ip;
  p.dst_ip = engine.address();
  p.bth.dest_qp = config.children[0].local_qpn;
  p.bth.psn = config.children[0].in_psn;
  p.bth.opcode = roce::Opcode::kRcSendOnlyImm;
  p.payload = bytes;
  engine.OnPacket(0, config.children[0].port, p, effects);
  engine.CheckInvariants();
  const Block& block = engine.blocks().at(kBlock);
  EPIC_CHECK(block.holder == config.group_id);
  const auto in_it = BytesOf(engine, block);
  return {in_it.begin(), in_it.end()};
}

// Only who has the block touches it, and only one has. `of_other`: what is in it if the other group has it
// for good.
inline void CheckBlock(const Engine& engine, std::span<const uint8_t> of_other) {
  if (engine.blocks().empty()) return;
  const Block& block = engine.blocks().at(kBlock);
  for (const auto& [id, ctx] : engine.groups()) EPIC_CHECK(ctx.hold.has_memory == (block.holder == id));
  EPIC_CHECK(of_other.empty() || std::ranges::equal(BytesOf(engine, block), of_other));
}

}  // namespace epic::engine
