// What the daemon writes is what the checker reads.
#include "check/conform/trace_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "check/conform/recording_testing.h"
#include "incengine/daemon/trace.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"

namespace epic::conform {
namespace {

constexpr roce::MacAddress kOwnMac = {2, 0, 0, 0, 0, 1};
constexpr roce::MacAddress kPeerMac = {2, 0, 0, 0, 0, 2};
constexpr roce::MacAddress kThirdMac = {2, 0, 0, 0, 0, 3};

class TraceFileTest : public testing::Test {
 protected:
  TraceFileTest() {
    std::string name = std::filesystem::temp_directory_path() / "epic-trace-test-XXXXXX";
    directory_ = mkdtemp(name.data());
    const ControlHeader header{
        .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 640};
    recording_ =
        Record({.mode = engine::Mode::kTranslated, .tree = sim::Star(3), .path_mtu = 256}, 0, {header});
  }
  ~TraceFileTest() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/trace.ndjson"; }

  // Has the daemon's writer write the recording, as frames.
  void Write(uint64_t limit) {
    engine::SwitchConfig config{.address = recording_.address, .mac = kOwnMac, .port_count = 3};
    auto trace = daemon::Trace::Open(path(), limit, "leaf \"1\"", config);
    ASSERT_TRUE(trace.ok()) << trace.status();
    Nanos now = 1000;
    for (const Event& e : recording_.events) {
      if (e.kind == Event::Kind::kInstall) {
        (*trace)->OnInstall(++now, e.group);
        continue;
      }
      roce::Packet packet = e.packet;
      packet.payload = e.payload;
      std::vector<uint8_t> frame(roce::FrameBytes(packet));
      const bool in = e.in();
      const roce::FrameAddress address{
          .dst = in ? kOwnMac : kPeerMac, .src = in ? kPeerMac : kOwnMac, .ip_id = 0, .vlan = {}};
      roce::WriteFrame(address, packet, frame);
      if (in) {
        (*trace)->OnFrame(++now, e.port, frame);
      } else {
        (*trace)->OnTimer(++now, engine::TimerId{recording_.group().group_id});
        (*trace)->OnSend(e.port, frame);
      }
    }
    (*trace)->OnFail(++now, recording_.group().group_id, recording_.group().generation);
    (*trace)->OnRemove(++now, recording_.group().group_id, recording_.group().generation);
  }

  std::string directory_;
  Recording recording_;
};

TEST_F(TraceFileTest, IsAcceptedAsTheSwitchWas) {
  Write(1 << 30);
  std::ifstream file(path());
  const auto result = JudgeTrace(file);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->verdict.accepted()) << Describe(result->verdict.first[0]);
  const Verdict direct = Play(recording_);
  EXPECT_EQ(result->switch_name, "leaf \"1\"");
  EXPECT_EQ(result->groups, 1u);
  EXPECT_EQ(result->verdict.packets_in, direct.packets_in);
  EXPECT_EQ(result->verdict.packets_out, direct.packets_out);
  EXPECT_EQ(result->verdict.judged[static_cast<size_t>(Rule::kPayload)],
            direct.judged[static_cast<size_t>(Rule::kPayload)]);
  EXPECT_EQ(result->verdict.judged[static_cast<size_t>(Rule::kIsolation)], direct.packets_out);
  EXPECT_FALSE(result->cut);
}

TEST_F(TraceFileTest, ADigitOfAPayloadIsSeen) {
  Write(1 << 30);
  std::ifstream file(path());
  std::stringstream forged;
  uint64_t line = 0, changed = 0;
  for (std::string text; std::getline(file, text);) {
    ++line;
    const size_t payload = text.find("\"payload\":\"");
    if (changed == 0 && text.find("\"event\":\"out\"") != std::string::npos && payload != std::string::npos &&
        text.find("\"imm\"") == std::string::npos) {
      char& digit = text[payload + 11];
      digit = digit == '0' ? '1' : '0';
      changed = line;
    }
    forged << text << "\n";
  }
  const auto result = JudgeTrace(forged);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_FALSE(result->verdict.accepted());
  EXPECT_EQ(result->verdict.first[0].line, changed);
  EXPECT_EQ(result->verdict.first[0].rule, Rule::kPayload);
}

TEST_F(TraceFileTest, IsCutAtItsLimit) {
  Write(8000);
  EXPECT_LE(std::filesystem::file_size(path()), 8100u);
  std::ifstream file(path());
  const auto result = JudgeTrace(file);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->cut);
  EXPECT_TRUE(result->verdict.accepted());
  EXPECT_GT(result->verdict.packets_in, 0u);
}

