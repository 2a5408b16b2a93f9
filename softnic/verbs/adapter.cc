#include "softnic/verbs/adapter.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "base/signals_blocked.h"
#include "io/event_fd.h"

namespace epic::softnic {
namespace {

// For so long at most the helper leaves the network to an application that looks at it itself; halved where
// it finds packets all the same, and below the least not at all.
constexpr Nanos kMinDefer = 125 * kMicrosecond, kMaxDefer = kMillisecond;
// Looks that find nothing for each reading of the clock, which takes longer than such a look.
constexpr uint64_t kLooksPerClock = 8;
constexpr Nanos kReachTimeout = kSecond;
// For so long the interface's addresses are not read again, after a packet to none of them.
constexpr Nanos kAddressLook = 100 * kMillisecond;
constexpr int kReachPollMs = 10;

Event::Kind EventOf(PortNews news) {
  switch (news) {
    case PortNews::kActive:
      return Event::Kind::kPortActive;
    case PortNews::kError:
      return Event::Kind::kPortError;
    case PortNews::kGids:
      return Event::Kind::kGidChange;
    default:
      return Event::Kind::kDeviceFatal;
  }
}

}  // namespace

Adapter::Adapter(std::unique_ptr<Port> port, Ipv4 ip, uint32_t mtu, const roce::Policy& policy,
                 EventHandler on_event)
    : port_(std::move(port)), nic_(ip, mtu, policy), on_event_(std::move(on_event)), ip_(ip) {
  nic_.SetPlaces(port_->places());
}

int Adapter::Start() {
  wake_ = io::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return errno;
  const SignalsBlocked blocked;
  try {
    helper_ = std::thread([this] { HelperLoop(); });
  } catch (const std::system_error& e) {
    return e.code().value();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  return 0;
}

Adapter::~Adapter() {
  if (!helper_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  io::SignalEventFd(wake_.get());
  helper_.join();
}

bool Adapter::Run(Nanos now) {
  try {
    nic_.Run(now, *port_);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Adapter::Send() {
  bool all = true;
  for (int i = 0; i < kMaxRuns && all && nic_.next_deadline() == 0; ++i) all = Run(port_->Now());
  port_->Flush();
  // A helper that sleeps for longer than until the next timer would let it pass.
  if (helper_defers_ == 0 && nic_.next_deadline() < helper_until_) {
    helper_until_ = nic_.next_deadline();
    io::SignalEventFd(wake_.get());
  }
  return all;
}

void Adapter::Tell(MutexLock& lock) {
  if (nic_.FirstEvent() == nullptr) return lock.unlock();
  const MutexLock telling(telling_);
  try {
    while (const Event* const event = nic_.FirstEvent()) {
      signals_.reserve(signals_.size() + 1);
      if (const int fd = on_event_(*event); fd >= 0) signals_.push_back(fd);
      nic_.TakeEvent();
    }
  } catch (const std::bad_alloc&) {
    io::SignalEventFd(wake_.get());
  }
  lock.unlock();
  for (const int fd : signals_) io::SignalEventFd(fd);
  signals_.clear();
}

int Adapter::Receive() {
  struct Receiver {
    Adapter* adapter;
    Nanos now = 0;  // read when there is a packet
  } receiver{this};
  return port_->Receive(
      kBatch,
      [](void* user, const roce::Packet& packet) {
        auto* r = static_cast<Receiver*>(user);
        r->adapter->mutex_.AssertHeld();
        if (r->now == 0) r->now = r->adapter->port_->Now();
        Nic& nic = r->adapter->nic_;
        if (!nic.OnPacket(r->now, packet) && r->adapter->HasNow(packet.dst_ip, r->now))
          nic.OnPacket(r->now, packet);
      },
      &receiver);
}

bool Adapter::HasNow(Ip address, Nanos now) {
  if (now < next_address_look_) return false;
  std::vector<Ip> addresses = port_->Addresses();
  if (std::ranges::find(addresses, address) == addresses.end()) {
    next_address_look_ = now + kAddressLook;  // packets that are not for us must not make us ask each time
    return false;
  }
  nic_.SetMoreAddresses(std::move(addresses));
  return true;
}

void Adapter::RunTimers(Nanos now, WaitedClock::Looker looker) {
  if (nic_.next_deadline() > now) return;
  if (waited_.IsDue(now)) {
    waited_.Note(now, looker, std::this_thread::get_id(), port_->Waited());
    nic_.NoteWaited(waited_.waited());
  }
  Run(now);
}

size_t Adapter::Poll(uint32_t cq, std::span<Work> out) {
  MutexLock lock(mutex_);
  ++entries_;
  if (const size_t count = nic_.PollCq(cq, out); count > 0) return count;
  const int received = Receive();
  if (++looks_ % kLooksPerClock == 0 || received > 0) {
    RunTimers(port_->Now(), WaitedClock::Looker::kApplication);
  } else if (nic_.next_deadline() > 0) {
    return 0;
  }
  Send();
  const size_t count = nic_.PollCq(cq, out);
  Tell(lock);
  return count;
}

void Adapter::Arm(uint32_t cq, bool solicited_only) {
  const MutexLock lock(mutex_);
  nic_.ArmCq(cq, solicited_only);
  if (!app_sleeps_) CallHelper();
}

int Adapter::BeginSleep(uint32_t cq) {
  const MutexLock lock(mutex_);
  if (app_sleeps_) return -1;
  app_sleeps_ = true;
  nic_.ArmCq(cq, false);
  return port_->fd();
}

bool Adapter::EndSleep(uint32_t cq) {
  const MutexLock lock(mutex_);
  app_sleeps_ = false;
  port_->TakeErrors();
  const bool armed = nic_.DisarmCq(cq);
  // Who waits for an event was served by the thread that slept.
  if (nic_.armed_cqs() > 0) CallHelper();
  return armed;
}

void Adapter::CallHelper() {
  if (helper_defers_ == 0) return;
  helper_defers_ = 0;
  io::SignalEventFd(wake_.get());
}

Nanos Adapter::NextDefer(bool app_waits, bool app_looks, bool app_entered, int received) const {
  if (app_waits || !app_entered) return 0;
  if (app_looks) return kMaxDefer;
  const Nanos shorter = received > 0 ? helper_defers_ / 2 : helper_defers_;
  return shorter < kMinDefer ? 0 : shorter;
}

bool Adapter::RaisePortNews() {
  try {
    while (const std::optional<PortNews> news = port_->FirstNews()) {
      if (news == PortNews::kGids) nic_.SetMoreAddresses(port_->Addresses());
      nic_.RaiseOfPort(EventOf(*news));
      port_->TakeNews();
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Adapter::HelperLoop() {
  MutexLock lock(mutex_);
  uint64_t seen = 0, seen_looks = 0;
  while (!stop_) {
    helper_until_ = 0;  // awake
    const Nanos now = port_->Now();
    // Before it is told of anything: then it does not wait any more.
    const bool app_waits = !app_sleeps_ && nic_.armed_cqs() > 0;
    // Since the helper's last turn: when it did says nothing where it does not always have a processor.
    const bool app_looks = std::exchange(seen_looks, looks_) != looks_;
    // What has woken the helper has woken the thread that sleeps on the port.
    const bool app_wakes = app_sleeps_ && helper_defers_ == 0;
    int received = 0;
    bool all = RaisePortNews();
    if ((!app_looks && !app_wakes) || app_waits) {
      received = Receive();
      RunTimers(now, WaitedClock::Looker::kHelper);
      all &= Send();
    } else if (app_wakes && nic_.next_deadline() <= now) {
      RunTimers(now, WaitedClock::Looker::kHelper);  // or a timer has, of which the thread knows nothing
      all &= Send();
    }
    // Memory that is not there now may be in a moment.
    helper_defers_ =
        app_wakes || !all ? kMaxDefer : NextDefer(app_waits, app_looks, entries_ != seen, received);
    seen = entries_;
    helper_until_ = helper_defers_ > 0 ? now + helper_defers_ : nic_.next_deadline();
    const Nanos until = helper_until_;
    const bool for_packets = helper_defers_ == 0;
    Tell(lock);
    if (port_->Wait(wake_.get(), for_packets, until)) io::TakeEventFd(wake_.get());
    lock.lock();
  }
}

std::optional<Qpn> Adapter::NewQpn() {
  const MutexLock lock(mutex_);
  if (free_qpns_.empty()) {
    if (blocks_.size() == io::kMaxFilterBlocks) return std::nullopt;
    // Room for all numbers, so that giving one back needs no memory.
    free_qpns_.reserve((blocks_.size() + 1) * QpnBlock::kQpns);
    blocks_.reserve(blocks_.size() + 1);
    std::unique_ptr<QpnBlock> block = QpnBlock::Take(ip_);
    if (block == nullptr || !port_->AddQpnBlock(block->number())) return std::nullopt;
    // From the front, so that numbers come up again as late as can be.
    for (uint32_t i = 0; i < QpnBlock::kQpns; ++i)
      free_qpns_.push_back(Qpn{block->number() * QpnBlock::kQpns + i});
    blocks_.push_back(std::move(block));
  }
  const Qpn qpn = free_qpns_.front();
  free_qpns_.erase(free_qpns_.begin());
  return qpn;
}

void Adapter::FreeQpn(Qpn qpn) {
  const MutexLock lock(mutex_);
  free_qpns_.push_back(qpn);
}

bool Adapter::IsMember(Ip group) const {
  const auto first = attached_.lower_bound({group, Qpn{0}});
  return first != attached_.end() && first->first == group;
}

bool Adapter::IsAttached(Qpn qpn) const {
  return std::ranges::any_of(attached_, [qpn](const auto& one) { return one.second == qpn; });
}

int Adapter::Attach(Qpn qpn, Ip group) {
  const MutexLock lock(mutex_);
  const bool member = IsMember(group);
  const auto [entry, fresh] = attached_.emplace(group, qpn);
  if (!fresh) return 0;
  int error = nic_.AttachMulticast(qpn, group) ? 0 : EINVAL;
  if (error == 0 && !member) {
    error = port_->JoinGroup(group);
    if (error != 0) nic_.DetachMulticast(qpn, group);
  }
  if (error != 0) attached_.erase(entry);
  return error;
}

int Adapter::Detach(Qpn qpn, Ip group) {
  const MutexLock lock(mutex_);
  if (attached_.erase({group, qpn}) == 0) return EINVAL;
  EPIC_CHECK(nic_.DetachMulticast(qpn, group));
  if (!IsMember(group)) port_->LeaveGroup(group);
  return 0;
}

bool Adapter::TakesSuperFrames() {
  const MutexLock lock(mutex_);
  return port_->TakesSuperFrames();
}

void Adapter::SendSuperFrames(Ipv4 to, Qpn qpn, bool on) {
  const MutexLock lock(mutex_);
  port_->SendSuperFrames(to, qpn, on);
}

void Adapter::SendByWireAlone(Ipv4 group, bool on) {
  const MutexLock lock(mutex_);
  port_->SendByWireAlone(group, on);
}

void Adapter::SetMoreAddresses(std::vector<Ip> more) {
  const MutexLock lock(mutex_);
  nic_.SetMoreAddresses(std::move(more));
}

int Adapter::Reach(Ip to) {
  const Nanos give_up = port_->Now() + kReachTimeout;
  while (true) {
    {
      MutexLock lock(mutex_);
      Receive();
      Send();
      const Port::Reach reach = port_->Prepare(to);
      const bool late = port_->Now() > give_up;
      Tell(lock);
      if (reach == Port::Reach::kReady) return 0;
      if (reach == Port::Reach::kNoRoute) return ENETUNREACH;
      if (late) return ETIMEDOUT;
    }
    pollfd arrival{port_->fd(), POLLIN, 0};
    poll(&arrival, 1, kReachPollMs);
  }
}

}  // namespace epic::softnic
