#include "incmanager/policies/modes.h"

#include <fmt/format.h>

#include <cmath>

namespace epic::manager {

const char* Name(Mode mode) {
  switch (mode) {
    case Mode::kTerminated:
      return "I";
    case Mode::kTranslated:
      return "II";
    case Mode::kAugmented:
      return "III";
    case Mode::kUnspecified:
      break;
  }
  return "none";
}

bool IsMode(Mode mode) { return mode >= Mode::kTerminated && mode <= Mode::kAugmented; }

void ModeSet::Add(Mode mode) {
  if (IsMode(mode)) bits_ |= static_cast<uint8_t>(1u << static_cast<unsigned>(mode));
}

bool ModeSet::Contains(Mode mode) const {
  return IsMode(mode) && (bits_ >> static_cast<unsigned>(mode) & 1) != 0;
}

std::string CannotMix(Mode one, Mode other) {
  if (one == other || (one != Mode::kTranslated && other != Mode::kTranslated)) return "";
  const Mode hop_by_hop = one == Mode::kTranslated ? other : one;
  return fmt::format(
      "modes II and {} cannot share a tree: a switch of mode II only reflects acknowledgements between "
      "hosts, "
      "so that it never acknowledges what its neighbour of mode {} sends; mix I and III only, or use II "
      "everywhere",
      Name(hop_by_hop), Name(hop_by_hop));
}

PaperBuffer BufferOfPaper(const BufferRequest& request) {
  const double bytes_per_us = request.rate_gbps * 1e9 / 8 * 1e-6;
  const double hop = bytes_per_us * request.hop_us;    // BL
  const double path = bytes_per_us * request.path_us;  // (H-1)BL
  const double separate = request.children + 1.0;      // D+1
  double bytes = 0;
  std::string formula = "none";
  switch (request.mode) {
    case Mode::kTerminated:
      bytes = separate * 2 * hop;
      formula = "(D+1)*2BL";
      break;
    case Mode::kTranslated:
      bytes = request.reproducible ? 4 * path * separate : 4 * path;
      formula = request.reproducible ? "4(H-1)(D+1)BL" : "4(H-1)BL";
      break;
    case Mode::kAugmented:
      bytes = request.reproducible ? separate * 2 * hop : 4 * hop;
      formula = request.reproducible ? "(D+1)*2BL" : "4BL";
      break;
    case Mode::kUnspecified:
      break;
  }
  return {static_cast<uint64_t>(std::ceil(bytes)), formula};
}

}  // namespace epic::manager
