// Every type and operation through a switch, in every mode: two packets of which the second ends with an odd
// number of elements, inlined or not, in the order of arrival or of children.
#include <optional>
#include <random>

#include "incengine/core/engine_testing.h"
#include "incengine/modes/table.h"
#include "protocol/flow.h"
#include "protocol/number_blocks.h"
#include "reduce/reduce.h"

namespace epic::engine {
namespace {

using Bytes = std::vector<uint8_t>;

struct Case {
  Mode mode;
  bool inlined;
  bool reproducible;
};

class TypesTest : public EngineTest, public testing::WithParamInterface<Case> {
 protected:
  // A header of so many bytes of data, at least.
  static ControlHeader Call(ReduceOp op, DataType type, size_t bytes) {
    ControlHeader header{.collective = Collective::kAllReduce, .op = op, .type = type};
    header.count = bytes / ElementBytes(type);
    header.flags = GetParam().inlined ? kInlinedFlag : 0;
    if (!IsInBlocks(header)) return header;
    header.called = DataType::kFloat32;
    header.last = 1;
    return header;
  }

  // What a child sends of a call: its messages' packets, in order.
  static std::vector<Bytes> PacketsOf(const ControlHeader& header, const Bytes& data) {
    Bytes control(kControlBytes);
    Encode(header, std::span<uint8_t, kControlBytes>(control.data(), kControlBytes));
    std::vector<Bytes> packets;
    const auto cut = [&packets](const Bytes& message) {
      for (size_t at = 0; at < message.size(); at += 256)
        packets.emplace_back(message.begin() + static_cast<int64_t>(at),
                             message.begin() + static_cast<int64_t>(std::min(at + 256, message.size())));
    };
    if (IsInlined(header)) control.insert(control.end(), data.begin(), data.end());
    cut(control);
    if (!IsInlined(header)) cut(data);
    return packets;
  }

  // The opcodes of those packets.
  static roce::Opcode OpcodeOf(const ControlHeader& header, size_t at) {
    if (IsInlined(header)) return at == 0 ? roce::Opcode::kRcSendFirst : roce::Opcode::kRcSendLastImm;
    if (at == 0) return roce::Opcode::kRcSendOnlyImm;
    return at == 1 ? roce::Opcode::kRcSendFirst : roce::Opcode::kRcSendLast;
  }

  // Both children's packets by turns, the second child's first; what the first child is sent meanwhile, but
  // for headers.
  Bytes Results(const ControlHeader& header, const std::array<Bytes, 2>& data) {
    Bytes results;
    const std::array<std::vector<Bytes>, 2> packets = {PacketsOf(header, data[0]),
                                                       PacketsOf(header, data[1])};
    Index sent_down = 0;
    for (size_t at = 0; at < packets[0].size(); ++at) {
      for (const uint32_t child : {1u, 0u}) {
        Deliver(
            From(child, Psn(kInPsn) + static_cast<int32_t>(at), OpcodeOf(header, at), packets[child][at]));
        for (const Sent& s : sent) {
          if (s.port != 0 || s.payload.empty()) continue;
          const bool has_header = ++sent_down == 1;
          results.insert(results.end(), s.payload.begin() + (has_header ? kControlBytes : 0),
                         s.payload.end());
        }
      }
      for (const uint32_t child : {0u, 1u}) Ack(child, roce::kSyndromeAck, static_cast<Index>(at));
    }
    return results;
  }

