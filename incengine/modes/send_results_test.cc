// The seam where mode II's results leave: a mode that is mode II but for the order in which a new result goes
// to the children.
#include "incengine/core/engine_testing.h"
#include "incengine/modes/mode.h"
#include "incengine/modules/transmit.h"

namespace epic::engine {
namespace {

void LastChildFirst(Context& ctx, uint64_t outs, Index index, std::span<const uint8_t> payload, bool ack_req,
                    Env& env) {
  for (size_t c = ctx.children.size(); c-- > 0;) {
    if ((outs >> c & 1) != 0) SendData(ctx, ctx.children[c], index, payload, ack_req, env);
  }
}

constexpr ResultWay kLastChildFirst{.send = LastChildFirst};

class LastFirst final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    Env own = env;
    own.results = &kLastChildFirst;
    TranslatedMode().OnPacket(ctx, from, packet, own);
  }
  void OnTimer(Context& ctx, Env& env) const override { TranslatedMode().OnTimer(ctx, env); }
};

}  // namespace

// It has no number of its own: in this program it stands in the place of mode III, whose memory has room for
// it.
const ModeLogic& AugmentedMode() {
  static const LastFirst mode;
  return mode;
}

namespace {

using roce::Opcode;

class SendResultsTest : public EngineTest {
 protected:
  void InstallAs(Mode mode, bool root) {
    GroupConfig config = Config(root);
    config.mode = mode;
    ASSERT_TRUE(engine.Install(config).ok());
  }
  std::vector<PortId> Ports() const {
    std::vector<PortId> ports;
    for (const Sent& one : sent) ports.push_back(one.port);
    return ports;
  }
};

TEST_F(SendResultsTest, AtTheRootAndBelowItResultsLeaveInTheModesWay) {
  InstallAs(Mode::kAugmented, /*root=*/true);
  for (const uint32_t child : {0, 1}) Control(child, 64);
  EXPECT_EQ(Ports(), (std::vector<PortId>{1, 0})) << "the reply";
  for (const uint32_t child : {0, 1}) Data(child, 0, 5, Opcode::kRcSendOnly);
  ASSERT_EQ(Ports(), (std::vector<PortId>{1, 0}));
  EXPECT_EQ(Word(sent[0]), 10);

  engine.Remove(7, 1);
  InstallAs(Mode::kAugmented, /*root=*/false);
  for (const uint32_t child : {0, 1}) Control(child, 64);
  Control(2, 64);
  EXPECT_EQ(Ports(), (std::vector<PortId>{1, 0})) << "the reply";
}

TEST_F(SendResultsTest, WhatIsRepeatedIsModeTwos) {
  InstallAs(Mode::kAugmented, /*root=*/true);
  for (const uint32_t child : {0, 1}) Control(child, 64);
  Control(0, 64);
  EXPECT_EQ(Ports(), (std::vector<PortId>{0})) << "who asks, and nobody else";
}

TEST_F(SendResultsTest, ModeTwoItselfSendsInTheOrderOfChildren) {
  InstallAs(Mode::kTranslated, /*root=*/true);
  for (const uint32_t child : {0, 1}) Control(child, 64);
  EXPECT_EQ(Ports(), (std::vector<PortId>{0, 1}));
}

}  // namespace
}  // namespace epic::engine
