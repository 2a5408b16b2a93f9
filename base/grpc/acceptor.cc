#include "base/grpc/acceptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/descriptors.h"
#include "base/grpc/first_words.h"

namespace epic {
namespace {

constexpr int kMostAtOnce = 64;  // between two looks at those who speak
constexpr size_t kMostConnections = 65'536;
constexpr size_t kLeastSpared = 64;  // for all else that this process has open
constexpr size_t kOfConnection = 3;  // descriptors: its own, and both ends of the pair that leads to gRPC
constexpr const char* kLack = "for lack of descriptors";
constexpr size_t kMostReasons = 64;
constexpr size_t kReasonsSaid = 4;
// For what a server has said last.
constexpr Nanos kLastWords = 200 * kMillisecond;
constexpr Nanos kBetweenLines = kSecond;
// Until somebody has given descriptors back, or memory.
constexpr auto kPause = std::chrono::milliseconds(10);

Nanos Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Connections::Bounds BoundsOf(Connections::Bounds bounds) {
  const size_t limit = DescriptorLimit();
  const size_t spared = std::max(kLeastSpared, limit / 4);
  if (bounds.all == 0)
    bounds.all = std::clamp((limit > spared ? limit - spared : 0) / kOfConnection, size_t{16}, kMostConnections);
  if (bounds.of_peer == 0) bounds.of_peer = bounds.all / 2;
  return bounds;
}

// Who it is that bounds hold for: "10.0.0.1", or "user 1000" of a Unix socket.
std::string PeerOf(int fd, const sockaddr_storage& from, socklen_t size) {
  if (from.ss_family == AF_UNIX) {
    ucred peer{};
    socklen_t peer_size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0) return "an unknown user";
    return fmt::format("user {}", peer.uid);
  }
  char host[NI_MAXHOST] = "";
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&from), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  const std::string name = host;
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 by a socket of IPv6
  return name.starts_with(kMapped) && name.find('.') != std::string::npos ? name.substr(kMapped.size()) : name;
}

bool IsLackOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void Watch(int epoll, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Acceptor::Acceptor(Listener listener, AcceptorOptions options)
    : listener_(std::move(listener)),
      options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spare_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
      connections_(BoundsOf(options_.bounds)),
      relay_(epoll_, options_.frames_a_second, [this](int fd) { connections_.Remove(fd); }) {
  Watch(epoll_, wake_, EPOLLIN);
  for (const int fd : listener_.sockets()) Watch(epoll_, fd, EPOLLIN);
}

Acceptor::~Acceptor() {
  SetPhase(Phase::kEnding);
  if (thread_.joinable()) thread_.join();
  StopTaking();
  for (const int fd : {epoll_, wake_, spare_}) {
    if (fd >= 0) close(fd);
  }
}

void Acceptor::AddTo(grpc::ServerBuilder* builder, const ServerBounds& bounds) {
  grpc::ResourceQuota quota("server");
  quota.Resize(bounds.memory);
  quota.SetMaxThreads(bounds.threads);
  builder->SetResourceQuota(quota);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(options_.patience.count()));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, bounds.streams);
  builder->SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, bounds.queues);
  server_ = builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void Acceptor::Stop() { SetPhase(Phase::kPassing); }

void Acceptor::SetPhase(Phase phase) {
  phase_ = phase;
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void Acceptor::StopTaking() {
  if (!std::exchange(taking_, false)) return;
  for (const int fd : listener_.sockets()) (void)epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  while (const auto silent = connections_.LongestSilent()) Close(silent->fd);
}

void Acceptor::Expect(const std::string& own_name) {
  const std::lock_guard lock(mutex_);
  own_name_ = own_name;
}

void Acceptor::Loop() {
  std::array<epoll_event, kMostAtOnce> events;
  const std::vector<int>& listening = listener_.sockets();
  for (Nanos ends = kNever; Now() < ends;) {
    const int count = epoll_wait(epoll_, events.data(), kMostAtOnce, WaitMs(Now()));
    const Nanos now = Now();
    const Phase phase = phase_;
    if (phase != Phase::kTaking) StopTaking();
    if (phase == Phase::kEnding) ends = relay_.empty() ? now : std::min(ends, now + kLastWords);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_) {
        uint64_t unused = 0;
        (void)!read(wake_, &unused, sizeof unused);
      } else if (relay_.Has(fd)) {
        relay_.OnEvents(fd, events[i].events, now);
      } else if (std::ranges::find(listening, fd) != listening.end()) {
        if (taking_) Take(fd);
      } else if (connections_.IsSilent(fd)) {  // it may have given way just now
        Hear(fd);
      }
    }
    relay_.Tick(now);
    for (const auto& [peer, lines] : relay_.TakeWaited())
      unsaid_[fmt::format("of {} had to wait, which says more than {} frames a second", peer,
                          options_.frames_a_second)] += lines;
    GiveUpSilent(now);
    SayRefused(now);
  }
}

