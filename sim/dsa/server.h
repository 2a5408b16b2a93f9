// The server of a job in the model: it adds what finds no place in the switch, and reminds those who have the
// rest.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/dsa/config.h"
#include "sim/dsa/estimate.h"
#include "sim/dsa/network.h"
#include "sim/dsa/packet.h"
#include "sim/dsa/records.h"

namespace epic::sim::dsa {

class Server {
 public:
  Server(const JobsConfig& config, int job, Network& network, Records& records);

  void OnPacket(Picos now, const Packet& p);
  void OnTimer(Picos now);

  // Whether it has a part of this index.
  bool Has(uint32_t index) const { return entries_[index].is_there; }

 private:
  struct Entry {
    bool is_there = false;
    bool whole = false;  // of ATP, whose server keeps results for those who have lost them
    bool marked = false;
    bool reminded = false;
    uint32_t bitmap = 0;
    Tally tally = 0;
    Picos made = 0;   // when it was set up
    Picos since = 0;  // from then on its timeout runs
  };
  struct Waiting {
    Picos since = 0;
    uint32_t index = 0;
  };

  Entry& EntryOf(Picos now, uint32_t index);
  void Add(Entry& entry, const Packet& p);
  void Finish(Picos now, uint32_t index);
  // To these workers; 0: to all.
  void SendResult(Picos now, uint32_t index, uint32_t only);
  void Remind(Picos now, uint32_t index);
  void StartTimer();

  const JobsConfig& config_;
  const int job_;
  Network& network_;
  Records& records_;
  std::vector<Entry> entries_;  // by index
  std::deque<Waiting> waiting_;
  bool timer_runs_ = false;
  Estimate timeout_;
};

}  // namespace epic::sim::dsa
