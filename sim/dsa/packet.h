// What workers, switch and servers send each other in the model of published rules.
#pragma once

#include <cstdint>

namespace epic::sim::dsa {

// How often each worker's contribution is in a sum: four bits for each worker. It goes the way that values
// go, so that a contribution that is added twice, or lost, is seen whatever the bitmaps say.
using Tally = uint64_t;
inline constexpr int kTallyBits = 4;
constexpr Tally TallyOf(int worker) { return Tally{1} << (kTallyBits * worker); }
// Each of so many workers once.
constexpr Tally WholeTally(int workers) {
  Tally tally = 0;
  for (int w = 0; w < workers; ++w) tally += TallyOf(w);
  return tally;
}
constexpr uint32_t WholeBitmap(int workers) { return (uint32_t{1} << workers) - 1; }
constexpr bool HasOverlap(uint32_t a, uint32_t b) { return (a & b) != 0; }

enum class Kind : uint8_t {
  kGradient,  // worker to switch; to the server if it finds no place
  kPart,      // switch to server: what lost its place, or, of ATP, a whole sum
  kResult,    // to all workers
  kRequest,   // server to switch and workers: what have you of this index
  kOriginal,  // worker to server, past the places
  kReminder,  // worker to server: send requests
};

struct Packet {
  Kind kind = Kind::kGradient;
  bool repeated = false;
  bool marked = false;  // it has met a long queue, or is made of what has
  uint8_t worker = 0;   // that has sent it
  uint16_t job = 0;
  uint16_t only = 0;  // a result goes to these workers; 0: to all
  uint32_t index = 0;
  uint32_t bitmap = 0;  // of workers
  Tally tally = 0;
  uint64_t priority = 0;
};

}  // namespace epic::sim::dsa
