// Passes on what clients and a gRPC server say to each other, and reads it as it passes: gRPC 1.51 takes calls faster than it
// can answer them, and keeps all of them. Here a peer that says too much waits, as its own socket fills.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/grpc/frame_counter.h"
#include "base/types.h"

namespace epic {

class Relay {
 public:
  // epoll: of its owner, who passes on what that says of the descriptors of this; outlives it. frames_a_second: of each
  // peer. gone: a connection has ended; its descriptor is closed.
  Relay(int epoll, uint64_t frames_a_second, std::function<void(int fd)> gone);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Takes a client's connection, of which nothing has been read yet; it is not in epoll. Returns the server's end, which is its
  // owner's, and whose peer has a name that says whose it is (PeerAddress); -1 with errno if there is none, and then the
  // connection is its owner's as before.
  int Begin(int fd, const std::string& peer);

  bool Has(int fd) const { return lines_.contains(fd); }
  void OnEvents(int fd, uint32_t events, Nanos now);
  // Those who have waited for long enough go on.
  void Tick(Nanos now);
  // When that is to be called at the latest; kNever: not at all.
  Nanos WantsTick(Nanos now) const { return paused_.empty() ? kNever : now + kPause; }
  bool empty() const { return lines_.empty(); }
  // Of which peers how many connections have had to wait since this was asked last; each is counted once.
  std::map<std::string, uint64_t> TakeWaited() { return std::exchange(waited_, {}); }

 private:
  static constexpr Nanos kPause = 5 * kMillisecond;

  // One connection: by the descriptor of either end.
  struct Line {
    int outer = -1, inner = -1;
    std::string peer;
    FrameCounter counter;
    std::string up, down;  // read, and not written yet: to the server, to the client
    bool outer_ended = false, inner_ended = false, told_end = false;
    bool paused = false, has_waited = false;
    uint32_t outer_events = 0, inner_events = 0;  // that epoll is asked for; 0: it has not got it
  };
  struct Peer {
    explicit Peer(uint64_t a_second) : budget(a_second) {}
    FrameBudget budget;
    size_t lines = 0;
  };

  void ReadOuter(Line* line, Nanos now);
  void TakeLastWords(Line* line, Nanos now);
  void ReadInner(Line* line);
  // False if nobody takes it any more.
  static bool Flush(int fd, std::string* bytes);
  void Go(Line* line);
  void WaitFor(Line* line);
  void Ask(int fd, uint32_t* asked, uint32_t wanted) const;
  void End(Line* line);

  const int epoll_;
  const uint64_t frames_a_second_;
  const std::function<void(int fd)> gone_;
  std::map<int, std::shared_ptr<Line>> lines_;
  std::map<std::string, Peer> peers_;
  std::deque<int> paused_;  // by their outer ends, who has waited for longest first; also some that have gone
  std::map<std::string, uint64_t> waited_;
  // In the names of ends: one network may have several that are of one process, or of processes with one number.
  const uint64_t token_;
  uint64_t next_ = 0;
};

}  // namespace epic
