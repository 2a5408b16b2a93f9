// What a rank has said in its session that counts until its group ends: it is said again to a manager that
// has been away, since nobody knows whether it was taken. Pure; not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "proto/manager.pb.h"

namespace epic::internal {

class Unsaid {
 public:
  // Whatever the rank says.
  void OnSaid(const proto::ClientMessage& message) {
    switch (message.kind_case()) {
      case proto::ClientMessage::kPeer:
        ends_.push_back(message);
        return;
      case proto::ClientMessage::kWindow:
        window_ = message;
        return;
      case proto::ClientMessage::kDatagrams:
        datagrams_ = message;
        return;
      case proto::ClientMessage::kLeave:
      case proto::ClientMessage::kAbort:
        last_.push_back(message);
        return;
      default:
        return;
    }
  }
  // Whether it has said how it ends: that it leaves, or aborts.
  bool has_end() const { return !last_.empty(); }
  // In the order in which a manager is to hear it: connections first, the end last.
  std::vector<proto::ClientMessage> Again() const {
    std::vector<proto::ClientMessage> messages = ends_;
    if (window_) messages.push_back(*window_);
    if (datagrams_) messages.push_back(*datagrams_);
    messages.insert(messages.end(), last_.begin(), last_.end());
    return messages;
  }

 private:
  std::vector<proto::ClientMessage> ends_, last_;           // in their order; there are few
  std::optional<proto::ClientMessage> window_, datagrams_;  // what counts is the last
};

}  // namespace epic::internal
