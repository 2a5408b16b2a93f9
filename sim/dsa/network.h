// The star of the model: links with a rate, a delay and losses, and what is due next.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/choices.h"
#include "sim/clock.h"
#include "sim/dsa/config.h"
#include "sim/dsa/packet.h"
#include "sim/dsa/records.h"

namespace epic::sim::dsa {

// Which of a fixed number of sources is due next: of those that are due at one time the lowest.
class Agenda {
 public:
  explicit Agenda(uint32_t sources);
  // kEndOfTime: nothing is due.
  void Set(uint32_t source, Picos time);
  Picos time() const { return times_[winner_[1]]; }
  uint32_t source() const { return winner_[1]; }

 private:
  uint32_t leaves_ = 1;
  std::vector<Picos> times_;
  std::vector<uint32_t> winner_;  // of each node of a tree; 1 is its root
};

// Hosts are numbered: first the workers, job by job, then the servers of the jobs. Sources of the agenda are
// two links of each host, up and down, then a timer of each.
class Network {
 public:
  Network(const JobsConfig& config, Records& records);

  uint32_t WorkerHost(int job, int worker) const {
    return static_cast<uint32_t>(job * config_.workers + worker);
  }
  uint32_t ServerHost(int job) const { return static_cast<uint32_t>(jobs() * config_.workers + job); }
  int jobs() const { return static_cast<int>(config_.jobs.size()); }
  uint32_t hosts() const { return static_cast<uint32_t>(links_.size() / 2); }

  // A packet leaves behind those before it. Returns when it has left.
  Picos FromHost(Picos now, uint32_t host, const Packet& packet) { return Send(now, 2 * host, packet); }
  // The switch marks it where the queue is long.
  Picos ToHost(Picos now, uint32_t host, const Packet& packet) { return Send(now, 2 * host + 1, packet); }
  void SetTimer(uint32_t host, Picos time) { agenda_.Set(2 * hosts() + host, time); }

  struct Due {
    Picos time = 0;
    uint32_t host = 0;
    bool is_timer = false;
    bool is_up = false;  // at the switch; else at the host
    Packet packet;
  };
  // What is due next is taken. Only if next_time() is not kEndOfTime.
  Picos next_time() const { return agenda_.time(); }
  Due TakeNext();

 private:
  struct Link {
    LinkClock clock;
    std::deque<std::pair<Picos, Packet>> under_way;
    uint64_t loss = 0;  // of a million
    Choices losses{0};
  };

  Picos Send(Picos now, uint32_t link, Packet packet);

  const JobsConfig& config_;
  Records& records_;
  int64_t bits_per_second_;
  Picos delay_;
  Picos marked_from_;  // a packet that leaves so much later is marked
  std::vector<Link> links_;
  Agenda agenda_;
};

}  // namespace epic::sim::dsa
