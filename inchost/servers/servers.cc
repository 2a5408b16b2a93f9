#include "inchost/servers/servers.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/printable.h"
#include "inchost/servers/lent.h"
#include "inchost/servers/served.h"
#include "protocol/fallback.h"

namespace epic::host {
namespace {

struct RemoveEverything {};
using Command = std::variant<proto::MakeServer, proto::ServedGroup, RemoveEverything>;
using Saying = std::variant<proto::ServerMade, proto::ServerEnded>;

constexpr char kBroken[] = "the NIC's completion queue is broken";

Status ToStatus(const Error& error) {
  const StatusCode code = error.code() == ErrorCode::kNotFound     ? StatusCode::kNotFound
                          : error.code() == ErrorCode::kNoResource ? StatusCode::kResourceExhausted
                                                                   : StatusCode::kInternal;
  return MakeStatus(code, error.message());
}

// Readable when it has been written to.
class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Bell() {
    if (fd_ >= 0) close(fd_);
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  int fd() const { return fd_; }
  void Ring() {
    const uint64_t one = 1;
    static_cast<void>(!write(fd_, &one, sizeof one));
  }

 private:
  const int fd_;
};

}  // namespace

class Servers::Impl {
 public:
  Impl(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq, uint64_t bytes,
       Said said)
      : said_(std::move(said)),
        device_(std::move(device)),
        cq_(std::move(cq)),
        lent_(bytes, device_->max_path_mtu()) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    bell_.Ring();
    for (std::thread& maker : makers_) maker.join();
    if (poller_.joinable()) poller_.join();
  }

  Status Start() {
    if (bell_.fd() < 0)
      return MakeStatus(StatusCode::kResourceExhausted, fmt::format("eventfd: {}", std::strerror(errno)));
    for (size_t i = 0; i < kSideBySide; ++i) makers_.emplace_back([this] { Obey(); });
    poller_ = std::thread([this] { Poll(); });
    return absl::OkStatus();
  }

  void Add(Command command) {
    {
      const std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
    }
    changed_.notify_all();
  }

  proto::FallbackOffer Offer() const {
    const std::lock_guard lock(mutex_);
    proto::FallbackOffer offer = lent_.Offer(device_->ip());
    // Of one that is being connected nobody has been told.
    for (const auto& [number, one] : all_) {
      if (one.connected) *offer.add_served() = one.served->group();
    }
    return offer;
  }

 private:
  struct One {
    std::unique_ptr<Served> served;
    bool connected = false;
    std::optional<Served::End> end;  // while it is being connected, and its thread alone may take it apart
  };
  using All = std::map<uint32_t, One>;

  All::const_iterator Find(const proto::ServedGroup& group) const {
    auto at = all_.begin();
    for (; at != all_.end(); ++at) {
      const proto::ServedGroup& its = at->second.served->group();
      if (its.group_id() == group.group_id() && its.generation() == group.generation()) break;
    }
    return at;
  }

  // The next that can be done now; the end if there is none. What is behind a connection that is being made
  // for its group, or behind another that waits for that, waits.
  std::deque<Command>::const_iterator NextCommand() const {
    std::set<uint64_t> before = connecting_;
    bool frees = false;  // memory will be there of a server that is to be removed
    for (auto at = commands_.begin(); at != commands_.end(); ++at) {
      if (std::holds_alternative<RemoveEverything>(*at)) return before.empty() ? at : commands_.end();
      const auto* request = std::get_if<proto::MakeServer>(&*at);
      const uint64_t id =
          (request != nullptr ? request->group() : std::get<proto::ServedGroup>(*at)).group_id();
      const bool awaits_memory =
          frees && request != nullptr &&
          LentBytes(request->path_mtu(), request->sum_mtus(), request->slots()) > lent_.left();
      if (!before.contains(id) && !awaits_memory) return at;
      before.insert(id);
      frees |= request == nullptr;
    }
    return commands_.end();
  }

  // A maker's thread.
  void Obey() {
    std::unique_lock lock(mutex_);
    while (true) {
      auto next = commands_.cend();
      changed_.wait(lock, [&] { return stop_ || (next = NextCommand()) != commands_.cend(); });
      if (stop_) return;
      const Command command = *next;
      commands_.erase(next);
      if (const auto* request = std::get_if<proto::MakeServer>(&command)) {
        Make(*request, lock);
      } else if (const auto* group = std::get_if<proto::ServedGroup>(&command)) {
        if (const auto found = Find(*group); found != all_.end()) Forget(found);
      } else {
        while (!all_.empty()) Forget(all_.begin());
      }
      lock.unlock();
      Speak();
      lock.lock();
    }
  }

  void Make(const proto::MakeServer& request, std::unique_lock<std::mutex>& lock) {
    proto::ServerMade answer = lent_.Take(request);
    if (answer.outcome() != proto::ServerMade::OUTCOME_SERVES) return Answer(request, std::move(answer));
    const auto fail = [&](const std::string& why) {
      lent_.Give(request.group());
      answer.set_outcome(proto::ServerMade::OUTCOME_NO_WAY);
      answer.set_message(why);
      answer.set_left_bytes(lent_.left());
      Answer(request, std::move(answer));
    };
    if (broken_) return fail(kBroken);
    const uint32_t number = next_number_++;
    const auto room = static_cast<uint32_t>((all_.size() + 1) * Served::kCompletions);
    if (const Error error = cq_->Grow(room); !error.ok()) return fail(error.message());
    One& one = all_[number];
    const Error made = Served::Make(device_, cq_, request, number, &one.served);
    if (!made.ok()) {
      all_.erase(number);
      return fail(made.message());
    }
    connecting_.insert(request.group().group_id());
    lock.unlock();
    const Error connected = one.served->Connect();
    lock.lock();
    connecting_.erase(request.group().group_id());
    changed_.notify_all();
    if (!connected.ok() || one.end) {
      const std::string why = connected.ok() ? one.end->message : connected.message();
      all_.erase(number);
      return fail(why);
    }
    one.connected = true;
    answer.set_ip(Raw(device_->ip()));
    answer.set_qpn(one.served->qpn());
    answer.set_super_frames(device_->takes_super_frames());
    spdlog::info("{}",
                 Printable(fmt::format("serves group {} of {}: {} bytes, {} left", request.name(),
                                       one.served->peer(), answer.needed_bytes(), answer.left_bytes())));
    sayings_.push_back(std::move(answer));
  }

