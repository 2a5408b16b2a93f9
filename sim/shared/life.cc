#include "sim/shared/life.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/shared/translate.h"

namespace epic::sim {
namespace {

// The numbers of queue pairs at switches are the table's, those at hosts the world's: of blocks of their own.
constexpr int kBlockOfTable = static_cast<int>(manager::QpnPool::kFirstQpn / kGroupQpns);
static_assert((manager::QpnPool::kFirstQpn + manager::QpnPool::kQpnsPerSwitch - 1) / kGroupQpns ==
              kBlockOfTable);

int BlockOfLife(int number) { return number < kBlockOfTable ? number : number + 1; }

// All that ranks of one group are told alike.
bool Alike(const manager::JoinedReply& a, const manager::JoinedReply& b) {
  return a.group_id == b.group_id && a.generation == b.generation && a.mode == b.mode && a.path == b.path &&
         a.path_mtu == b.path_mtu && a.message_packets == b.message_packets &&
         a.window_messages == b.window_messages && a.inline_bytes == b.inline_bytes &&
         a.start_messages == b.start_messages && a.abilities == b.abilities &&
         a.hosts_reach == b.hosts_reach && a.asks == b.asks;
}

}  // namespace

Life::Life(const Surroundings& place, const Job& job, int number, manager::SessionId first)
    : place_(place),
      job_(job),
      number_(number),
      first_(first),
      ranks_(job.rank_host.size()),
      open_(job.rank_host.size()),
      aborts_(place.shape.choices.Below(16) == 0) {}

Nanos Life::Soon() {
  return place_.world.now() + 1 +
         static_cast<Nanos>(place_.shape.choices.Below(static_cast<uint64_t>(place_.shape.spread)));
}

void Life::Complain(const std::string& what) {
  if (wrong_.empty()) wrong_ = fmt::format("{}, life {}: {}\n", job_.spec.name, number_, what);
}

manager::JoinRequest Life::JoinOf(int rank) const {
  const int node = place_.world.node_of_host(job_.rank_host[static_cast<size_t>(rank)]);
  manager::JoinRequest join{.group = job_.spec.name,
                            .rank = static_cast<uint32_t>(rank),
                            .world_size = job_.spec.world_size,
                            .ip = AddressOf(node),
                            .qpn = Raw(place_.world.QpnOfRank(rank, BlockOfLife(number_))),
                            .max_path_mtu = 4096,
                            .host_name = fmt::format("host{}", node),
                            .pid = rank,
                            .super_frames = place_.world.TakesSuperFrames(node, 0)};
  if (job_.reserved) return join;
  join.mode = job_.spec.mode;
  join.path = job_.spec.path;
  join.max_bytes = job_.spec.max_bytes;
  join.needs = job_.spec.needs;
  return join;
}

void Life::Begin() {
  last_start_ = place_.world.now();
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.join = JoinOf(r);
    const int host = job_.rank_host[static_cast<size_t>(r)];
    place_.world.At(std::max(Soon(), place_.world.host_up_at(host)), [this, r] {
      if (ranks_[static_cast<size_t>(r)].at == At::kGone) return;
      place_.manager.Say(SessionOf(r), ranks_[static_cast<size_t>(r)].join);
    });
  }
}

void Life::OnSent(int rank, const manager::SessionEvent& event) {
  const auto* reply = std::get_if<manager::JoinedReply>(&event);
  if (reply == nullptr) return;
  ranks_[static_cast<size_t>(rank)].reply = *reply;
  if (++told_ == ranks_.size()) Make();
}

// The table has told all ranks: they have their queue pairs from here on, and know of it later.
void Life::Make() {
  const manager::JoinedReply& first = *ranks_[0].reply;
  PlannedGroup planned{.id = first.group_id,
                       .qpns = BlockOfLife(number_),
                       .asks = first.asks,
                       .rank_host = job_.rank_host,
                       .ends = {}};
  for (const Rank& rank : ranks_) {
    if (!Alike(first, *rank.reply)) Complain("its ranks have been told different things");
    planned.ends.push_back(EndOf(rank.join, *rank.reply));
  }
  group_ = place_.world.AddRanks(planned);
  const std::optional<HostsWay> way = WayOf(first);
  MakeCalls(first, /*any=*/way.has_value());
  made_.emplace(place_.world, group_, way, place_.shape.choices, [this](int rank, int to, bool ready) {
    manager::PeerEnd end{
        .rank = static_cast<uint32_t>(to), .qpn = 1 + static_cast<uint32_t>(to), .ready = ready};
    place_.manager.Say(SessionOf(rank), end);
  });
  // Those of hosts that are gone meanwhile.
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    if (ranks_[static_cast<size_t>(r)].at == At::kGone) place_.world.EndRank(r, group_);
  }
}

