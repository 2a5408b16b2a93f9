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
#include "base/grpc/in_turn.h"
#include "commlib/session_errors.h"
#include "epic/epic.h"
#include "proto/manager.grpc.pb.h"

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

// Of the way to a manager, or to several.
inline grpc::ChannelArguments ManagerArguments(const std::string& managers) {
  grpc::ChannelArguments args;
  AddressesOf(managers).size() > 1 ? PingPeersOfMany(&args) : PingPeers(&args);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return args;
}

// Connects to the first of several that can be reached. Errors as below.
inline Error ConnectToOne(const std::string& addresses, std::chrono::milliseconds timeout,
                          const std::function<bool()>& gives_up, InTurn<proto::Manager>* managers) {
  constexpr std::chrono::milliseconds kLook(50);
  const auto deadline = std::chrono::system_clock::now() + timeout;
  bool connected = false;
  const auto wait = [&](auto until) {
    for (size_t at = 0; !connected; at = (at + 1) % managers->channels().size()) {
      grpc::Channel* const channel = managers->channels()[at].get();
      const grpc_connectivity_state state = channel->GetState(true);
      connected = state == GRPC_CHANNEL_READY;
      if (connected) managers->Choose(at);
      const auto now = std::chrono::system_clock::now();
      if (connected || now >= until) break;
      static_cast<void>(channel->WaitForStateChange(state, std::min<decltype(now)>(until, now + kLook)));
    }
    return connected;
  };
  if (GivesUp(gives_up, deadline, wait)) return GivenUp();
  if (connected) return {};
  std::string silent, unknown;  // of which host there is a machine, and of which not
  const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);  // of all together
  for (const std::string& address : AddressesOf(addresses)) {
    const Status host = FindHost(address, last - std::chrono::steady_clock::now());
    const bool is_unknown = host.code() == StatusCode::kNotFound;
    std::string& list = is_unknown ? unknown : silent;
    list += (list.empty() ? ""
             : is_unknown ? "; "
                          : ",") +
            (is_unknown ? std::string(host.message()) : address);
  }
  if (silent.empty()) return NoManagerThere(addresses, unknown);
  const Error error = ManagerSilent(silent, timeout);
  return unknown.empty() ? error : Error(error.code(), error.message() + "; " + unknown);
}

// Connects to the manager at this address, or to one of several. kManagerUnreachable when the time is over,
// whatever the resolver does; at once if this machine knows no such host. gives_up: as in Options.
inline Error ConnectToManager(const std::string& address, std::chrono::milliseconds timeout,
                              const std::function<bool()>& gives_up, InTurn<proto::Manager>* managers) {
  constexpr std::chrono::nanoseconds kLookUpInterrupted = std::chrono::seconds(1);
  if (managers->are_many()) return ConnectToOne(address, timeout, gives_up, managers);
  const auto deadline = std::chrono::system_clock::now() + timeout;
  grpc::Channel* const channel = managers->channel().get();
  // gRPC would try for the whole time to connect to a host that nobody knows.
  bool answered = false, connected = false;
  if (GivesUp(gives_up, deadline, [&](auto until) { return answered = AwaitAnswer(channel, until); }))
    return GivenUp();
  if (answered && channel->GetState(false) != GRPC_CHANNEL_READY) {
    const auto left = LeftUntil(deadline);
    const Status host = FindHost(address, gives_up ? std::min(left, kLookUpInterrupted) : left);
    if (host.code() == StatusCode::kNotFound) return NoManagerThere(address, std::string(host.message()));
  }
  if (GivesUp(gives_up, deadline, [&](auto until) { return connected = channel->WaitForConnected(until); }))
    return GivenUp();
  return connected ? Error() : ManagerSilent(address, timeout);
}

}  // namespace epic::internal
