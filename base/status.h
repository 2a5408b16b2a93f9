// The one place that names absl's status types, so that a change of abseil or compiler touches one file.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace epic {

using absl::Status;
using absl::StatusCode;
using absl::StatusOr;

// absl takes absl::string_view, which in Debian 12 is not std::string_view: build messages as std::string.
inline Status MakeStatus(StatusCode code, const std::string& message) { return Status(code, message); }

}  // namespace epic
