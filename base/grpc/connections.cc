#include "base/grpc/connections.h"

namespace epic {

Connections::Full Connections::IsFull(const std::string& peer) const {
  if (OfPeer(peer) >= bounds_.of_peer) return Full::kPeer;
  return entries_.size() >= bounds_.all ? Full::kAll : Full::kNo;
}

std::optional<int> Connections::GivesWay(Full full, const std::string& peer) const {
  const Order* silent = &silent_;
  if (full == Full::kPeer) silent = &peers_.at(peer).silent;
  if (silent->empty()) return std::nullopt;
  return silent->begin()->second;
}

void Connections::Add(int fd, const std::string& peer, Nanos now) {
  const uint64_t number = next_++;
  entries_[fd] = {.peer = peer, .number = number, .since = now};
  Peer& of = peers_[peer];
  ++of.count;
  of.silent[number] = fd;
  silent_[number] = fd;
}

void Connections::Speaks(int fd) {
  Entry& entry = entries_.at(fd);
  entry.silent = false;
  silent_.erase(entry.number);
  peers_.at(entry.peer).silent.erase(entry.number);
}

void Connections::Remove(int fd) {
  const auto found = entries_.find(fd);
  if (found == entries_.end()) return;
  Speaks(fd);
  const auto peer = peers_.find(found->second.peer);
  if (--peer->second.count == 0) peers_.erase(peer);
  entries_.erase(found);
}

std::optional<Connections::Silent> Connections::LongestSilent() const {
  if (silent_.empty()) return std::nullopt;
  const int fd = silent_.begin()->second;
  return Silent{.fd = fd, .since = entries_.at(fd).since};
}

bool Connections::IsSilent(int fd) const {
  const auto found = entries_.find(fd);
  return found != entries_.end() && found->second.silent;
}

size_t Connections::OfPeer(const std::string& peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.count;
}

}  // namespace epic