  void Answer(const proto::MakeServer& request, proto::ServerMade answer) {
    spdlog::warn("{}",
                 Printable(fmt::format("does not serve group {}: {}", request.name(), answer.message())));
    sayings_.push_back(std::move(answer));
  }

  void Forget(All::const_iterator at) {
    lent_.Give(at->second.served->group());
    all_.erase(at);
  }

  // The thread that serves.
  void Poll() {
    std::array<ibv_wc, 64> done;
    bool asked = false;
    while (true) {
      int count = 0;
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        count = cq_->Poll(done);
        for (int i = 0; i < count; ++i) Take(done[static_cast<size_t>(i)]);
        if (count < 0) Break();
        // What has come between the last look and this is seen by one more.
        if (count == 0 && !asked) cq_->RequestNotify();
      }
      Speak();
      if (count < 0) return spdlog::critical("serves no group any more: {}", kBroken);
      if (count > 0) continue;
      if (!std::exchange(asked, true)) continue;
      Sleep();
      asked = false;
    }
  }

  void Sleep() {
    std::array<pollfd, 2> fds{pollfd{cq_->channel_fd(), POLLIN, 0}, pollfd{bell_.fd(), POLLIN, 0}};
    poll(fds.data(), fds.size(), -1);
    const std::lock_guard lock(mutex_);
    if ((fds[0].revents & POLLIN) != 0) cq_->ConsumeEvent();
  }

  void Take(const ibv_wc& done) {
    const auto at = all_.find(static_cast<uint32_t>(done.wr_id >> 32));
    if (at == all_.end() || at->second.end) return;  // of one that has ended
    std::optional<Served::End> end = at->second.served->OnCompletion(done);
    if (!end) return;
    if (!at->second.connected) return void(at->second.end = std::move(end));
    EndOne(at, *end);
  }

  void EndOne(All::const_iterator at, const Served::End& end) {
    const Served& served = *at->second.served;
    spdlog::warn("{}", Printable(fmt::format("serves group {} no more: {}", served.name(), end.message)));
    proto::ServerEnded ended;
    *ended.mutable_group() = served.group();
    ended.set_field(end.field);
    ended.set_message(Printable(end.message));
    sayings_.push_back(std::move(ended));
    Forget(at);
  }

  // Nothing that comes is seen any more.
  void Break() {
    broken_ = true;
    for (auto at = all_.begin(); at != all_.end();) {
      const auto one = at++;
      const Served::End end{.field = "", .message = kBroken};
      one->second.connected ? EndOne(one, end) : void(one->second.end = end);
    }
  }

  // Both threads: what is to be said, in order, without the lock that servers need.
  void Speak() {
    const std::lock_guard speaking(speaking_);
    while (true) {
      Saying saying;
      {
        const std::lock_guard lock(mutex_);
        if (sayings_.empty() || stop_) return;
        saying = std::move(sayings_.front());
        sayings_.pop_front();
      }
      if (const auto* made = std::get_if<proto::ServerMade>(&saying)) said_.made(*made);
      if (const auto* ended = std::get_if<proto::ServerEnded>(&saying)) said_.ended(*ended);
    }
  }

  const Said said_;
  const std::shared_ptr<verbs::Device> device_;
  const std::shared_ptr<verbs::CompletionQueue> cq_;
  Bell bell_;  // of the end, for who sleeps
  std::mutex speaking_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // commands_ or stop_
  bool stop_ = false;
  bool broken_ = false;
  Lent lent_;
  All all_;  // by number; none has the number of another one before it
  uint32_t next_number_ = 0;
  std::deque<Command> commands_;
  std::set<uint64_t> connecting_;  // groups, each on a maker's thread
  std::deque<Saying> sayings_;
  std::vector<std::thread> makers_;
  std::thread poller_;
};

StatusOr<std::unique_ptr<Servers>> Servers::Open(const ServersOptions& options, Said said) {
  std::shared_ptr<verbs::Device> device;
  if (const Error error = verbs::Device::Open(options.ifname, &device); !error.ok()) return ToStatus(error);
  std::shared_ptr<verbs::CompletionQueue> cq;
  if (const Error error = verbs::CompletionQueue::Create(device, Served::kCompletions, &cq); !error.ok())
    return ToStatus(error);
  auto impl = std::make_unique<Impl>(std::move(device), std::move(cq), options.bytes, std::move(said));
  if (const Status started = impl->Start(); !started.ok()) return started;
  return std::unique_ptr<Servers>(new Servers(std::move(impl)));
}

Servers::Servers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Servers::~Servers() = default;
void Servers::Make(const proto::MakeServer& request) { impl_->Add(request); }
void Servers::Remove(const proto::ServedGroup& group) { impl_->Add(group); }
void Servers::RemoveAll() { impl_->Add(RemoveEverything{}); }
proto::FallbackOffer Servers::Offer() const { return impl_->Offer(); }

}  // namespace epic::host
