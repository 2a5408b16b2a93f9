// What the manager has said in one session: its messages come in, what they mean for the rank comes out. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/types.h"
#include "commlib/arguments.h"
#include "commlib/verbs/queue_pair.h"
#include "epic/epic.h"
#include "proto/manager.pb.h"

namespace epic::internal {

struct JoinedInfo {
  uint64_t group_id = 0;
  int mode = 0;
  verbs::ConnectInfo connect;
  uint32_t message_packets = 0;  // M
  uint32_t window_messages = 0;  // W
  uint32_t start_messages = 0;   // the send window to begin with, at most W; 0: W, and no other is tried
  uint32_t inline_bytes = 0;     // most data of a call that travel in its control message
  GroupAbilities abilities;      // of its switches
};

class SessionState {
 public:
  // True if the session has failed by this message: by a Failure, or a Joined that no queue pair can be given
  // (kUnsupported, naming the field). Only the first answer to the join counts.
  bool OnMessage(const proto::ServerMessage& message);
  // True if that is news: the first failure stays, and there is none after Left.
  bool Fail(const Error& failure);
  // Whatever breaks from now on is no failure.
  void SetLeft() { left_ = true; }

  const std::optional<JoinedInfo>& joined() const { return joined_; }
  const std::optional<Error>& failure() const { return failure_; }
  bool left() const { return left_; }
  // The switch that the manager wants to be asked for an echo; once.
  std::optional<Ipv4> TakeProbe() { return std::exchange(probe_, std::nullopt); }
  // Which ranks have not come, in words.
  const std::string& waiting() const { return waiting_; }

 private:
  std::optional<JoinedInfo> joined_;
  std::optional<Error> failure_;
  std::optional<Ipv4> probe_;
  std::string waiting_ = "it has said nothing about missing ranks";
  bool left_ = false;
};

}  // namespace epic::internal
