// One stream of a rank to its manager. When it has broken the session may begin another one; this object
// stays until its owner has seen it done.
#pragma once

#include <grpcpp/grpcpp.h>

#include <utility>

#include "proto/manager.grpc.pb.h"

namespace epic::internal {

class ManagerCall : public grpc::ClientBidiReactor<proto::ClientMessage, proto::ServerMessage> {
 public:
  // Called on gRPC's threads, without a lock.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnRead(ManagerCall* call, bool ok) = 0;
    virtual void OnWritten(ManagerCall* call, bool ok) = 0;
    // The last; the owner may give the call free when this has returned.
    virtual void OnOver(ManagerCall* call, const grpc::Status& status) = 0;
  };

  // waits: until the manager can be reached, however long that takes.
  ManagerCall(Owner* owner, proto::Manager::Stub* stub, bool waits) : owner_(owner) {
    context.set_wait_for_ready(waits);
    stub->async()->Session(&context, this);
    AddHold();
    StartRead(&in);
  }

  // The hold keeps the call open for writes from any thread. Once it is given up gRPC may give its own part of
  // the call free: no write begins afterwards. Both with the owner's lock.
  void GiveUpHold() {
    if (std::exchange(held_, false)) RemoveHold();
  }
  bool held() const { return held_; }

  // Nothing more will be written; once is enough. With the owner's lock.
  void EndWrites() {
    if (!std::exchange(ended_, true)) StartWritesDone();
  }

  void OnReadDone(bool ok) override { owner_->OnRead(this, ok); }
  void OnWriteDone(bool ok) override { owner_->OnWritten(this, ok); }
  void OnDone(const grpc::Status& status) override { owner_->OnOver(this, status); }

  grpc::ClientContext context;
  proto::ServerMessage in;
  bool heard = false;  // something was said in it; of the owner's, like the next
  bool over = false;

 private:
  Owner* const owner_;
  bool held_ = true, ended_ = false;
};

}  // namespace epic::internal
