#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "tests/softnic/local_manager_testing.h"

namespace epic::softnic {
namespace {

std::atomic<LocalManager*> the_manager = nullptr;

}  // namespace

LocalManager& LocalManager::Get() {
  EPIC_CHECK(the_manager != nullptr);
  return *the_manager;
}

LocalManager::LocalManager(VirtualSwitch* a_switch) : switch_(a_switch), thread_([this] { Run(); }) {
  EPIC_CHECK(the_manager.exchange(this) == nullptr);
}

LocalManager::~LocalManager() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
  the_manager = nullptr;
}

Error LocalManager::Join(const internal::JoinInfo& info, internal::JoinedInfo* joined_info) {
  std::unique_lock lock(mutex_);
  if (refused_.contains({info.group, info.rank})) return {ErrorCode::kUnsupported, "refused"};
  Group& group = groups_[info.group];
  if (group.id == 0) group = {.id = groups_.size(), .size = info.size};
  group.qpn_of_rank[info.rank] = info.qpn;
  group.datagram_ends.resize(info.size);
  const bool by_hosts = info.path == PathChoice::kHosts;
  const bool takes_datagrams = !info.datagrams_offered || (by_hosts && gives_unasked_);
  if (info.datagram_qpn != 0) {
    group.receives =
        group.receives == 0 ? info.datagram_receives : std::min(group.receives, info.datagram_receives);
  }
  group.datagram_ends[info.rank] = {.ip = kHostIp, .qpn = takes_datagrams ? info.datagram_qpn : 0};
  if (group.qpn_of_rank.size() == group.size) {
    if (!by_hosts)
      switch_->Install(group.id, engine::Mode::kTranslated, group.qpn_of_rank, abilities_.has,
                       abilities_.asks);
    group.installed = true;
    changed_.notify_all();
  }
  while (!changed_.wait_for(lock, std::chrono::milliseconds(10), [&group] { return group.installed; })) {
    lock.unlock();
    const bool ends = info.gives_up && info.gives_up();
    lock.lock();
    if (ends) return {ErrorCode::kAborted, "given up"};
  }
  if (by_hosts) {
    internal::JoinedInfo joined = JoinedByHosts(group.id);
    joined.abilities.scale = abilities_.scale;
    joined.abilities.blocks = abilities_.blocks;
    joined.multicast = MulticastOf(group);
    if (!joined.multicast) joined.multicast_reason = "the network is an old one";
    *joined_info = joined;
    return {};
  }
  internal::JoinedInfo joined = JoinedAt(group.id, engine::Mode::kTranslated, info.rank);
  const auto own = abilities_of_.find(info.group);
  joined.abilities = own == abilities_of_.end() ? abilities_ : own->second;
  joined.invocation_bytes = invocation_bytes_;
  joined.multicast = MulticastOf(group);
  *joined_info = joined;
  return {};
}

std::optional<internal::MulticastInfo> LocalManager::MulticastOf(const Group& group) const {
  const auto asks = [](const verbs::DatagramSource& end) { return end.qpn != 0; };
  if (!std::ranges::all_of(group.datagram_ends, asks)) return std::nullopt;
  const auto number = static_cast<uint32_t>(group.id);
  return internal::MulticastInfo{.address = Ipv4{0xefc00000 + number},
                                 .qkey = 0x1000 * number,
                                 .ends = group.datagram_ends,
                                 .receives = group.receives,
                                 .takes_counts = takes_counts_};
}

void LocalManager::SetTakesCounts(bool takes) {
  const std::lock_guard lock(mutex_);
  takes_counts_ = takes;
}

void LocalManager::SetGivesUnasked(bool gives) {
  const std::lock_guard lock(mutex_);
  gives_unasked_ = gives;
}

void LocalManager::TellDatagrams(const std::string& group, uint32_t rank, const MulticastCounts& counts) {
  const std::lock_guard lock(mutex_);
  groups_[group].datagrams_told[rank].push_back(counts);
  changed_.notify_all();
}

std::vector<MulticastCounts> LocalManager::DatagramsTold(const std::string& group, uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return groups_[group].datagrams_told[rank];
}

void LocalManager::WaitDatagramsTold(const std::string& name, uint32_t rank, uint64_t expected) {
  std::unique_lock lock(mutex_);
  const std::vector<MulticastCounts>& told = groups_[name].datagrams_told[rank];
  changed_.wait(lock, [&] {
    return !told.empty() && told.back().expected == expected && told.back().came + told.back().read == expected;
  });
}

void LocalManager::Refuse(const std::string& group, uint32_t rank) {
  const std::lock_guard lock(mutex_);
  refused_.insert({group, rank});
}

void LocalManager::SetAbilities(const internal::GroupAbilities& abilities) {
  const std::lock_guard lock(mutex_);
  abilities_ = abilities;
  abilities_.hosts_reach = true;
}

void LocalManager::SetAbilitiesOf(const std::string& group, const internal::GroupAbilities& abilities) {
  const std::lock_guard lock(mutex_);
  abilities_of_[group] = abilities;
}

void LocalManager::SetInvocationBytes(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  invocation_bytes_ = bytes;
}

void LocalManager::SetPeerHandler(const std::string& name, uint32_t rank,
                                  internal::Session::PeerHandler handler) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[name];
  group.peer_handlers[rank] = std::move(handler);
  TellPeers(group, rank);
}

void LocalManager::TellPeer(const std::string& name, uint32_t rank, const internal::PeerEndInfo& end) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[name];
  group.unheard[end.rank].push_back(
      {.rank = rank, .ip = kHostIp, .qpn = end.qpn, .psn = end.psn, .ready = end.ready, .fetches = end.fetches});
  TellPeers(group, end.rank);
}