void Acceptor::Take(int listening) {
  for (int i = 0; i < kMostAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd = accept4(listening, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EAGAIN) return;
      if (IsLackOfDescriptors(errno)) return TakeSpared(listening);
      continue;  // of one that has gone already, for example
    }
    bool own = false;
    {
      const std::lock_guard lock(mutex_);
      own = !own_name_.empty() && own_name_ == std::string_view(reinterpret_cast<const char*>(&from), size);
    }
    const std::string peer = own ? "itself" : PeerOf(fd, from, size);
    if (!own && !MakeRoom(peer)) {
      close(fd);
      continue;
    }
    if (from.ss_family != AF_UNIX) {
      // gRPC sets them at its own listener.
      const int on = 1;
      const auto timeout_ms = static_cast<unsigned>(options_.user_timeout.count());
      (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      if (timeout_ms != 0) (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    }
    connections_.Add(fd, peer, Now());
    // By edges: what has been heard and is too little is no news.
    Watch(epoll_, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
  }
}

// The one descriptor that is left has it closed, and not waiting for an answer that never comes.
void Acceptor::TakeSpared(int listening) {
  Refuse(kLack);
  if (const auto silent = connections_.LongestSilent()) return Close(silent->fd);
  if (spare_ >= 0) close(std::exchange(spare_, -1));
  const int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) close(fd);
  spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd < 0) std::this_thread::sleep_for(kPause);
}

bool Acceptor::MakeRoom(const std::string& peer) {
  using Full = Connections::Full;
  const Full full = connections_.IsFull(peer);
  if (full == Full::kNo) return true;
  const std::string has = full == Full::kPeer ? fmt::format("of {}, which has {}", peer, connections_.OfPeer(peer))
                                              : fmt::format("beyond {} of all", connections_.size());
  Refuse(has);
  const std::optional<int> silent = connections_.GivesWay(full, peer);
  if (!silent) return false;
  Close(*silent);
  return true;
}

void Acceptor::Hear(int fd) {
  std::array<char, kFirstWords> words;
  const ssize_t size = recv(fd, words.data(), words.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return Close(fd);
  switch (Judge({words.data(), static_cast<size_t>(size)})) {
    case FirstWords::kMore:
      return;
    case FirstWords::kGood:
      return HandOver(fd);
    case FirstWords::kWrong:
      Refuse("that do not speak HTTP/2");
      return Close(fd);
  }
}

void Acceptor::HandOver(int fd) {
  (void)epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  connections_.Speaks(fd);
  int end = relay_.Begin(fd, connections_.PeerOf(fd));
  // Who is silent gives way to one that speaks, which takes two more.
  for (auto silent = connections_.LongestSilent(); end < 0 && silent; silent = connections_.LongestSilent()) {
    Refuse(kLack);
    Close(silent->fd);
    end = relay_.Begin(fd, connections_.PeerOf(fd));
  }
  if (end < 0) {
    Refuse(kLack);
    return Close(fd);
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener_.sockets().front();
  connection.fd = end;
  server_->HandleNewConnection(&connection);
}

// Of one that gRPC does not have.
void Acceptor::Close(int fd) {
  connections_.Remove(fd);
  close(fd);
}

void Acceptor::GiveUpSilent(Nanos now) {
  const Nanos patience = std::chrono::nanoseconds(options_.patience).count();
  for (auto silent = connections_.LongestSilent(); silent && now - silent->since >= patience;
       silent = connections_.LongestSilent()) {
    Refuse(fmt::format("that were silent for {:g} s", static_cast<double>(patience) / kSecond));
    Close(silent->fd);
  }
}

void Acceptor::Refuse(const std::string& why) {
  ++refused_;
  ++unsaid_[unsaid_.contains(why) || unsaid_.size() < kMostReasons ? why : "of others"];
}

void Acceptor::SayRefused(Nanos now) {
  if (unsaid_.empty() || now - said_ < kBetweenLines) return;
  said_ = now;
  uint64_t all = 0;
  std::vector<std::pair<uint64_t, std::string>> reasons;
  for (const auto& [why, count] : std::exchange(unsaid_, {})) {
    all += count;
    reasons.emplace_back(count, why);
  }
  std::ranges::sort(reasons, std::greater<>());
  std::string line = fmt::format("{}: {} connections refused or late:", listener_.ToString(), all);
  for (size_t i = 0; i < std::min(kReasonsSaid, reasons.size()); ++i)
    line += fmt::format("{} {} {}", i == 0 ? "" : ",", reasons[i].first, reasons[i].second);
  if (reasons.size() > kReasonsSaid) line += ", and others";
  if (options_.say) options_.say(line);
}

int Acceptor::WaitMs(Nanos now) const {
  Nanos until = now + kSecond * 1000;
  if (!unsaid_.empty()) until = std::min(until, said_ + kBetweenLines);
  until = std::min(until, relay_.WantsTick(now));
  if (phase_ == Phase::kEnding) until = std::min(until, now + kLastWords);
  if (const auto silent = connections_.LongestSilent())
    until = std::min(until, silent->since + Nanos{std::chrono::nanoseconds(options_.patience).count()});
  if (until - now > 900 * kSecond) return -1;
  return static_cast<int>(std::max<Nanos>(until - now, 0) / kMillisecond) + 1;
}

}  // namespace epic
