// The way of a rank to its manager.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/grpc/channel.h"
#include "base/grpc/host_name.h"
#include "base/grpc/in_turn.h"
#include "commlib/log.h"
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

// For what stands in the way no longer is asked, when the time is over.
inline constexpr std::chrono::milliseconds kAskFor(100);

// Why there is no connection to an address whose host there is, by what the last attempt has met; whoever is
// silent is waited for so long once more.
inline std::string WhyUnreached(const std::string& address, const std::shared_ptr<grpc::Channel>& channel,
                                std::chrono::nanoseconds within) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(within));
  proto::ShowGroupRequest request;
  proto::GroupState reply;
  const grpc::Status status = proto::Manager::NewStub(channel)->ShowGroup(&context, request, &reply);
  const std::string& text = status.error_message();
  const bool is_local = address.starts_with("unix:");
  const std::string running = fmt::format("is {} running there?", is_local ? "inchost" : "incmanager");
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    if (text.ends_with(std::strerror(ECONNREFUSED)))
      return "nothing listens there (connection refused): " + running;
    if (text.ends_with(std::strerror(ENOENT))) return "there is no such socket: " + running;
    for (const int error : {EHOSTUNREACH, ENETUNREACH, ENETDOWN, EACCES, EPERM}) {
      const std::string words = std::strerror(error);
      if (text.ends_with(words)) return "its host is not reached (" + words + ")";
    }
  }
  // Whatever else it says is somebody's answer.
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE &&
      status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED)
    return "it answers only now, when the time is over";
  return "nobody answers there: is the address right, and does a firewall drop what is sent to it?";
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
  std::string known, words;  // of which host there is a machine, and what is to be said of each
  for (size_t at = 0; at < managers->channels().size(); ++at) {
    const std::string address = AddressesOf(addresses)[at];
    // Each for itself: one that is silent must not leave the others without.
    const Status host = FindHost(address, kAskFor);
    const bool is_unknown = host.code() == StatusCode::kNotFound;
    const std::string why = host.ok()
                                ? address + ": " + WhyUnreached(address, managers->channels()[at], kAskFor)
                                : std::string(host.message());
    words += (words.empty() ? "" : "; ") + why;
    if (!is_unknown) known += (known.empty() ? "" : ",") + address;
  }
  return known.empty() ? NoManagerThere(addresses, words) : ManagerUnreached(known, timeout, words);
}

// Connects to the manager at this address, or to one of several. kManagerUnreachable when the time is over,
// whatever the resolver does, and with what stands in the way; at once if this machine knows no such host.
// Whoever waits for a moment is told so: the manager may just be starting. gives_up: as in Options.
inline Error ConnectToManager(const std::string& address, std::chrono::milliseconds timeout,
                              const std::function<bool()>& gives_up, InTurn<proto::Manager>* managers) {
  constexpr std::chrono::nanoseconds kLookUpInterrupted = std::chrono::seconds(1);
  // A manager that is started with its ranks is there by then, and so is an answer to a first packet that got
  // lost.
  constexpr std::chrono::seconds kTellRefused(1), kTellSilent(3);
  if (managers->are_many()) return ConnectToOne(address, timeout, gives_up, managers);
  const auto start = std::chrono::system_clock::now(), deadline = start + timeout;
  const std::shared_ptr<grpc::Channel> channel = managers->channel();
  const auto why = [&] {
    const Status host = FindHost(address, kAskFor);
    return host.ok() ? WhyUnreached(address, channel, kAskFor) : std::string(host.message());
  };
  bool answered = false, connected = false, told = false;
  const auto tell = [&] {
    if (!std::exchange(told, true))
      Log(LogLevel::kWarn, "waits for the manager at {} (Options::manager, EPIC_MANAGER): {}", address,
          why());
  };
  const auto answer = [&](auto until) { return answered = AwaitAnswer(channel.get(), until); };
  const auto connection = [&](auto until) { return connected = channel->WaitForConnected(until); };
  for (const auto until : {std::min<decltype(deadline)>(deadline, start + kTellSilent), deadline}) {
    if (answered) break;
    if (until > start + kTellSilent) tell();
    if (GivesUp(gives_up, until, answer)) return GivenUp();
  }
  // gRPC would try for the whole time to connect to a host that nobody knows.
  if (answered && channel->GetState(false) != GRPC_CHANNEL_READY) {
    const auto left = LeftUntil(deadline);
    const Status host = FindHost(address, gives_up ? std::min(left, kLookUpInterrupted) : left);
    if (host.code() == StatusCode::kNotFound) return NoManagerThere(address, std::string(host.message()));
  }
  for (const auto until : {std::min<decltype(deadline)>(deadline, start + kTellRefused), deadline}) {
    if (connected) break;
    if (until > start + kTellRefused) tell();
    if (GivesUp(gives_up, until, connection)) return GivenUp();
  }
  return connected ? Error() : ManagerUnreached(address, timeout, why());
}

}  // namespace epic::internal