// any: what switches lack goes between the hosts; else ranks make no such call.
void Life::MakeCalls(const manager::JoinedReply& reply, bool any) {
  Choices& choices = place_.shape.choices;
  const auto ranks = static_cast<int>(ranks_.size());
  while (static_cast<int>(calls_.size()) < place_.shape.calls) {
    ControlHeader header = RandomHeader(choices, ranks, place_.shape.max_count);
    if (place_.scenario.types == "all") ChooseType(choices, &header);
    if (!any && !CanServe(reply.abilities, header)) continue;
    calls_.emplace_back(header, ranks, number_ * kMaxCalls + static_cast<int>(calls_.size()));
  }
}

std::optional<HostsWay> Life::WayOf(const manager::JoinedReply& reply) {
  const bool all = reply.path == manager::Path::kHosts;
  if (!all && !reply.hosts_reach) return std::nullopt;
  Scenario by_hosts = place_.scenario;
  by_hosts.path = "hosts";
  by_hosts.algorithm = "first";  // the manager's tables know of no multicast here
  std::optional<HostsWay> way = ChooseWay(by_hosts, place_.shape.config, place_.shape.choices);
  way->path.agrees_by_exchange = all;
  way->abilities = reply.abilities;
  return way;
}

void Life::OnEvent(int rank, const manager::SessionEvent& event) {
  if (ranks_[static_cast<size_t>(rank)].at == At::kGone) return;
  if (std::holds_alternative<manager::JoinedReply>(event)) return OnJoined(rank);
  if (const auto* failure = std::get_if<manager::Failure>(&event)) return OnFailure(rank, *failure);
  if (std::holds_alternative<manager::LeftNote>(event)) {
    if (ranks_[static_cast<size_t>(rank)].at != At::kLeaving) Complain("a rank is told that it has left");
    return End(rank);
  }
  if (const auto* end = std::get_if<manager::PeerEnd>(&event))
    made_->OnPeerEnd(rank, static_cast<int>(end->rank), end->ready);
}

void Life::OnJoined(int rank) {
  World& world = place_.world;
  Rank& joined = ranks_[static_cast<size_t>(rank)];
  joined.at = At::kRunning;
  const uint32_t begin_with = joined.reply->start_messages;
  if (begin_with > 0) {
    world.host(rank, group_).SetSendWindow(begin_with);
    if (place_.shape.changes_windows) ChangeWindows(rank, joined.reply->window_messages);
  }
  const Nanos last = StartCalls(
      world, group_, rank, calls_, world.now(), place_.shape.spread, [this, rank](CollectiveCall& call) {
        place_.trace.Started(place_.world.now(), group_, rank, call.number() % kMaxCalls, call.header());
        made_->Start(rank, call);
      });
  last_start_ = std::max(last_start_, last);
  if (!aborts_ || rank != 0) return;
  world.At(Soon(), [this] {
    if (ranks_[0].at != At::kRunning) return;
    hit_ = true;
    place_.manager.Say(SessionOf(0), Aborts{"it has had enough"});
  });
}

void Life::ChangeWindows(int rank, uint32_t most) {
  const auto messages = static_cast<uint32_t>(1 + place_.shape.choices.Below(most));
  place_.world.At(Soon(), [this, rank, messages] {
    Host& host = place_.world.host(rank, group_);
    if (host.alive()) host.SetSendWindow(messages);
  });
}

void Life::OnFailure(int rank, const manager::Failure& failure) {
  Rank& of = ranks_[static_cast<size_t>(rank)];
  // Refused, before it is a group; a group that has failed before this rank has heard of it has its reason.
  const bool refused = of.at == At::kJoining && group_ < 0;
  if (refused) {
    refused_ = failure.message;
    if (failure.code == manager::ErrorCode::kInvalidArgument) Complain("refused: " + failure.message);
    return End(rank);
  }
  hit_ = hit_ || place_.manager.Explains(failure);
  if (!hit_) Complain("its group failed: " + failure.message);
  if (of.at == At::kJoining) return End(rank);
  of.at = At::kAborting;
  place_.world.AbortRank(rank, group_);
}

void Life::OnHostKilled(int host) {
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    if (job_.rank_host[static_cast<size_t>(r)] != host || rank.at == At::kGone) continue;
    rank.at = At::kGone;
    --open_;
    hit_ = true;
    place_.manager.Miss(SessionOf(r));
  }
}

