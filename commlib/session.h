// A rank's session with the manager: join, be told of failures, leave (proto/manager.proto, service Manager,
// Session). The stream is the rank's lease: when it breaks, the group fails for everybody.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "commlib/calls_info.h"
#include "commlib/core/host_multicast.h"
#include "commlib/core/window_trials.h"
#include "commlib/join_info.h"
#include "commlib/session_state.h"
#include "epic/epic.h"

namespace epic::internal {

// Thread-safe. gRPC's own threads do the work; the failure handler runs on them.
class Session {
 public:
  using FailureHandler = std::function<void(const Error&)>;
  using PeerHandler = std::function<void(const PeerEndInfo&)>;

  // Connects and joins; blocks until all ranks are there or the manager refuses. kManagerUnreachable within
  // 10 s. `joined` is also set if the group came about and failed at once, before this rank had heard of it.
  static Error Join(const std::string& manager, const JoinInfo& info, std::unique_ptr<Session>* session,
                    JoinedInfo* joined);
  // Ends the stream if it is still open; not from the handler. No handler runs afterwards.
  ~Session();

  // Called at most once, when the group has failed or the manager is lost; at once if that has happened
  // already.
  void SetFailureHandler(FailureHandler handler);

  // Called for each thing that another rank says of its end of a connection, in order, also for those said
  // before; one at a time, on a thread of the session's. It may block: what else the manager says is heard.
  void SetPeerHandler(PeerHandler handler);

  // Asked what this rank and the other communicators of its process have called, its own first; on gRPC's
  // threads, one question at a time. Until it is set nothing is answered. It may take locks under which this
  // session is called, but may not wait.
  using CallsHandler = std::function<std::vector<CallsInfo>()>;
  void SetCallsHandler(CallsHandler handler);

  // Tells another rank of this one's end. Does not wait.
  void TellPeer(const PeerEndInfo& end);

  // Tells the manager that this rank gives up; the group fails for all others. Does not wait.
  void Abort(const std::string& reason);
  // Tells the manager that calls differ, and `how`: the group ends with kMismatch for all others. Does not
  // wait.
  void TellMismatch(const std::string& how);

  // Tells the manager that this rank's input has what is not finite, and `how`: the group ends with
  // kNotFinite for all, this rank included. Does not wait.
  void TellNotFinite(const std::string& how);

  // Tells the manager which send window this rank uses, and why. Does not wait.
  void TellWindow(const WindowTrials::Found& found);

  // Tells the manager what has become of this rank's datagrams so far; only one that takes it
  // (MulticastInfo::takes_counts). Does not wait.
  void TellDatagrams(const MulticastCounts& counts);

  // Says that the queue pair is drained, and waits until all ranks have said so: ok, the group's failure, or
  // kTimeout. refused: with what a switch refused a call of this rank, if it leaves for that; then it need
  // not wait for the others, who are told this error if they have not had it themselves when the session
  // ends.
  Error Leave(std::chrono::milliseconds timeout, const Error& refused);

  // As Communicator::Trouble, of the group that was joined.
  Error Trouble(std::vector<TroubleCount>* counts);
  // As Communicator::Waiting, of that group.
  Error Waiting(WaitState* state);

  // Asks the manager whom the group waits for (docs/PROTOCOL-CONTROL.md, section 7.3), as far as it can tell
  // within this time, after which the question is given up. Does not wait; passed over while an earlier
  // question has not been answered.
  void AskWait(std::chrono::milliseconds within);
  // The answer to the last one, in words; empty if there is none yet, or no call was open.
  std::string WaitInWords();

  // Says that nothing more will be said, and waits up to a second until the manager has read it all. One that
  // is away is waited for longer if this rank has said how it ends, up to 10 s (JoinInfo::away_timeout if
  // that is less): the other ranks would wait for this one.
  void Finish();

 private:
  class Stream;
  explicit Session(std::unique_ptr<Stream> stream);
  std::unique_ptr<Stream> stream_;
};

}  // namespace epic::internal
