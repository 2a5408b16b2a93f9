// Ranks that compute among themselves, and the connections between them, in memory: messages of a connection
// arrive in order, everything else happens in an order that a seed chooses. What a NIC sends is read when it
// arrives, and acknowledged later. A message for which no receive is posted is a failure.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "commlib/core/host_path.h"

namespace epic {

// A value, but for the callers' buffers.
class HostNetwork {
 public:
  struct Message {
    uint32_t from = 0, to = 0;
    uint32_t imm = 0;
    uint32_t bytes = 0;
    uint8_t* data = nullptr;  // where it was received
  };

  // `algorithms`: of each rank, where they differ.
  HostNetwork(const HostPathConfig& config, uint64_t seed, const std::vector<Algorithm>& algorithms = {})
      : random_(seed) {
    for (uint32_t r = 0; r < config.world_size; ++r) {
      HostPathConfig own = config;
      own.rank = r;
      if (!algorithms.empty()) own.algorithm = algorithms[r];
      ranks_.push_back({.path = HostPath(own)});
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  HostPath& path(uint32_t rank) { return ranks_[rank].path; }
  // Those of its calls that have ended.
  const std::vector<Finished>& finished(uint32_t rank) const { return ranks_[rank].finished; }

  // The rank makes the call at some moment, after those before.
  void Call(uint32_t rank, const HostCall& call) { ranks_[rank].program.push_back(call); }
  // It does nothing in so many steps, or until nothing else happens; its NIC does.
  void Late(uint32_t rank, int64_t steps) { ranks_[rank].late_until = steps_ + steps; }
  // If they do not agree by exchange: it is told that all ranks have made the call.
  void Agree(uint32_t rank, OpId op) {
    ranks_[rank].path.Agreed(op);
    Heard(rank);
  }
  // Told of each message that has arrived, and may change it.
  std::function<void(Message*)> on_message;

  // One event; false if there is none any more.
  bool Step() {
    ++steps_;
    if (actions_.empty()) {
      for (uint32_t r = 0; r < size(); ++r) AddActions(r);
      for (const auto& [ends, link] : links_) AddLinkActions(ends.first, ends.second, link);
      if (actions_.empty()) return WakeLate();
    }
    const Action action = actions_[random_() % actions_.size()];
    actions_.clear();
    (this->*action.what)(action.rank, action.peer);
    return true;
  }

  // Until nothing happens any more, or something is wrong.
  void Run(int64_t most_steps = 4'000'000) {
    for (; Step() && !testing::Test::HasFailure(); --most_steps) {
      if (most_steps == 0) FAIL() << "does not come to rest";
    }
  }

  // As a library does when its path has failed: every request comes back, then the calls end.
  void Drain(uint32_t r) {
    Rank& rank = ranks_[r];
    for (auto& [ends, link] : links_) {
      size_t requests = 0;
      if (ends.second == r) requests += link.recvs.size() + link.arrived.size();
      if (ends.first == r) requests += link.sends.size() + link.unacked.size();
      for (; requests > 0; --requests) rank.path.OnFlushed();
      if (ends.second == r) link.recvs.clear(), link.arrived.clear();
      if (ends.first == r) link.sends.clear(), link.unacked.clear();
    }
    EXPECT_EQ(rank.path.posted(), 0);
    rank.path.OnDrained();
    rank.drained = true;
    TakeFinished(r);
  }

  int64_t steps() const { return steps_; }
  uint64_t messages() const { return messages_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Posted {
    bool is_own = false;
    size_t offset = 0;  // in the rank's own memory
    uint8_t* address = nullptr;
    uint32_t length = 0;
    uint64_t wr_id = 0;
    uint32_t imm = 0;
    std::vector<uint8_t> bytes = {};  // of a send, when it was posted
  };
  struct Arrived {
    uint64_t wr_id = 0;
    uint32_t bytes = 0;
    uint32_t imm = 0;
  };
  // From one rank to another.
  struct Link {
    std::deque<Posted> recvs, sends;
    std::deque<Arrived> arrived;
    std::deque<uint64_t> unacked;
    bool wanted = false;  // by either end
    // The queue pair of the end that sends here: can it, has it posted what it receives with, and has the
    // other end been told?
    bool connected = false, opened = false, told = false;
  };
  struct Rank {
    HostPath path;
    std::deque<HostCall> program = {};
    std::vector<Finished> finished = {};
    int64_t late_until = 0;
    bool quiet = false;  // it has nothing to post until something happens
    bool drained = false;
  };
  struct Action {
    void (HostNetwork::*what)(uint32_t, uint32_t);
    uint32_t rank, peer;
  };

  bool IsHere(uint32_t r) const { return steps_ >= ranks_[r].late_until && !ranks_[r].drained; }
  bool WakeLate() {
    bool any = false;
    for (Rank& rank : ranks_) any |= std::exchange(rank.late_until, 0) > steps_;
    return any;
  }

  void AddActions(uint32_t r) {
    if (!IsHere(r)) return;
    if (!ranks_[r].program.empty()) actions_.push_back({&HostNetwork::Make, r, 0});
    if (!ranks_[r].quiet) actions_.push_back({&HostNetwork::Post, r, 0});
    for (const uint32_t peer : ranks_[r].path.Wanted())
      if (!links_[{r, peer}].wanted) links_[{r, peer}].wanted = links_[{peer, r}].wanted = true;
  }

  void AddLinkActions(uint32_t from, uint32_t to, const Link& link) {
    if (!link.sends.empty()) actions_.push_back({&HostNetwork::Arrive, from, to});
    if (IsHere(from)) {
      if (!link.unacked.empty()) actions_.push_back({&HostNetwork::Acknowledge, from, to});
      if (link.wanted && !link.connected) actions_.push_back({&HostNetwork::Connect, from, to});
    }
    if (IsHere(to)) {
      if (!link.arrived.empty()) actions_.push_back({&HostNetwork::Receive, from, to});
      if (link.opened && !link.told) actions_.push_back({&HostNetwork::Tell, from, to});
    }
  }

  void Make(uint32_t r, uint32_t /*peer*/) {
    Rank& rank = ranks_[r];
    rank.path.Post(rank.program.front());
    rank.program.pop_front();
    Heard(r);
  }
  void Connect(uint32_t r, uint32_t peer) {
    ranks_[r].path.SetConnected(peer);
    links_[{r, peer}].connected = true;
    Heard(r);
  }
  // The end of `from` receives.
  void Tell(uint32_t from, uint32_t to) {
    ranks_[to].path.SetReady(from);
    links_[{from, to}].told = true;
    Heard(to);
  }

  void Post(uint32_t r, uint32_t /*peer*/) {
    Rank& rank = ranks_[r];
    HostPath::Request request;
    if (!rank.path.NextRequest(&request)) {
      rank.quiet = true;
      for (auto& [ends, link] : links_)
        if (ends.first == r && link.connected) link.opened = true;
      return;
    }
    EXPECT_EQ(request.is_recv, (request.wr_id & 1) != 0);
    EXPECT_GT(request.length, 0u);
    const bool is_own = request.where == HostPath::Where::kOwn;
    Posted posted = {.is_own = is_own,
                     .offset = is_own ? Offset(r, request.address) : 0,
                     .address = request.address,
                     .length = request.length,
                     .wr_id = request.wr_id,
                     .imm = request.imm};
    EXPECT_TRUE((links_[{r, request.peer}].connected)) << r << " posts to " << request.peer;
    if (request.is_recv) {
      links_[{request.peer, r}].recvs.push_back(posted);
    } else {
      EXPECT_TRUE((links_[{request.peer, r}].told)) << r << " sends to " << request.peer;
      posted.bytes.assign(request.address, request.address + request.length);
      links_[{r, request.peer}].sends.push_back(posted);
    }
    EXPECT_LE((links_[{r, request.peer}].sends.size()), kHostQueueDepth);
    EXPECT_LE((links_[{request.peer, r}].recvs.size()), kHostQueueDepth);
  }

  size_t Offset(uint32_t r, const uint8_t* address) {
    const auto memory = ranks_[r].path.memory();
    EXPECT_TRUE(address >= memory.data() && address < memory.data() + memory.size());
    return static_cast<size_t>(address - memory.data());
  }
  uint8_t* AddressOf(uint32_t r, const Posted& posted) {
    return posted.is_own ? ranks_[r].path.memory().data() + posted.offset : posted.address;
  }

  void Arrive(uint32_t from, uint32_t to) {
    Link& link = links_[{from, to}];
    const Posted send = link.sends.front();
    link.sends.pop_front();
    if (ranks_[to].drained) return link.unacked.push_back(send.wr_id);  // or never
    if (link.recvs.empty() || link.recvs.front().length < send.length) {
      ADD_FAILURE() << "no receive for a message of " << send.length << " from " << from << " to " << to;
      return;
    }
    const Posted recv = link.recvs.front();
    link.recvs.pop_front();
    uint8_t* const data = AddressOf(to, recv);
    std::memmove(data, AddressOf(from, send), send.length);
    EXPECT_EQ(std::memcmp(data, send.bytes.data(), send.length), 0) << "written before it was sent";
    Message message = {.from = from, .to = to, .imm = send.imm, .bytes = send.length, .data = data};
    if (on_message) on_message(&message);
    link.unacked.push_back(send.wr_id);
    link.arrived.push_back({.wr_id = recv.wr_id, .bytes = message.bytes, .imm = message.imm});
    ++messages_;
    bytes_ += send.length;
  }
  void Acknowledge(uint32_t from, uint32_t to) {
    Link& link = links_[{from, to}];
    ranks_[from].path.OnComplete(to, link.unacked.front(), 0, std::nullopt);
    link.unacked.pop_front();
    Heard(from);
  }
  void Receive(uint32_t from, uint32_t to) {
    Link& link = links_[{from, to}];
    const Arrived arrived = link.arrived.front();
    link.arrived.pop_front();
    ranks_[to].path.OnComplete(from, arrived.wr_id, arrived.bytes, arrived.imm);
    Heard(to);
  }

  void Heard(uint32_t r) {
    ranks_[r].quiet = false;
    TakeFinished(r);
  }
  void TakeFinished(uint32_t r) {
    while (const auto finished = ranks_[r].path.NextFinished()) ranks_[r].finished.push_back(*finished);
  }

  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::map<std::pair<uint32_t, uint32_t>, Link> links_;
  std::vector<Action> actions_;
  int64_t steps_ = 0;
  uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace epic