void LocalManager::TellPeers(Group& group, uint32_t rank) {
  const auto handler = group.peer_handlers.find(rank);
  if (handler == group.peer_handlers.end()) return;
  for (const internal::PeerEndInfo& end : std::exchange(group.unheard[rank], {}))
    tell_.push([tell = handler->second, end] { tell(end); });
  changed_.notify_all();
}

void LocalManager::SetFailureHandler(const std::string& group, uint32_t rank,
                                     internal::Session::FailureHandler handler) {
  const std::lock_guard lock(mutex_);
  groups_[group].handlers[rank] = std::move(handler);
}

void LocalManager::Forget(const std::string& group, uint32_t rank) {
  std::unique_lock lock(mutex_);
  groups_[group].handlers.erase(rank);
  groups_[group].peer_handlers.erase(rank);
  changed_.wait(lock, [this] { return tell_.empty() && !telling_; });
}

void LocalManager::Abort(const std::string& name, uint32_t rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[name];
  group.handlers.erase(rank);
  if (group.aborted.empty()) group.aborted = reason;
  Tell(group, {ErrorCode::kAborted, reason});
  changed_.notify_all();
}

void LocalManager::TellMismatch(const std::string& name, uint32_t rank, const std::string& how) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[name];
  group.handlers.erase(rank);
  if (group.aborted.empty()) group.aborted = how;
  Tell(group, {ErrorCode::kMismatch, how});
  changed_.notify_all();
}

void LocalManager::TellNotFinite(const std::string& name, const std::string& how) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[name];
  if (group.aborted.empty()) group.aborted = how;
  Tell(group, {ErrorCode::kNotFinite, how});
  changed_.notify_all();
}

Error LocalManager::Leave(const std::string& name, uint32_t rank) {
  std::unique_lock lock(mutex_);
  Group& group = groups_[name];
  group.left.insert(rank);
  changed_.notify_all();
  changed_.wait(lock, [&group] { return group.left.size() == group.size || !group.aborted.empty(); });
  return group.aborted.empty() ? Error() : Error(ErrorCode::kAborted, group.aborted);
}

void LocalManager::Fail(const std::string& name, const Error& error) {
  const std::lock_guard lock(mutex_);
  Tell(groups_[name], error);
  changed_.notify_all();
}

std::string LocalManager::WaitAborted(const std::string& name) {
  std::unique_lock lock(mutex_);
  Group& group = groups_[name];
  changed_.wait(lock, [&group] { return !group.aborted.empty(); });
  return group.aborted;
}

// Each rank is told once.
void LocalManager::Tell(Group& group, const Error& error) {
  for (const auto& [rank, handler] : std::exchange(group.handlers, {}))
    tell_.push([tell = handler, error] { tell(error); });
}

void LocalManager::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !tell_.empty(); });
    if (tell_.empty()) return;
    const auto tell = std::move(tell_.front());
    tell_.pop();
    telling_ = true;
    lock.unlock();
    tell();
    lock.lock();
    telling_ = false;
    changed_.notify_all();
  }
}

}  // namespace epic::softnic

namespace epic::internal {

class Session::Stream {
 public:
  Stream(std::string group, uint32_t rank) : group_(std::move(group)), rank_(rank) {}
  const std::string& group() const { return group_; }
  uint32_t rank() const { return rank_; }

 private:
  const std::string group_;
  const uint32_t rank_;
};

Error Session::Join(const std::string&, const JoinInfo& info, std::unique_ptr<Session>* session,
                    JoinedInfo* joined) {
  if (Error e = softnic::LocalManager::Get().Join(info, joined); !e.ok()) return e;
  session->reset(new Session(std::make_unique<Stream>(info.group, info.rank)));
  return {};
}

Session::Session(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
Session::~Session() { softnic::LocalManager::Get().Forget(stream_->group(), stream_->rank()); }

void Session::SetFailureHandler(FailureHandler handler) {
  softnic::LocalManager::Get().SetFailureHandler(stream_->group(), stream_->rank(), std::move(handler));
}
void Session::SetPeerHandler(PeerHandler handler) {
  softnic::LocalManager::Get().SetPeerHandler(stream_->group(), stream_->rank(), std::move(handler));
}
void Session::SetCallsHandler(CallsHandler) {}
void Session::TellPeer(const PeerEndInfo& end) {
  softnic::LocalManager::Get().TellPeer(stream_->group(), stream_->rank(), end);
}
void Session::Abort(const std::string& reason) {
  softnic::LocalManager::Get().Abort(stream_->group(), stream_->rank(), reason);
}
void Session::TellMismatch(const std::string& how) {
  softnic::LocalManager::Get().TellMismatch(stream_->group(), stream_->rank(), how);
}
void Session::TellNotFinite(const std::string& how) {
  softnic::LocalManager::Get().TellNotFinite(stream_->group(), how);
}
void Session::TellWindow(const WindowTrials::Found&) {}
void Session::TellDatagrams(const MulticastCounts& counts) {
  softnic::LocalManager::Get().TellDatagrams(stream_->group(), stream_->rank(), counts);
}
Error Session::Leave(std::chrono::milliseconds, const Error&) {
  return softnic::LocalManager::Get().Leave(stream_->group(), stream_->rank());
}
Error Session::Trouble(std::vector<TroubleCount>*) {
  return {ErrorCode::kManagerUnreachable, "there is none"};
}
Error Session::Waiting(WaitState*) { return {ErrorCode::kManagerUnreachable, "there is none"}; }
void Session::AskWait(std::chrono::milliseconds) {}
std::string Session::WaitInWords() { return {}; }
void Session::Finish() {}

}  // namespace epic::internal
