// The switch of the model: places for sums, and who gets one.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/dsa/config.h"
#include "sim/dsa/network.h"
#include "sim/dsa/packet.h"
#include "sim/dsa/records.h"

namespace epic::sim::dsa {

class Switch {
 public:
  Switch(const JobsConfig& config, Network& network, Records& records);

  // A packet from the link of a worker, or of a server.
  void OnFromWorker(Picos now, const Packet& p);
  void OnFromServer(Picos now, const Packet& p);

  // Places that hold something.
  int64_t taken() const;
  // Whether a place holds something of this index.
  bool Holds(uint32_t job, uint32_t index) const;

 private:
  struct SwitchPlace {
    bool taken = false;
    bool whole = false;  // of ATP: the sum is at the server; of SwitchML: it is the result
    bool marked = false;
    uint16_t job = 0;
    uint32_t index = 0;
    uint32_t bitmap = 0;
    Tally tally = 0;
    uint64_t priority = 0;
    Picos since = 0;
  };

  size_t NumberOf(uint32_t job, uint32_t index) const;
  static bool IsOf(const SwitchPlace& place, const Packet& p) {
    return place.taken && place.job == p.job && place.index == p.index;
  }
  void InRegion(Picos now, const Packet& p);
  void InPool(Picos now, const Packet& p);
  void Repeated(Picos now, const Packet& p);
  void Collide(Picos now, SwitchPlace& place, const Packet& p);
  bool Wins(const SwitchPlace& place, const Packet& p);
  void Claim(Picos now, SwitchPlace& place, const Packet& p);
  // False if the worker's contribution is in it already.
  bool Add(SwitchPlace& place, const Packet& p);
  void Complete(Picos now, SwitchPlace& place);
  // What the place has goes to the server; the place is free.
  void Spill(Picos now, SwitchPlace& place);
  void Free(Picos now, SwitchPlace& place);
  Packet ContentOf(const SwitchPlace& place, Kind kind) const;
  void ToServer(Picos now, const Packet& p) { network_.ToHost(now, network_.ServerHost(p.job), p); }
  void ToWorkers(Picos now, const Packet& p);

  const JobsConfig& config_;
  Network& network_;
  Records& records_;
  uint32_t whole_bitmap_;
  std::vector<SwitchPlace> places_;
  // By job and index, if the rest is sent at once: whose contribution has come. It is what P4 has no room
  // for.
  std::vector<std::vector<uint16_t>> arrived_;
  uint64_t tosses_ = 0;
};

}  // namespace epic::sim::dsa