  // The status of the reply to a new group's first call, whose control packet stands alone.
  std::optional<ControlStatus> ReplyTo(const ControlHeader& header) {
    Bytes control(kControlBytes);
    Encode(header, std::span<uint8_t, kControlBytes>(control.data(), kControlBytes));
    std::optional<ControlHeader> reply;
    for (const uint32_t child : {0u, 1u}) {
      Deliver(From(child, Psn(kInPsn), roce::Opcode::kRcSendOnlyImm, control));
      for (const Sent& s : sent) {
        if (s.port == 0 && s.payload.size() == kControlBytes) reply = HeaderOf(s.payload);
      }
    }
    return reply ? std::optional(reply->status) : std::nullopt;
  }
};

TEST_P(TypesTest, EveryTypeAndOperationIsReducedAsTheKernelsDo) {
  const Case& how = GetParam();
  std::mt19937 random(5);
  for (const TypeInfo& type : kDataTypes) {
    for (const OpInfo& op : kReduceOps) {
      if (!CanReduce(op.op, type.type)) continue;
      SCOPED_TRACE(std::string(op.name) + " of " + std::string(type.name));
      GroupConfig config = Config(true);
      config.mode = how.mode;
      config.reproducible = how.reproducible;
      config.accumulator_mtus = AccumulatorFactor(type.type);
      engine = Engine(kOwn, 4, 1 << 20);
      ASSERT_TRUE(engine.Install(config).ok());
      // A packet and five elements, or as many as the next one holds, and as many behind a header.
      const size_t second = std::min<size_t>(5 * type.bytes, 256 - kControlBytes);
      const size_t bytes = 256 + second - (how.inlined ? kControlBytes : 0);
      const ControlHeader header = Call(op.op, type.type, bytes);
      std::array<Bytes, 2> data;
      for (Bytes& one : data) {
        one.resize(header.count * type.bytes);
        // Of small exponents in FP types, so that there are no NaNs.
        for (uint8_t& byte : one) byte = static_cast<uint8_t>(random()) & 0xbf;
      }
      // In the order of children where that is promised; else the second came first.
      const bool by_child = how.reproducible || how.mode == Mode::kTerminated;
      Bytes sum(AccumulatorBytes(op.op, type.type, data[0].size()));
      Bytes want(data[0].size());
      Load(op.op, type.type, sum, data[by_child ? 0 : 1]);
      Accumulate(op.op, type.type, sum, data[by_child ? 1 : 0]);
      Store(op.op, type.type, sum, want);
      EXPECT_EQ(Results(header, data), want);
    }
  }
}

// A bitwise operation of floats is a call that no switch can do, not a broken packet.
TEST_P(TypesTest, APairThatThereIsNotEndsTheCall) {
  GroupConfig config = Config(true);
  config.mode = GetParam().mode;
  ASSERT_TRUE(engine.Install(config).ok());
  ControlHeader header = Call(ReduceOp::kBitAnd, DataType::kFloat64, 64);
  header.flags = 0;
  EXPECT_EQ(ReplyTo(header), ControlStatus::kUnsupported);
}

// A switch that is told to have less answers calls that need more as those that nobody can serve: also a
// copy.
TEST_P(TypesTest, ASwitchWithoutTheTypeEndsTheCall) {
  for (const bool copy : {false, true}) {
    GroupConfig config = Config(true);
    config.mode = GetParam().mode;
    config.abilities = Abilities::First();
    engine = Engine(kOwn, 4, 1 << 20);
    ASSERT_TRUE(engine.Install(config).ok());
    ControlHeader header = Call(ReduceOp::kSum, DataType::kInt64, 64);
    header.flags = 0;
    if (copy) header = {.collective = Collective::kBroadcast, .type = DataType::kInt64, .count = 8};
    EXPECT_EQ(ReplyTo(header), ControlStatus::kUnsupported);
    engine = Engine(kOwn, 4, 1 << 20);
    ASSERT_TRUE(engine.Install(config).ok());
    header.type = DataType::kInt32;
    EXPECT_EQ(ReplyTo(header), ControlStatus::kOk);
  }
}

// What takes more bytes while it is combined than a group has for it has no room there: its slots lie so far
// apart.
TEST_P(TypesTest, AGroupCombinesWhatItHasRoomFor) {
  const Case& how = GetParam();
  GroupConfig config = Config(true);
  config.mode = how.mode;
  config.reproducible = how.reproducible;
  size_t less = 0;
  for (const uint32_t mtus : {1u, 2u, 4u}) {
    config.accumulator_mtus = mtus;
    EXPECT_GT(ArenaBytes(config), less);
    less = ArenaBytes(config);
  }
  for (const uint32_t mtus : {1u, 2u}) {
    config.accumulator_mtus = mtus;
    for (const TypeInfo& type : kDataTypes) {
      SCOPED_TRACE(type.name);
      engine = Engine(kOwn, 4, ArenaBytes(config));
      ASSERT_TRUE(engine.Install(config).ok());
      ControlHeader header = Call(ReduceOp::kSum, type.type, 512 - (how.inlined ? kControlBytes : 0));
      if (type.type != DataType::kByte && AccumulatorFactor(type.type) <= mtus) {
        std::array<Bytes, 2> data;
        for (Bytes& one : data) one.assign(header.count * type.bytes, 1);
        Bytes want = data[0];
        Combine(ReduceOp::kSum, type.type, want, data[0].data(), data[1].data());
        EXPECT_EQ(Results(header, data), want);
        continue;
      }
      header.flags = 0;
      EXPECT_EQ(ReplyTo(header), ControlStatus::kUnsupported);
    }
  }
}

// Whose data go between the hosts: the switch answers the control packet, and awaits nothing else.
TEST_P(TypesTest, ACallByTheHostsIsItsControlPacketAlone) {
  GroupConfig config = Config(true);
  config.mode = GetParam().mode;
  config.abilities = Abilities::First();
  ASSERT_TRUE(engine.Install(config).ok());
  ControlHeader header = Call(ReduceOp::kProduct, DataType::kFloat64, 64);
  header.flags = kByHostsFlag;
  EXPECT_EQ(ReplyTo(header), ControlStatus::kOk);
}

// Hosts of a later version than the switch's agree there on calls of which it has not even the names.
TEST_P(TypesTest, ACallByTheHostsMayNameWhatALaterVersionHas) {
  GroupConfig config = Config(true);
  config.mode = GetParam().mode;
  ASSERT_TRUE(engine.Install(config).ok());
  const ControlHeader header{.collective = Collective::kAllReduce,
                             .op = ReduceOp{41},
                             .type = DataType{40},
                             .count = 1000,
                             .flags = kByHostsFlag};
  EXPECT_EQ(ReplyTo(header), ControlStatus::kOk);
}

TEST_P(TypesTest, WhatALaterVersionHasEndsTheCall) {
  for (const bool type : {false, true}) {
    GroupConfig config = Config(true);
    config.mode = GetParam().mode;
    engine = Engine(kOwn, 4, 1 << 20);
    ASSERT_TRUE(engine.Install(config).ok());
    ControlHeader header = Call(ReduceOp::kSum, DataType::kInt32, 64);
    header.flags = 0;
    if (type) {
      header.type = DataType{40};
    } else {
      header.op = ReduceOp{41};
    }
    EXPECT_EQ(ReplyTo(header), ControlStatus::kUnsupported);
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Mode mode : ModesOfOwnMemory()) {
    for (const bool inlined : {false, true}) {
      cases.push_back({mode, inlined, false});
      if (mode != Mode::kTerminated) cases.push_back({mode, inlined, true});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Modes, TypesTest, testing::ValuesIn(AllCases()), [](const auto& test) {
  return std::string(NumeralOf(test.param.mode)) + (test.param.inlined ? "Inlined" : "") +
         (test.param.reproducible ? "Reproducible" : "");
});

}  // namespace
}  // namespace epic::engine
