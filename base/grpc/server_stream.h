// A stream of messages both ways on its server's side: turns gRPC's callbacks into calls of a sink. Header
// only: folders that know no gRPC pay nothing for it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <mutex>

namespace epic {

// Owns itself: lives from the call's start until gRPC's OnDone. Thread-safe.
template <typename In, typename Out>
class ServerStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  // Called by gRPC's threads, without any lock held.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnMessage(uint64_t id, const In& message) = 0;
    // The client ended the stream or is gone.
    virtual void OnClosed(uint64_t id) = 0;
    // Last call: the stream deletes itself when this returns.
    virtual void OnGone(uint64_t id) = 0;
  };

  // sink outlives the stream.
  ServerStream(uint64_t id, Sink* sink) : id_(id), sink_(sink) {}

  // To be called once, when sink knows the stream.
  void Start() { this->StartRead(&in_); }

  // Queues a message; last: the stream ends when it is written. Ignored when the stream has ended.
  void Send(const Out& message, bool last) {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    ending_ = last;
    out_.push_back(message);
    if (out_.size() == 1) this->StartWrite(&out_.front());
  }

  // Ends the stream with this status when what is queued has been written.
  void End(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    ending_ = true;
    status_ = status;
    FinishIfIdle();
  }

  // Sends a message without content, unless others are still on their way: the peer's kernel acknowledges it,
  // also for a process that is stopped, or its host is gone and the stream ends.
  void SendSignOfLife() {
    const std::lock_guard lock(mutex_);
    if (ending_ || !out_.empty()) return;
    out_.emplace_back();
    this->StartWrite(&out_.front());
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      sink_->OnMessage(id_, in_);
      {
        const std::lock_guard lock(mutex_);
        if (!finished_) return this->StartRead(&in_);
      }
      // The stream has ended while this message was taken: no read is left that would say so.
      return sink_->OnClosed(id_);
    }
    sink_->OnClosed(id_);
    const std::lock_guard lock(mutex_);
    ending_ = true;
    FinishIfIdle();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    out_.pop_front();
    if (!ok) {
      out_.clear();
      ending_ = true;
    }
    if (!out_.empty()) return this->StartWrite(&out_.front());
    FinishIfIdle();
  }

  void OnDone() override {
    sink_->OnGone(id_);
    delete this;
  }

 private:
  void FinishIfIdle() {  // with mutex_ held
    if (!ending_ || finished_ || !out_.empty()) return;
    finished_ = true;
    this->Finish(status_);
  }

  const uint64_t id_;
  Sink* const sink_;
  In in_;
  std::mutex mutex_;
  std::deque<Out> out_;  // the first is being written
  grpc::Status status_;
  bool ending_ = false;  // nothing more is to be sent
  bool finished_ = false;
};

}  // namespace epic
