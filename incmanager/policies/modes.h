// The modes of a group's switches (EPIC paper, section 4): which a switch offers, which may share a tree, and
// the buffers that the paper asks for. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/modes.h"

namespace epic::manager {

using epic::Mode;

class ModeSet {
 public:
  // Adding what is no mode, as of a later version, does nothing.
  void Add(Mode mode);
  bool Contains(Mode mode) const;

 private:
  uint64_t bits_ = 0;
};

// Why switches of these two modes cannot be in one tree (MayMix); empty if they can. One of them sees to each
// hop and the other leaves it to the hosts, or one of them bears hosts' addresses.
std::string CannotMix(Mode one, Mode other);

// Whether a group's memory may be a block, which others have in between (docs/PROTOCOL-BLOCKS.md). Not of a
// mode whose memory holds what the switch's own connections have under way, calls or not.
bool MayHaveBlocks(Mode mode);

// What a switch's buffers depend on in the paper's formulas.
struct BufferRequest {
  Mode mode = Mode::kUnspecified;
  bool reproducible = false;  // mode I always is
  double rate_gbps = 0;       // B: of the tree's slowest link
  double hop_us = 0;          // L: one way over the slowest of this switch's tree edges
  double path_us = 0;         // (H - 1)L: one way from the root to its farthest host
  uint32_t children = 0;      // D
};

struct PaperBuffer {
  uint64_t bytes = 0;   // rounded up
  std::string formula;  // as "4(H-1)BL"
};

// EPIC paper, appendix F.3.
PaperBuffer BufferOfPaper(const BufferRequest& request);

// The same formula turned round: the rate, in kbit/s, that so many bytes sustain; rate_gbps is not looked at.
// UINT64_MAX of what is no mode, and where there is no delay: then any rate is.
uint64_t RateOfBuffer(const BufferRequest& request, uint64_t bytes);

}  // namespace epic::manager
