#include "incmanager/cli/status_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace epic::manager {
namespace {

// Of a connection that was there.
constexpr std::array<std::string_view, 3> kBroken = {"Broken pipe", "Socket closed",
                                                     "Connection reset by peer"};
// Behind the manager's own "the agent of leaf1 at 192.0.2.11:7401 does not answer: ".
constexpr std::string_view kLate = "Deadline Exceeded";

}  // namespace

grpc::Status InWords(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::UNAVAILABLE: {
      const std::string& text = status.error_message();
      if (text.ends_with("Connection refused"))
        return {grpc::UNAVAILABLE, "nothing listens there (connection refused)"};
      if (std::ranges::any_of(kBroken, [&text](std::string_view end) { return text.ends_with(end); }))
        return {grpc::UNAVAILABLE, fmt::format("it has ended, or the connection has broken ({})", text)};
      return status;
    }
    case grpc::CANCELLED:
      return {grpc::UNAVAILABLE, "it has ended while it was asked"};
    case grpc::FAILED_PRECONDITION: {
      const std::string& text = status.error_message();
      if (!text.ends_with(kLate)) return status;
      return {status.error_code(), text.substr(0, text.size() - kLate.size()) +
                                       "it is stopped, or nothing passes between it and the manager"};
    }
    default:
      return status;
  }
}

}  // namespace epic::manager
