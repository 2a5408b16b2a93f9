// Two ranks of a group, their switch, and the connection between them, in memory: what a NIC and a network
// would do, one step at a time.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "commlib/core/group_calls.h"

namespace epic {

class PairOfRanks {
 public:
  static constexpr uint32_t kSize = 2;
  using Request = GroupCalls::Request;

  explicit PairOfRanks(GroupCallsConfig config) {
    for (uint32_t r = 0; r < kSize; ++r) {
      config.network.rank = r;
      config.network.world_size = kSize;
      calls(r).SetConfig(config);
      calls(r).AddHosts({.rank = r,
                         .world_size = kSize,
                         .algorithm = Algorithm::kRing,
                         .agrees_by_exchange = config.by_hosts,
                         .message_bytes = 64,
                         .staging_bytes = 1024,
                         .inline_bytes = 64});
    }
  }

  GroupCalls& calls(uint32_t rank) { return ends_[rank].calls; }
  // The calls of a rank that have ended, in that order.
  const std::vector<GroupCalls::Ended>& ended(uint32_t rank) const { return ends_[rank].ended; }
  // What a rank has posted, in order.
  const std::vector<Request>& posted(uint32_t rank) const { return ends_[rank].posted; }
  // What its trials of the send window have come to.
  const std::vector<WindowTrials::Found>& found(uint32_t rank) const { return ends_[rank].found; }
  // The control packets that the switch has had from rank 0.
  const std::vector<ControlHeader>& controls() const { return controls_; }

  // Both ranks do what they may.
  void Post() {
    for (uint32_t r = 0; r < kSize; ++r) {
      End& end = ends_[r];
      if (end.calls.awaits_time()) {
        if (const auto found = end.calls.OnTime(now_ += 1000)) end.found.push_back(*found);
      }
      while (const auto ended = end.calls.NextEnded()) end.ended.push_back(*ended);
      end.calls.CheckInvariants();
      for (Request request; end.calls.NextRequest(&request);) {
        end.posted.push_back(request);
        Line& line = end.lines[request.connection == GroupCalls::kSwitch ? 0 : 1];
        (request.is_recv ? line.recvs : line.sends).push_back(request);
      }
    }
  }

  // The next message of both ranks to the switch comes back to both: a control packet with this status, data
  // as their sum. False if one of them has sent none.
  bool Answer(ControlStatus status = ControlStatus::kOk, ControlField field = ControlField::kNone) {
    Post();
    if (ends_[0].lines[0].sends.empty() || ends_[1].lines[0].sends.empty()) return false;
    const std::array<Request, kSize> sends = {Take(0, 0, false), Take(1, 0, false)};
    EXPECT_EQ(sends[0].length, sends[1].length);
    std::vector<uint8_t> answer(sends[0].address, sends[0].address + sends[0].length);
    if (sends[0].has_imm) {
      ControlHeader header = HeaderOf({sends[0].address, kControlBytes}).value();
      controls_.push_back(header);
      header.status = status;
      header.field = field;
      if (IsFatal(status)) header.window = 0;
      Encode(header, std::span<uint8_t, kControlBytes>(answer.data(), kControlBytes));
    } else {
      for (size_t at = 0; at < answer.size(); at += sizeof(int32_t)) {
        int32_t sum = 0, one = 0;
        for (const Request& send : sends) {
          std::memcpy(&one, send.address + at, sizeof one);
          sum += one;
        }
        std::memcpy(&answer[at], &sum, sizeof sum);
      }
    }
    for (uint32_t r = 0; r < kSize; ++r) Hand(r, 0, sends[r], answer);
    Post();
    return true;
  }
  // All that is sent to the switch.
  void AnswerAll() {
    while (Answer() && !testing::Test::HasFailure()) {
    }
  }

  // The connection between the two is made.
  void Connect() {
    for (uint32_t r = 0; r < kSize; ++r) calls(r).SetConnected(1 - r);
    Post();
    for (uint32_t r = 0; r < kSize; ++r) calls(r).SetReady(1 - r);
    Post();
  }
  // All that is sent between the two arrives, and what follows there.
  void Exchange() {
    for (bool any = true; std::exchange(any, false);) {
      Post();
      for (uint32_t r = 0; r < kSize; ++r) {
        while (!ends_[r].lines[1].sends.empty()) {
          any = true;
          const Request send = Take(r, 1, false);
          ASSERT_FALSE(ends_[1 - r].lines[1].recvs.empty()) << "a message without a receive";
          Hand(1 - r, 1, send, {send.address, send.address + send.length});
          calls(r).OnComplete(1 - r, send.wr_id, 0, std::nullopt);
        }
      }
    }
  }

  // Every request of the rank comes back, and its calls end.
  void Drain(uint32_t r) {
    for (size_t line = 0; line < 2; ++line) {
      const uint32_t connection = line == 0 ? GroupCalls::kSwitch : 1 - r;
      Line& of = ends_[r].lines[line];
      for (size_t left = of.sends.size() + of.recvs.size(); left > 0; --left)
        calls(r).OnFlushed(connection);
      of = {};
    }
    EXPECT_EQ(calls(r).posted(), 0);
    calls(r).OnDrained();
    while (const auto ended = calls(r).NextEnded()) ends_[r].ended.push_back(*ended);
    EXPECT_EQ(calls(r).open(), 0u);
  }

  // So much of what a rank has posted there, and has not come back.
  size_t Outstanding(uint32_t r, bool to_switch) const {
    const Line& line = ends_[r].lines[to_switch ? 0 : 1];
    return line.sends.size() + line.recvs.size();
  }

 private:
  struct Line {
    std::deque<Request> sends, recvs;
  };
  struct End {
    GroupCalls calls{/*bounce_bytes=*/64, /*inline_bytes=*/64};
    std::array<Line, 2> lines;  // to the switch, to the other rank
    std::vector<Request> posted;
    std::vector<GroupCalls::Ended> ended;
    std::vector<WindowTrials::Found> found;
  };

  Request Take(uint32_t r, size_t line, bool is_recv) {
    auto& queue = is_recv ? ends_[r].lines[line].recvs : ends_[r].lines[line].sends;
    const Request first = queue.front();
    queue.pop_front();
    return first;
  }
  // A message arrives; to the switch, also what it is the answer to is acknowledged.
  void Hand(uint32_t r, size_t line, const Request& send, const std::vector<uint8_t>& message) {
    ASSERT_FALSE(ends_[r].lines[line].recvs.empty());
    const Request recv = Take(r, line, true);
    ASSERT_LE(message.size(), recv.length);
    std::memcpy(recv.address, message.data(), message.size());
    calls(r).OnComplete(recv.connection, recv.wr_id, static_cast<uint32_t>(message.size()),
                        send.has_imm ? std::optional(send.imm) : std::nullopt);
    if (line == 0) calls(r).OnComplete(GroupCalls::kSwitch, send.wr_id, 0, std::nullopt);
  }

  std::array<End, kSize> ends_;
  std::vector<ControlHeader> controls_;
  Nanos now_ = 0;
};

}  // namespace epic
