// A worker of a job in the model: it computes gradients, sends them within a window, and repeats what stays
// without a result.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "sim/dsa/config.h"
#include "sim/dsa/estimate.h"
#include "sim/dsa/network.h"
#include "sim/dsa/packet.h"
#include "sim/dsa/records.h"

namespace epic::sim::dsa {

// The paper's order of partitions: the first of layer 2, then layer 1, then the other one of layer 2.
constexpr int LayerOf(int partition) { return partition == 1 || partition == 2 ? 1 : 2; }

// Eq. (1) in units of its own. The remaining time is what links and the computation that still has to be done
// take from this index on, so that all workers say the same.
uint64_t PriorityOf(const JobsConfig& config, int job, uint32_t index);

class Worker {
 public:
  // When it may send each partition; ascending.
  using Schedule = std::array<Picos, kPartitions>;
  Worker(const JobsConfig& config, int job, int worker, const Schedule& schedule, Network& network,
         Records& records);

  void OnPacket(Picos now, const Packet& p);
  void OnTimer(Picos now);

  bool done() const { return open_ == 0; }
  // Of a worker that is done: when the job's next epoch could go on, the forward pass included.
  Picos ended() const;
  Picos last_result() const { return last_result_; }
  bool HasResult(uint32_t index) const { return indices_[index].has_result; }

 private:
  struct OfIndex {
    bool has_result = false;
    uint8_t repeats = 0;
    Picos sent = 0;  // first
  };
  struct Waiting {
    Picos since = 0;
    uint32_t index = 0;
  };
  static constexpr int kRepeatsBeforeReminder = 3;

  void OnResult(Picos now, const Packet& p);
  void OnRequest(Picos now, uint32_t index);
  void Check(const Packet& p);
  void Adapt(const Packet& p);
  // Sends what is ready and within the window.
  void SendMore(Picos now);
  void Send(Picos now, uint32_t index, Kind kind, bool repeated);
  void Wait(Picos since, uint32_t index);
  void TimeOut(Picos now, uint32_t index);
  void SetTimer();

  const JobsConfig& config_;
  const uint16_t job_;
  const uint8_t worker_;
  Network& network_;
  Records& records_;
  const uint32_t host_;
  const Schedule schedule_;
  const uint32_t partition_packets_;
  std::vector<OfIndex> indices_;
  int ready_ = 0;           // partitions that may be sent
  uint32_t oldest_ = 0;     // index without a result
  uint32_t next_ = 0;       // to be sent
  uint32_t open_ = 0;       // indices without a result
  uint32_t window_ = 0;     // packets
  uint32_t grown_ = 0;      // results towards the next packet of the window
  uint32_t recovered_ = 0;  // marks below this index have been heeded
  int beyond_ = 0;          // results beyond the oldest open index, since it is that
  std::array<Picos, 2> layer_ended_ = {};
  Picos last_result_ = 0;
  std::deque<Waiting> waiting_;
  Picos timer_ = kEndOfTime;
  Estimate timeout_;
};

}  // namespace epic::sim::dsa
