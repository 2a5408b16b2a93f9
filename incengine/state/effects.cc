#include "incengine/state/effects.h"

namespace epic::engine {

const char* Name(DropReason reason) {
  switch (reason) {
    case DropReason::kUnknownQpn:
      return "unknown_qpn";
    case DropReason::kStranger:
      return "stranger";
    case DropReason::kWrongPort:
      return "wrong_port";
    case DropReason::kBadPkey:
      return "bad_pkey";
    case DropReason::kUnexpectedOpcode:
      return "unexpected_opcode";
    case DropReason::kBadLength:
      return "bad_length";
    case DropReason::kBadControl:
      return "bad_control";
    case DropReason::kGap:
      return "gap";
    case DropReason::kAboveWindow:
      return "above_window";
    case DropReason::kDuplicate:
      return "duplicate";
    case DropReason::kTooEarly:
      return "too_early";
    case DropReason::kStaleSlot:
      return "stale_slot";
    case DropReason::kUnexpectedResult:
      return "unexpected_result";
    case DropReason::kAckBeyond:
      return "ack_beyond";
    case DropReason::kGroupFailed:
      return "group_failed";
    case DropReason::kRemoteAccess:
      return "remote_access";
    case DropReason::kCount:
      break;
  }
  return "unknown";
}

}  // namespace epic::engine