// The rank's process ends, and its session with it.
void Life::End(int rank) {
  Rank& of = ranks_[static_cast<size_t>(rank)];
  if (of.at == At::kGone) return;
  of.at = At::kGone;
  --open_;
  if (group_ >= 0) place_.world.EndRank(rank, group_);
  place_.manager.Say(SessionOf(rank), Ends{});
}

// All calls that the rank has made.
bool Life::HasEnded(int rank) {
  int& ended = ranks_[static_cast<size_t>(rank)].ended;
  const auto calls = static_cast<int>(made_->calls(rank));
  for (; ended < calls && made_->state(rank, ended) != CallState::kRunning; ++ended)
    place_.trace.Ended(place_.world.now(), group_, rank, ended,
                       made_->state(rank, ended) == CallState::kDone ? "done" : "failed");
  return ended == calls;
}

void Life::Settle() {
  if (group_ < 0) return;
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    if (rank.at != At::kRunning && rank.at != At::kAborting) continue;
    if (!HasEnded(r)) continue;
    if (rank.at == At::kAborting) {
      End(r);
      continue;
    }
    if (rank.ended < static_cast<int>(calls_.size())) continue;
    rank.at = At::kLeaving;
    last_start_ = std::max(last_start_, place_.world.now());
    place_.world.At(Soon(), [this, r] {
      if (ranks_[static_cast<size_t>(r)].at != At::kLeaving) return;
      place_.manager.Say(SessionOf(r), Leaves{});
    });
  }
}

std::string Life::WrongCall(int rank, int call) const {
  const CollectiveCall& of = calls_[static_cast<size_t>(call)];
  const CallState state = made_->state(rank, call);
  if (state == CallState::kDone) {
    const size_t wrong = of.Wrong(rank);
    return wrong == 0 ? "" : fmt::format("rank {} has {} wrong elements", rank, wrong);
  }
  const bool may_abort =
      hit_ && (state == CallState::kRunning || made_->outcome(rank, call) == epic::Outcome::kAborted);
  return may_abort ? "" : fmt::format("rank {} got an error", rank);
}

std::string Life::Wrong() const {
  if (!wrong_.empty() || group_ < 0) return wrong_;
  for (int call = 0; call < static_cast<int>(calls_.size()); ++call) {
    std::optional<bool> by_hosts;
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
      if (call >= static_cast<int>(made_->calls(r))) continue;
      std::string wrong = WrongCall(r, call);
      if (made_->state(r, call) == CallState::kDone) {
        if (by_hosts.value_or(made_->went_by_hosts(r, call)) != made_->went_by_hosts(r, call))
          wrong = fmt::format("rank {} went another way than others", r);
        by_hosts = made_->went_by_hosts(r, call);
      }
      if (wrong.empty()) continue;
      return fmt::format("{}, life {}, {}: {}\n", job_.spec.name, number_,
                         calls_[static_cast<size_t>(call)].Describe(), wrong);
    }
  }
  return {};
}

std::string Life::Standing() const {
  static constexpr const char* kNames[] = {"joining", "running", "leaving", "aborting", "gone"};
  std::string out = fmt::format("{}, life {}, group {} of the world:", job_.spec.name, number_, group_);
  for (size_t r = 0; r < ranks_.size(); ++r)
    out += fmt::format(" rank {} {} {}/{}", r, kNames[static_cast<size_t>(ranks_[r].at)], ranks_[r].ended,
                       calls_.size());
  out += "\n";
  if (group_ < 0) return out;
  return out + sim::Standing(place_.world, group_) + made_->Standing();
}

void Life::AddTo(Counts* counts) const {
  if (group_ < 0) {
    ++counts->refused;
    return;
  }
  const manager::JoinedReply& reply = *ranks_[0].reply;
  const bool hosts = reply.path == manager::Path::kHosts;
  ++(hosts ? counts->by_path_hosts : reply.asks ? counts->with_block : counts->by_network);
  counts->failed += hit_;
  counts->calls += static_cast<int64_t>(calls_.size());
  for (int call = 0; call < static_cast<int>(made_->calls(0)); ++call) {
    const ControlHeader& header = calls_[static_cast<size_t>(call)].header();
    const bool ended = made_->state(0, call) == CallState::kDone;
    const bool by_hosts = made_->went_by_hosts(0, call);
    counts->by_hosts += by_hosts;
    counts->aborted += !ended;
    if (!reply.asks || !ended || CallBytes(header) == 0 || made_->IsByHosts(header)) continue;
    ++(by_hosts ? counts->busy : counts->granted);
  }
}

}  // namespace epic::sim
