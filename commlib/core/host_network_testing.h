// Ranks that compute among themselves, and the connections between them, in memory: messages of a connection
// arrive in order, everything else happens in an order that a seed chooses. What a NIC sends is read when it
// arrives, and acknowledged later. A message for which no receive is posted is a failure.
//
// Datagrams go to every rank, in an order of their own for each, and may be lost or come twice; one for which
// no receive is posted is lost. Completions of different connections come in any order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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

  // Of a thousand datagrams, how many are lost on the way to a rank, and how many come twice.
  struct Faults {
    uint32_t lost = 0, twice = 0;
  };
  void SetFaults(const Faults& faults) { faults_ = faults; }

  // `algorithms`: of each rank, where they differ.
  HostNetwork(const HostPathConfig& config, uint64_t seed, const std::vector<Algorithm>& algorithms = {})
      : random_(seed) {
    for (uint32_t r = 0; r < config.world_size; ++r) {
      HostPathConfig own = config;
      own.rank = r;
      if (!algorithms.empty()) own.algorithm = algorithms[r];
      if (!algorithms.empty() && own.algorithm != Algorithm::kMulticast) own.chunk_bytes = 0;
      ranks_.push_back({.path = HostPath(own)});
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  HostPath& path(uint32_t rank) { return ranks_[rank].path; }
  // Those of its calls that have ended.
  const std::vector<Finished>& finished(uint32_t rank) const { return ranks_[rank].finished; }

  // The rank makes the call at some moment, after those before.
  void Call(uint32_t rank, const HostCall& call) { ranks_[rank].program.push_back(call); }
  // The number that the next call has there, from 1.
  size_t NextCall(uint32_t rank) const {
    return ranks_[rank].finished.size() + ranks_[rank].open + ranks_[rank].program.size() + 1;
  }
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
      for (uint32_t r = 0; r < size(); ++r) AddActions(r), AddNicActions(r);
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
    for (size_t requests = rank.recvs.size() + rank.came.size() + rank.sends.size() + rank.sent.size();
         requests > 0; --requests) {
      rank.path.OnFlushed();
    }
    rank.recvs.clear(), rank.came.clear(), rank.sends.clear(), rank.sent.clear();
    for (auto& [ends, link] : links_) {
      size_t requests = 0;
      if (RankAt(ends.second) == r) requests += link.recvs.size() + link.arrived.size();
      if (RankAt(ends.first) == r) requests += link.sends.size() + link.unacked.size();
      for (; requests > 0; --requests) rank.path.OnFlushed();
      if (RankAt(ends.second) == r) link.recvs.clear(), link.arrived.clear();
      if (RankAt(ends.first) == r) link.sends.clear(), link.unacked.clear();
    }
    EXPECT_EQ(rank.path.posted(), 0);
    rank.path.OnDrained();
    rank.drained = true;
    TakeFinished(r);
  }

  int64_t steps() const { return steps_; }
  uint64_t messages() const { return messages_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t datagrams() const { return datagrams_; }

 private:
  struct Posted {
    bool is_own = false;
    size_t offset = 0;  // in the rank's own memory
    uint8_t* address = nullptr;
    uint32_t length = 0;
    uint64_t wr_id = 0;
    uint32_t imm = 0;
    std::vector<uint8_t> bytes = {};  // of a send, when it was posted; of a Read, when it arrived
    bool is_read = false;
    RemoteMemory remote = {};
  };
  struct Datagram {
    uint32_t from = 0;
    uint32_t imm = 0;
    uint32_t epoch = 0;
    std::vector<uint8_t> bytes;
  };
  struct Came {
    uint64_t wr_id = 0;
    uint32_t from = 0, imm = 0, bytes = 0;
  };
  struct Arrived {
    uint64_t wr_id = 0;
    uint32_t bytes = 0;
    uint32_t imm = 0;
  };
  // From one rank to another, on the connection that both number alike but for the rank.
  struct Link {
    std::deque<Posted> recvs, sends;
    std::deque<Arrived> arrived;
    std::deque<Posted> unacked;
    bool wanted = false;  // by either end
    // The queue pair of the end that sends here: can it, has it posted what it receives with, and has the
    // other end been told?
    bool connected = false, opened = false, told = false;
  };
  struct Rank {
    HostPath path;
    std::deque<HostCall> program = {};
    std::vector<Finished> finished = {};
    size_t open = 0;  // calls made that have not ended
    int64_t late_until = 0;
    // Of datagrams: posted, and completed but not looked at; on the way here.
    std::deque<Posted> recvs = {}, sends = {};
    std::deque<Came> came = {};
    std::deque<uint64_t> sent = {};
    std::deque<Datagram> way = {};
    uint32_t epoch = 0;  // of its Q_Key
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
      if (!LinkFrom(r, peer).wanted) LinkFrom(r, peer).wanted = LinkTo(r, peer).wanted = true;
    if (!ranks_[r].came.empty()) actions_.push_back({&HostNetwork::TakeDatagram, r, 0});
    if (!ranks_[r].sent.empty()) actions_.push_back({&HostNetwork::DatagramSent, r, 0});
  }
  void AddNicActions(uint32_t r) {
    if (!ranks_[r].sends.empty()) actions_.push_back({&HostNetwork::SendDatagram, r, 0});
    if (!ranks_[r].way.empty()) actions_.push_back({&HostNetwork::DatagramArrives, r, 0});
  }

  // The ends of a connection, from a rank that has it by this number and to it.
  static std::pair<uint32_t, uint32_t> EndsOf(uint32_t r, uint32_t connection) {
    return {AtOtherEnd(r, connection), connection};
  }
  Link& LinkFrom(uint32_t r, uint32_t connection) { return links_[EndsOf(r, connection)]; }
  Link& LinkTo(uint32_t r, uint32_t connection) {
    const auto ends = EndsOf(r, connection);
    return links_[{ends.second, ends.first}];
  }

  void AddLinkActions(uint32_t from, uint32_t to, const Link& link) {
    if (!link.sends.empty()) actions_.push_back({&HostNetwork::Arrive, from, to});
    if (IsHere(RankAt(from))) {
      if (!link.unacked.empty()) actions_.push_back({&HostNetwork::Acknowledge, from, to});
      if (link.wanted && !link.connected) actions_.push_back({&HostNetwork::Connect, from, to});
    }
    if (IsHere(RankAt(to))) {
      if (!link.arrived.empty()) actions_.push_back({&HostNetwork::Receive, from, to});
      if (link.opened && !link.told) actions_.push_back({&HostNetwork::Tell, from, to});
    }
  }

  void Make(uint32_t r, uint32_t /*peer*/) {
    Rank& rank = ranks_[r];
    rank.path.Post(rank.program.front());
    rank.program.pop_front();
    ++rank.open;
    Heard(r);
  }
  void Connect(uint32_t from, uint32_t to) {
    ranks_[RankAt(from)].path.SetConnected(to);
    links_[{from, to}].connected = true;
    Heard(RankAt(from));
  }
  // The end of `from` receives.
  void Tell(uint32_t from, uint32_t to) {
    ranks_[RankAt(to)].path.SetReady(from);
    links_[{from, to}].told = true;
    Heard(RankAt(to));
  }

  void Post(uint32_t r, uint32_t /*peer*/) {
    Rank& rank = ranks_[r];
    HostPath::Request request;
    if (!rank.path.NextRequest(&request)) {
      rank.quiet = true;
      for (auto& [ends, link] : links_)
        if (RankAt(ends.first) == r && link.connected) link.opened = true;
      return;
    }
    if (request.verb == HostVerb::kQkey) {
      rank.epoch = request.imm;
      while (!rank.came.empty()) TakeDatagram(r, 0);
      return rank.path.OnQkeySet();
    }
    EXPECT_EQ(request.is_recv, (request.wr_id & 1) != 0);
    EXPECT_TRUE(request.length > 0 || request.verb == HostVerb::kRead);
    const bool is_own = request.where == HostPath::Where::kOwn;
    Posted posted = {.is_own = is_own,
                     .offset = is_own ? Offset(r, request.address) : 0,
                     .address = request.address,
                     .length = request.length,
                     .wr_id = request.wr_id,
                     .imm = request.imm,
                     .is_read = request.verb == HostVerb::kRead,
                     .remote = request.remote};
    if (!request.is_recv && !posted.is_read)
      posted.bytes.assign(request.address, request.address + request.length);
    if (request.peer == kDatagrams) return (request.is_recv ? rank.recvs : rank.sends).push_back(posted);
    Link& from = LinkFrom(r, request.peer);
    Link& to = LinkTo(r, request.peer);
    EXPECT_TRUE(from.connected) << r << " posts to " << request.peer;
    if (!request.is_recv) {
      EXPECT_TRUE(to.told) << r << " sends to " << request.peer;
    }
    (request.is_recv ? to.recvs : from.sends).push_back(posted);
    EXPECT_LE(from.sends.size(), kHostQueueDepth);
    EXPECT_LE(to.recvs.size(), kHostQueueDepth);
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
    Posted send = link.sends.front();
    link.sends.pop_front();
    if (ranks_[RankAt(to)].drained) return link.unacked.push_back(send);  // or never
    if (send.is_read) return ReadArrives(RankAt(to), &link, send);
    if (link.recvs.empty() || link.recvs.front().length < send.length) {
      ADD_FAILURE() << "no receive for a message of " << send.length << " from " << from << " to " << to;
      return;
    }
    const Posted recv = link.recvs.front();
    link.recvs.pop_front();
    uint8_t* const data = AddressOf(RankAt(to), recv);
    std::memmove(data, AddressOf(RankAt(from), send), send.length);
    EXPECT_EQ(std::memcmp(data, send.bytes.data(), send.length), 0) << "written before it was sent";
    Message message = {.from = from, .to = to, .imm = send.imm, .bytes = send.length, .data = data};
    if (on_message) on_message(&message);
    link.unacked.push_back(send);
    link.arrived.push_back({.wr_id = recv.wr_id, .bytes = message.bytes, .imm = message.imm});
    ++messages_;
    bytes_ += send.length;
  }
  // The key is the call's number there, from 1.
  void ReadArrives(uint32_t at, Link* link, Posted read) {
    if (read.length == 0) return link->unacked.push_back(read);
    EXPECT_LT(ranks_[at].finished.size(), read.remote.rkey) << "read from a call that has ended";
    const auto* const begin = reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(read.remote.address));
    read.bytes.assign(begin, begin + read.length);
    link->unacked.push_back(std::move(read));
  }
  void Acknowledge(uint32_t from, uint32_t to) {
    Link& link = links_[{from, to}];
    const Posted send = std::move(link.unacked.front());
    link.unacked.pop_front();
    if (send.is_read && !send.bytes.empty()) std::ranges::copy(send.bytes, AddressOf(RankAt(from), send));
    ranks_[RankAt(from)].path.OnComplete(to, send.wr_id, 0, std::nullopt);
    Heard(RankAt(from));
  }
  void Receive(uint32_t from, uint32_t to) {
    Link& link = links_[{from, to}];
    const Arrived arrived = link.arrived.front();
    link.arrived.pop_front();
    ranks_[RankAt(to)].path.OnComplete(from, arrived.wr_id, arrived.bytes, arrived.imm);
    Heard(RankAt(to));
  }

  bool Chance(uint32_t of_thousand) { return of_thousand > 0 && random_() % 1000 < of_thousand; }
  void SendDatagram(uint32_t r, uint32_t /*peer*/) {
    Rank& rank = ranks_[r];
    const Posted send = std::move(rank.sends.front());
    rank.sends.pop_front();
    ++datagrams_;
    EXPECT_EQ(std::memcmp(AddressOf(r, send), send.bytes.data(), send.length), 0)
        << "written before it was sent";
    for (uint32_t to = 0; to < size(); ++to) {
      for (int copies = Chance(faults_.twice) ? 2 : 1; copies > 0; --copies) {
        if (Chance(faults_.lost)) continue;
        ranks_[to].way.push_back({.from = r, .imm = send.imm, .epoch = rank.epoch, .bytes = send.bytes});
      }
    }
    rank.sent.push_back(send.wr_id);
  }
  void DatagramSent(uint32_t r, uint32_t /*peer*/) {
    ranks_[r].path.OnComplete(kDatagrams, ranks_[r].sent.front(), 0, std::nullopt);
    ranks_[r].sent.pop_front();
    Heard(r);
  }
  void DatagramArrives(uint32_t r, uint32_t /*peer*/) {
    Rank& rank = ranks_[r];
    const auto at = rank.way.begin() + static_cast<std::ptrdiff_t>(random_() % rank.way.size());
    const Datagram datagram = std::move(*at);
    rank.way.erase(at);
    if (rank.drained || rank.recvs.empty() || datagram.epoch != rank.epoch) return;
    const Posted recv = rank.recvs.front();
    rank.recvs.pop_front();
    std::ranges::copy(datagram.bytes, AddressOf(r, recv) + kGrhBytes);
    rank.came.push_back({.wr_id = recv.wr_id,
                         .from = datagram.from,
                         .imm = datagram.imm,
                         .bytes = static_cast<uint32_t>(datagram.bytes.size())});
  }
  void TakeDatagram(uint32_t r, uint32_t /*peer*/) {
    const Came came = ranks_[r].came.front();
    ranks_[r].came.pop_front();
    ranks_[r].path.OnDatagram(came.wr_id, came.from, came.bytes, came.imm);
    Heard(r);
  }

  void Heard(uint32_t r) {
    ranks_[r].quiet = false;
    TakeFinished(r);
  }
  void TakeFinished(uint32_t r) {
    while (const auto finished = ranks_[r].path.NextFinished()) {
      ranks_[r].finished.push_back(*finished);
      --ranks_[r].open;
    }
  }

  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::map<std::pair<uint32_t, uint32_t>, Link> links_;
  std::vector<Action> actions_;
  int64_t steps_ = 0;
  uint64_t messages_ = 0, bytes_ = 0, datagrams_ = 0;
  Faults faults_;
};

}  // namespace epic
