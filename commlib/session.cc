#include "commlib/session.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "commlib/session_messages.h"
#include "commlib/session_stream.h"
#include "commlib/timeouts.h"
#include "commlib/wait_question.h"

namespace epic::internal {
namespace {

constexpr auto kAskTimeout = std::chrono::seconds(15);
// Beyond the time in which the manager itself must have answered.
constexpr auto kJoinGrace = std::chrono::seconds(2);

}  // namespace

class Session::Stream : public SessionStream {
 public:
  using SessionStream::SessionStream;

  // ask_ranks: as in the request.
  Error Show(bool ask_ranks, proto::GroupState* group) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAskTimeout);
    proto::ShowGroupRequest request;
    request.set_name(group_);
    request.set_ask_ranks(ask_ranks);
    const grpc::Status status = managers_->ShowGroup(&context, request, group);
    return status.ok() ? Error() : GroupUnknown(manager_, status);
  }
};

Error Session::Join(const std::string& manager, const JoinInfo& info, std::unique_ptr<Session>* session,
                    JoinedInfo* joined) {
  std::unique_ptr<Session> result(new Session(std::make_unique<Stream>(manager, info)));
  Stream* stream = result->stream_.get();
  if (Error e = stream->Connect(info.manager_timeout, info.gives_up); !e.ok()) return e;
  std::optional<Clock::time_point> deadline;
  if (info.join_timeout.count() > 0)
    deadline = DeadlineAfter(DeadlineAfter(Clock::now(), info.join_timeout), kJoinGrace);
  if (Error e = stream->WaitJoined(deadline, info.gives_up, joined); !e.ok()) return e;
  *session = std::move(result);
  return {};
}

Session::Session(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

Session::~Session() { stream_->Close(); }

void Session::SetFailureHandler(FailureHandler handler) { stream_->SetFailureHandler(std::move(handler)); }
void Session::SetPeerHandler(PeerHandler handler) { stream_->SetPeerHandler(std::move(handler)); }
void Session::SetCallsHandler(CallsHandler handler) { stream_->SetCallsHandler(std::move(handler)); }

void Session::TellPeer(const PeerEndInfo& end) { stream_->Send(ToProto(end)); }
void Session::Abort(const std::string& reason) { stream_->Send(AbortOf(reason)); }
void Session::TellMismatch(const std::string& how) {
  proto::ClientMessage message = AbortOf(how);
  message.mutable_abort()->set_mismatch(true);
  stream_->Send(std::move(message));
}
void Session::TellNotFinite(const std::string& how) {
  proto::ClientMessage message = AbortOf(how);
  message.mutable_abort()->set_not_finite(true);
  stream_->Send(std::move(message));
}
void Session::TellWindow(const WindowTrials::Found& found) { stream_->Send(ToProto(found)); }
void Session::TellDatagrams(const MulticastCounts& counts) { stream_->Send(ToProto(counts)); }

Error Session::Leave(std::chrono::milliseconds timeout, const Error& refused) {
  stream_->Send(LeaveOf(refused));
  return stream_->WaitLeft(timeout);
}

Error Session::Trouble(std::vector<TroubleCount>* counts) {
  proto::GroupState group;
  if (Error e = stream_->Show(false, &group); !e.ok()) return e;
  *counts = TroubleOf(group);
  return {};
}
Error Session::Waiting(WaitState* state) {
  proto::GroupState group;
  if (Error e = stream_->Show(true, &group); !e.ok()) return e;
  *state = WaitOf(group);
  return {};
}
void Session::AskWait(std::chrono::milliseconds within) { stream_->AskWait(within); }
std::string Session::WaitInWords() { return stream_->WaitInWords(); }
void Session::Finish() { stream_->Finish(); }

}  // namespace epic::internal
