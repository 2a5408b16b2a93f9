// Whether this machine knows the host of an address: gRPC says of it only that it cannot connect, after its
// whole time.
#pragma once

#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/status.h"

namespace epic {

// Of HOST:PORT, as ManagerAddress gives it. NOT_FOUND if there is no such host; UNAVAILABLE if whoever knows
// names cannot be asked now, as when a machine has just started, or has not answered within `timeout`. Each
// says so in words. Nothing is asked for an IP address and unix:PATH. To be called when a connection has
// failed: one that there is says all that this does.
inline Status FindHost(const std::string& address, std::chrono::nanoseconds timeout) {
  if (address.starts_with("unix:") || address.starts_with("[")) return absl::OkStatus();
  // The C library's thread asks, which cannot be interrupted: what it reads and writes stays until it ends.
  struct Question {
    std::string host;
    addrinfo hints{};
    gaicb request{};
  };
  auto question = std::make_unique<Question>();
  question->host = address.substr(0, address.rfind(':'));
  question->hints.ai_socktype = SOCK_STREAM;
  question->request.ar_name = question->host.c_str();
  question->request.ar_request = &question->hints;
  const std::string host = question->host;
  gaicb* const request = &question->request;
  gaicb* requests[] = {request};
  const auto unavailable = [&host](const std::string& why) {
    return MakeStatus(StatusCode::kUnavailable, "the host " + host + " cannot be looked up now: " + why);
  };
  if (const int error = getaddrinfo_a(GAI_NOWAIT, requests, 1, nullptr); error != 0)
    return unavailable(gai_strerror(error));
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (auto left = timeout; gai_error(request) == EAI_INPROGRESS && left.count() > 0;
       left = deadline - std::chrono::steady_clock::now()) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec wait{seconds.count(), (left - seconds).count()};
    (void)gai_suspend(requests, 1, &wait);  // also for a signal
  }
  if (gai_cancel(request) == EAI_NOTCANCELED) (void)question.release();
  const int error = gai_error(request);
  if (error == EAI_INPROGRESS || error == EAI_CANCELED) return unavailable("no answer in time");
  if (error == 0) {
    freeaddrinfo(request->ar_result);
    return absl::OkStatus();
  }
  const bool unknown = error == EAI_NONAME || error == EAI_NODATA;
  if (!unknown) return unavailable(gai_strerror(error));
  return MakeStatus(StatusCode::kNotFound, "this machine knows no host " + host);
}

// Of each of a list, as ManagerAddress gives it: all that are not well, in words; the code is the first
// one's. timeout: of all together.
inline Status FindHosts(const std::string& addresses, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  Status wrong;
  for (const std::string& address : AddressesOf(addresses)) {
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) break;  // those behind have not been asked
    const Status host = FindHost(address, left);
    if (host.ok()) continue;
    const std::string before = wrong.ok() ? "" : std::string(wrong.message()) + "; ";
    wrong = MakeStatus(wrong.ok() ? host.code() : wrong.code(), before + std::string(host.message()));
  }
  return wrong;
}

}  // namespace epic