TEST_F(TraceFileTest, WhatTheSwitchOnlyForwardsIsLeftOut) {
  engine::SwitchConfig config{.address = recording_.address, .mac = kOwnMac, .port_count = 3};
  auto trace = daemon::Trace::Open(path(), 1 << 20, "s", config);
  ASSERT_TRUE(trace.ok());
  const Event& e = recording_.events[recording_.Find([](const Event& x) { return x.in(); })];
  roce::Packet packet = e.packet;
  packet.payload = e.payload;
  std::vector<uint8_t> frame(roce::FrameBytes(packet));
  roce::WriteFrame({.dst = {2, 0, 0, 0, 0, 9}, .src = kPeerMac, .ip_id = 0, .vlan = {}}, packet, frame);
  (*trace)->OnFrame(1, 0, frame);
  (*trace)->OnSend(1, frame);
  trace->reset();
  std::ifstream file(path());
  const auto result = JudgeTrace(file);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->lines, 1u);
}

// Two hosts speak to each other beside a group whose end at the one bears the other's address.
TEST_F(TraceFileTest, WhatIsOfAnotherQueuePairThanTheEndThatBearsItsAddressIsLeftOut) {
  const Ipv4 host{0x0a000001}, peer{0x0a000002};
  engine::GroupConfig group = recording_.group();
  engine::EndpointConfig& end = group.children.at(0);
  end.remote_ip = host;
  end.borne_ip = peer;
  auto trace = daemon::Trace::Open(path(), 1 << 20, "s",
                                   {.address = recording_.address, .mac = kOwnMac, .port_count = 3});
  ASSERT_TRUE(trace.ok());
  (*trace)->OnInstall(1, group);
  roce::Packet packet = recording_.events[recording_.Find([](const Event& e) { return e.in(); })].packet;
  packet.payload = {};
  std::vector<uint8_t> frame;
  const auto write = [&](Ipv4 from, Ipv4 to, Qpn qpn, roce::MacAddress src) {
    packet.src_ip = from;
    packet.dst_ip = to;
    packet.bth.dest_qp = qpn;
    frame.assign(roce::FrameBytes(packet), 0);
    roce::WriteFrame({.dst = kThirdMac, .src = src, .ip_id = 0, .vlan = {}}, packet, frame);
  };
  const Qpn another{Raw(end.local_qpn) + 1000};
  for (const Qpn qpn : {another, end.local_qpn}) {
    write(host, peer, qpn, kPeerMac);
    (*trace)->OnFrame(2, 0, frame);
  }
  for (const Qpn qpn : {another, end.remote_qpn}) {
    write(peer, host, qpn, kOwnMac);
    (*trace)->OnSend(0, frame);
  }
  trace->reset();
  std::ifstream file(path());
  std::string text, kinds;
  while (std::getline(file, text))
    kinds += text.find("\"event\":\"in\"") != std::string::npos    ? "in "
             : text.find("\"event\":\"out\"") != std::string::npos ? "out "
                                                                   : "";
  EXPECT_EQ(kinds, "in out ");
}

TEST_F(TraceFileTest, SaysWhatIsNoTrace) {
  const auto error = [](const std::string& text) {
    std::stringstream stream(text);
    return std::string(JudgeTrace(stream).status().message());
  };
  const std::string header = R"({"event":"trace","version":1,"switch":"s","address":"10.0.0.1"})";
  EXPECT_EQ(error(header), "");
  EXPECT_NE(error("").find("empty"), std::string::npos);
  EXPECT_NE(error("{}").find("line 1"), std::string::npos);
  EXPECT_NE(error(R"({"event":"trace","version":2})").find("version 2"), std::string::npos);
  EXPECT_NE(error(header + "\n{\"event\":\"odd\"}").find("line 2: there is no event \"odd\""),
            std::string::npos);
  EXPECT_NE(error(header + "\n{\"event\":\"in\"").find("line 2"), std::string::npos);
}

TEST_F(TraceFileTest, AGroupWithABlockIsNotJudged) {
  Write(1 << 30);
  std::ifstream file(path());
  std::stringstream trace;
  for (std::string text; std::getline(file, text);) {
    if (const size_t at = text.find("\"prompt_ns\""); at != std::string::npos)
      text.insert(at, "\"block\":1,");
    trace << text << "\n";
  }
  const auto result = JudgeTrace(trace);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(std::string(result.status().message()).find("has memory that other groups own, too"),
            std::string::npos)
      << result.status();
}

TEST_F(TraceFileTest, AFileThatCannotBeWrittenIsAnError) {
  const auto trace = daemon::Trace::Open(directory_ + "/no/such/folder", 1 << 20, "s", {});
  EXPECT_FALSE(trace.ok());
  EXPECT_NE(std::string(trace.status().message()).find("--trace"), std::string::npos);
}

}  // namespace
}  // namespace epic::conform
