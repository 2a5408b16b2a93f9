// The way of a rank to its manager.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/grpc/channel.h"
#include "base/grpc/host_name.h"
#include "commlib/session_errors.h"
#include "epic/epic.h"

namespace epic::internal {

// Waits by wait(until), which says whether that was enough, until it is or the deadline has come. If there is
// gives_up, it is asked every now and then: true if it ends the wait.
template <typename Time, typename Wait>
bool GivesUp(const std::function<bool()>& gives_up, Time deadline, const Wait& wait) {
  constexpr std::chrono::milliseconds kSlice(100);
  if (!gives_up) return wait(deadline), false;
  for (;;) {
    const Time until = std::min<Time>(deadline, Time::clock::now() + kSlice);
    if (wait(until) || until == deadline) return false;
    if (gives_up()) return true;
  }
}

inline Error GivenUp() { return {ErrorCode::kAborted, "this rank has given up joining the group"}; }

// Connects to the manager at this address. kManagerUnreachable when the time is over, whatever the resolver
// does; at once if this machine knows no such host. gives_up: as in Options.
inline Error ConnectToManager(const std::string& address, std::chrono::milliseconds timeout,
                              const std::function<bool()>& gives_up,
                              std::shared_ptr<grpc::Channel>* channel) {
  constexpr std::chrono::nanoseconds kLookUpInterrupted = std::chrono::seconds(1);
  const auto deadline = std::chrono::system_clock::now() + timeout;
  grpc::ChannelArguments args;
  PingPeers(&args);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  *channel = ChannelTo(address, args);
  // gRPC would try for the whole time to connect to a host that nobody knows.
  bool answered = false, connected = false;
  if (GivesUp(gives_up, deadline,
              [&](auto until) { return answered = AwaitAnswer(channel->get(), until); }))
    return GivenUp();
  if (answered && (*channel)->GetState(false) != GRPC_CHANNEL_READY) {
    const auto left = LeftUntil(deadline);
    const Status host = FindHost(address, gives_up ? std::min(left, kLookUpInterrupted) : left);
    if (host.code() == StatusCode::kNotFound) return NoManagerThere(address, std::string(host.message()));
  }
  if (GivesUp(gives_up, deadline,
              [&](auto until) { return connected = (*channel)->WaitForConnected(until); }))
    return GivenUp();
  return connected ? Error() : ManagerSilent(address, timeout);
}

}  // namespace epic::internal
