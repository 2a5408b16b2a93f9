// A command's call of the manager, or of several, of which one leads.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "base/grpc/channel.h"
#include "base/grpc/host_name.h"
#include "base/grpc/in_turn.h"
#include "base/grpc/standing_by.h"
#include "incmanager/cli/status_words.h"
#include "proto/manager.grpc.pb.h"

namespace epic::manager {

// Above the time in which the manager waits for a switch.
inline constexpr auto kAnswerTimeout = std::chrono::seconds(15);
// To connect, to one alone and to one of several.
inline constexpr auto kConnectTimeout = std::chrono::seconds(5), kConnectOneTimeout = std::chrono::seconds(2);

// The way to the managers of a list, as ManagerAddress gives it.
class ManagerCalls {
 public:
  using Stub = proto::Manager::Stub;

  explicit ManagerCalls(const std::string& managers) : managers_(managers, Arguments()) {}

  // Of the one that leads. UNAVAILABLE only if no manager answers, ABORTED if those that do stand by; both
  // say in words what each has said. Of several who is no manager is named on standard error. A manager that
  // is asked says DEADLINE_EXCEEDED of switches.
  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply) {
    grpc::StatusCode code = grpc::UNAVAILABLE;
    std::string words;
    do {
      bool is_other = false;
      const grpc::Status status = CallOne(method, request, reply, &is_other);
      if (!is_other) {
        managers_.Found();
        return status;
      }
      if (status.error_code() == grpc::ABORTED) code = grpc::ABORTED;
      if (!words.empty()) words += "; ";
      if (managers_.are_many()) words += managers_.address() + ": ";
      words += status.error_message();
    } while (managers_.Next());
    return {code, words};
  }

 private:
  static grpc::ChannelArguments Arguments() {
    grpc::ChannelArguments args;
    // An explanation grows with the square of the number of switches.
    args.SetMaxReceiveMessageSize(-1);
    return args;
  }

  // is_other: set if this one has not done anything of it.
  template <typename Request, typename Reply>
  grpc::Status CallOne(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       const Request& request, Reply* reply, bool* is_other) {
    using std::chrono::system_clock;
    const auto silent = [](std::chrono::seconds time) {
      return grpc::Status(grpc::UNAVAILABLE, fmt::format("no answer within {} s", time.count()));
    };
    const auto timeout = managers_.are_many() ? kConnectOneTimeout : kConnectTimeout;
    const auto connected_by = system_clock::now() + timeout;
    grpc::Channel* const channel = managers_.channel().get();
    *is_other = true;
    if (!AwaitAnswer(channel, connected_by)) return silent(timeout);
    const bool is_connected = channel->GetState(false) == GRPC_CHANNEL_READY;
    if (!is_connected) {
      if (const Status host = FindHost(managers_.address(), LeftUntil(connected_by)); !host.ok())
        return {grpc::UNAVAILABLE, std::string(host.message())};
    }
    grpc::ClientContext context;
    const auto deadline = system_clock::now() + kAnswerTimeout;
    context.set_deadline(deadline);
    const grpc::Status status = (managers_.operator->()->*method)(&context, request, reply);
    if (StandsBy(context)) return {grpc::ABORTED, status.error_message()};
    const auto warn = [](const std::string& line) { fmt::print(stderr, "incmanager: warning: {}\n", line); };
    // Without words it may be the manager, of an earlier version.
    if (!status.error_message().empty() && managers_.IsPassedOver(status, warn))
      return {grpc::UNAVAILABLE, "it is no manager: " + status.error_message()};
    // Of one that breaks off nobody knows whether it has done it.
    *is_other = !is_connected && status.error_code() == grpc::UNAVAILABLE;
    if (status.error_code() == grpc::DEADLINE_EXCEEDED && system_clock::now() >= deadline)
      return silent(kAnswerTimeout);
    return InWords(status);
  }

  InTurn<proto::Manager> managers_;
};

}  // namespace epic::manager
