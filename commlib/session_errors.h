// What a rank is told where there is no session with the manager.
#pragma once

#include <fmt/format.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <string>

#include "epic/epic.h"

namespace epic::internal {

// why: this machine does not know the host.
inline Error NoManagerThere(const std::string& address, const std::string& why) {
  return {ErrorCode::kManagerUnreachable,
          fmt::format("cannot reach the manager at {} (Options::manager, EPIC_MANAGER): {}", address, why)};
}

// why: of each address.
inline Error ManagerUnreached(const std::string& address, std::chrono::milliseconds timeout,
                              const std::string& why) {
  return {ErrorCode::kManagerUnreachable,
          fmt::format("cannot reach the manager at {} within {:g} s (Options::manager, EPIC_MANAGER): {}",
                      address, static_cast<double>(timeout.count()) / 1000, why)};
}

// who: what it says of itself; empty if nothing.
inline Error NoManager(const std::string& address, const std::string& who) {
  return {ErrorCode::kManagerUnreachable,
          fmt::format("what answers at {} is no manager (Options::manager, EPIC_MANAGER){}{}", address,
                      who.empty() ? "" : ": ", who)};
}

inline std::string WhoIsAt(const std::string& address) {
  return fmt::format("{} at {}", address.starts_with("unix:") ? "this host's inchost" : "the manager",
                     address);
}

inline Error SessionBroke(const std::string& address) {
  return {ErrorCode::kManagerLost, fmt::format("the session with {} broke", WhoIsAt(address))};
}

// stands_by: what it says that stands by; empty if none does.
inline Error ManagerAway(const std::string& address, std::chrono::milliseconds time,
                         const std::string& stands_by) {
  return {ErrorCode::kManagerLost,
          fmt::format("{} has been away for {:g} s (EPIC_MANAGER_AWAY){}{}", WhoIsAt(address),
                      static_cast<double>(time.count()) / 1000, stands_by.empty() ? "" : "; ", stands_by)};
}

// why: the manager's words.
inline Error NotTakenBack(const std::string& address, const std::string& why) {
  return {ErrorCode::kManagerLost,
          fmt::format("the manager at {} was away and does not take this rank back: {}", address, why)};
}

// A session that ended before anything was said to us.
inline Error NothingHeard(const std::string& address, const grpc::Status& status) {
  const bool no_manager = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  return no_manager ? NoManager(address, status.error_message()) : SessionBroke(address);
}

// Of a question for a group's trouble, or whom it waits for.
inline Error GroupUnknown(const std::string& address, const grpc::Status& status) {
  const bool late = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return {late ? ErrorCode::kTimeout : ErrorCode::kManagerUnreachable,
          fmt::format("the manager at {} does not say what the switches have counted: {}", address,
                      status.error_message())};
}

}  // namespace epic::internal
