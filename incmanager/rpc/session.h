// One rank's session stream on the manager's side: turns gRPC's callbacks into calls of a SessionSink.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <mutex>

#include "incmanager/groups/group_table.h"
#include "proto/manager.pb.h"

namespace epic::manager {

class SessionReactor;

// Called by gRPC's threads, without any lock held.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  virtual void OnMessage(SessionId id, const proto::ClientMessage& message) = 0;
  // The client ended the stream or is gone.
  virtual void OnClosed(SessionId id) = 0;
  // Last call: the reactor deletes itself when this returns.
  virtual void OnGone(SessionId id) = 0;
};

// Owns itself: lives from the call's start until gRPC's OnDone.
class SessionReactor : public grpc::ServerBidiReactor<proto::ClientMessage, proto::ServerMessage> {
 public:
  // sink outlives the reactor.
  SessionReactor(SessionId id, SessionSink* sink);

  // To be called once, when sink knows the reactor.
  void Start();

  // Queues a message; last: the stream ends when it is written. Ignored when the stream has ended.
  void Send(const proto::ServerMessage& message, bool last);

  // Sends a message without content, unless others are still on their way: the peer's kernel acknowledges it,
  // also for a process that is stopped, or its host is gone and the stream ends.
  void SendSignOfLife();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  void FinishIfIdle();  // with mutex_ held

  const SessionId id_;
  SessionSink* const sink_;
  proto::ClientMessage in_;
  std::mutex mutex_;
  std::deque<proto::ServerMessage> out_;  // the first is being written
  bool ending_ = false;                   // nothing more is to be sent
  bool finished_ = false;
};

}  // namespace epic::manager
