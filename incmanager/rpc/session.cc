#include "incmanager/rpc/session.h"

namespace epic::manager {

SessionReactor::SessionReactor(SessionId id, SessionSink* sink) : id_(id), sink_(sink) {}

void SessionReactor::Start() { StartRead(&in_); }

void SessionReactor::Send(const proto::ServerMessage& message, bool last) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  ending_ = last;
  out_.push_back(message);
  if (out_.size() == 1) StartWrite(&out_.front());
}

void SessionReactor::SendSignOfLife() {
  const std::lock_guard lock(mutex_);
  if (ending_ || !out_.empty()) return;
  out_.emplace_back();
  StartWrite(&out_.front());
}

void SessionReactor::OnReadDone(bool ok) {
  if (ok) {
    sink_->OnMessage(id_, in_);
    const std::lock_guard lock(mutex_);
    if (!finished_) StartRead(&in_);
    return;
  }
  sink_->OnClosed(id_);
  const std::lock_guard lock(mutex_);
  ending_ = true;
  FinishIfIdle();
}

void SessionReactor::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  out_.pop_front();
  if (!ok) {
    out_.clear();
    ending_ = true;
  }
  if (!out_.empty()) return StartWrite(&out_.front());
  FinishIfIdle();
}

void SessionReactor::FinishIfIdle() {
  if (!ending_ || finished_ || !out_.empty()) return;
  finished_ = true;
  Finish(grpc::Status::OK);
}

void SessionReactor::OnDone() {
  sink_->OnGone(id_);
  delete this;
}

}  // namespace epic::manager
