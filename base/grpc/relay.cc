#include "base/grpc/relay.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <random>
#include <set>
#include <utility>

namespace epic {
namespace {

// Of a client at once; less of one whose peer says much, so that all its connections take turns. And of the server.
constexpr size_t kUp = 16'384;
constexpr size_t kUpInTurns = 512;
constexpr size_t kDown = 65'536;

// A name for the end of a pair that this keeps: no file, and nobody can connect there.
bool NameEnd(int fd, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  name.copy(address.sun_path + 1, size);
  return bind(fd, reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size)) == 0;
}

uint64_t AnyNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

Relay::Relay(int epoll, uint64_t frames_a_second, std::function<void(int fd)> gone)
    : epoll_(epoll), frames_a_second_(frames_a_second), gone_(std::move(gone)), token_(AnyNumber()) {}

Relay::~Relay() {
  std::set<Line*> all;
  for (const auto& [fd, line] : lines_) all.insert(line.get());
  for (Line* const line : all) {
    close(line->outer);
    close(line->inner);
  }
}

int Relay::Begin(int fd, const std::string& peer) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return -1;
  if (!NameEnd(ends[0], fmt::format("epic-{:016x}-{}/{}", token_, next_++, peer))) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return -1;
  }
  auto line = std::make_shared<Line>();
  line->outer = fd;
  line->inner = ends[0];
  line->peer = peer;
  ++peers_.try_emplace(peer, frames_a_second_).first->second.lines;
  lines_[line->outer] = line;
  lines_[line->inner] = line;
  WaitFor(line.get());
  return ends[1];
}

void Relay::OnEvents(int fd, uint32_t events, Nanos now) {
  const std::shared_ptr<Line> line = lines_.at(fd);
  const bool gone = (events & (EPOLLERR | EPOLLHUP)) != 0;
  if (fd == line->outer) {
    if (gone) return TakeLastWords(line.get(), now);
    if ((events & EPOLLIN) != 0) ReadOuter(line.get(), now);
  } else if ((events & EPOLLIN) != 0 || gone) {
    ReadInner(line.get());
  }
  Go(line.get());
}

// Who ends at once may have said why: as much of it as its peer may say, and as the server has room for.
void Relay::TakeLastWords(Line* line, Nanos now) {
  while (!line->paused && Flush(line->inner, &line->up) && line->up.empty()) {
    ReadOuter(line, now);
    if (line->up.empty()) break;
  }
  End(line);
}

void Relay::ReadOuter(Line* line, Nanos now) {
  Peer& peer = peers_.at(line->peer);
  if (peer.budget.IsSpent(now)) {
    line->paused = true;
    paused_.push_back(line->outer);
    if (!std::exchange(line->has_waited, true)) ++waited_[line->peer];
    return;
  }
  std::array<char, kUp> bytes;
  const size_t most = peer.budget.IsLow() ? kUpInTurns : bytes.size();
  const ssize_t size = recv(line->outer, bytes.data(), most, MSG_DONTWAIT);
  if (size > 0) {
    line->up.assign(bytes.data(), static_cast<size_t>(size));
    peer.budget.Spend(line->counter.Count(line->up));
  } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
    line->outer_ended = true;
  }
}

void Relay::ReadInner(Line* line) {
  if (!line->down.empty()) return;  // what is left there stays
  std::string bytes(kDown, '\0');
  const ssize_t size = recv(line->inner, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size > 0) {
    bytes.resize(static_cast<size_t>(size));
    line->down = std::move(bytes);
  } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
    line->inner_ended = true;
  }
}

bool Relay::Flush(int fd, std::string* bytes) {
  if (bytes->empty()) return true;
  const ssize_t size = send(fd, bytes->data(), bytes->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  bytes->erase(0, static_cast<size_t>(size));
  return true;
}

void Relay::Go(Line* line) {
  if (!Flush(line->inner, &line->up)) {
    // gRPC has closed it, but may have said something before.
    line->up.clear();
    line->outer_ended = line->told_end = true;
  }
  if (!Flush(line->outer, &line->down)) return End(line);
  if (line->inner_ended && line->down.empty()) return End(line);
  if (line->outer_ended && line->up.empty() && !std::exchange(line->told_end, true)) shutdown(line->inner, SHUT_WR);
  WaitFor(line);
}

void Relay::WaitFor(Line* line) {
  const bool reads = line->up.empty() && !line->paused && !line->outer_ended;
  const auto events = [](bool in, bool out) -> uint32_t {
    uint32_t wanted = 0;
    if (in) wanted |= EPOLLIN;
    if (out) wanted |= EPOLLOUT;
    return wanted;
  };
  Ask(line->outer, &line->outer_events, events(reads, !line->down.empty()));
  Ask(line->inner, &line->inner_events, events(line->down.empty() && !line->inner_ended, !line->up.empty()));
}

// Of what nothing is wanted epoll does not get: it would tell again and again that the other end is closed.
void Relay::Ask(int fd, uint32_t* asked, uint32_t wanted) const {
  if (*asked == wanted) return;
  epoll_event event{};
  event.events = wanted;
  event.data.fd = fd;
  const int how = wanted == 0 ? EPOLL_CTL_DEL : *asked == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  (void)epoll_ctl(epoll_, how, fd, &event);
  *asked = wanted;
}

void Relay::Tick(Nanos now) {
  for (size_t left = paused_.size(); left > 0; --left) {
    const int fd = paused_.front();
    paused_.pop_front();
    const auto found = lines_.find(fd);
    if (found == lines_.end()) continue;
    const std::shared_ptr<Line> line = found->second;
    if (!line->paused || fd != line->outer) continue;
    if (peers_.at(line->peer).budget.IsSpent(now)) {
      paused_.push_back(fd);
      continue;
    }
    line->paused = false;
    ReadOuter(line.get(), now);
    Go(line.get());
  }
}

void Relay::End(Line* line) {
  const std::shared_ptr<Line> kept = lines_.at(line->outer);
  lines_.erase(line->outer);
  lines_.erase(line->inner);
  const auto peer = peers_.find(line->peer);
  // Who comes again at once has what he had left: such peers are forgotten when there are many.
  --peer->second.lines;
  constexpr size_t kMostIdlePeers = 4096;
  if (peers_.size() > kMostIdlePeers)
    std::erase_if(peers_, [](const auto& one) { return one.second.lines == 0; });
  close(line->inner);
  close(line->outer);
  gone_(line->outer);
}

}  // namespace epic
