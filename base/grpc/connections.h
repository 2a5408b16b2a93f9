// Who has how many connections to a daemon, and which of them have not said anything yet. No sockets and no
// clock: descriptors are numbers here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/types.h"

namespace epic {

class Connections {
 public:
  struct Bounds {
    size_t all = 0;
    size_t of_peer = 0;
  };
  enum class Full : uint8_t { kNo, kAll, kPeer };

  explicit Connections(const Bounds& bounds) : bounds_(bounds) {}

  // Whether one more of this peer has no room, and by which bound.
  Full IsFull(const std::string& peer) const;
  // Of those that are in its way, which has been silent for longest, and so gives way. Nothing if all speak.
  std::optional<int> GivesWay(Full full, const std::string& peer) const;

  // Begins silent.
  void Add(int fd, const std::string& peer, Nanos now);
  // It has said what a connection begins with.
  void Speaks(int fd);
  void Remove(int fd);

  // The one that has been silent for longest, and since when.
  struct Silent {
    int fd = -1;
    Nanos since = 0;
  };
  std::optional<Silent> LongestSilent() const;

  const std::string& PeerOf(int fd) const { return entries_.at(fd).peer; }
  bool IsSilent(int fd) const;
  size_t size() const { return entries_.size(); }
  size_t OfPeer(const std::string& peer) const;
  const Bounds& bounds() const { return bounds_; }

 private:
  struct Entry {
    std::string peer;
    uint64_t number = 0;  // in the order in which they have come
    Nanos since = 0;
    bool silent = true;
  };
  using Order = std::map<uint64_t, int>;  // of silent ones: number -> descriptor
  struct Peer {
    size_t count = 0;
    Order silent;
  };

  const Bounds bounds_;
  std::map<int, Entry> entries_;
  std::map<std::string, Peer> peers_;
  Order silent_;
  uint64_t next_ = 0;
};

}  // namespace epic
