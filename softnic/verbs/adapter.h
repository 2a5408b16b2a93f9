// One open device: an adapter on a port, its lock, and who makes progress.
//
// Progress is made within post and poll calls, by the caller's own thread. A helper thread sleeps until a
// packet arrives or a timer is due. Where it then finds that the application has looked at the network itself
// since, it is in the way, and stays away for a millisecond; where packets were waiting that nobody looked
// for, for shorter. An application that waits for a completion event has its full attention; but where one
// of its threads sleeps on the port itself, that is woken by a packet as well, and has a millisecond to take
// it.
//
// The clock is read when something is to be done, and else once in several looks: timers may be late by that
// or by the millisecond.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "io/descriptor.h"
#include "io/packet_filter.h"
#include "softnic/core/nic.h"
#include "softnic/port/port.h"
#include "softnic/verbs/qpn_block.h"
#include "softnic/verbs/waited_clock.h"

namespace epic::softnic {

class Adapter {
 public:
  // Takes the events of the adapter as they arise; called with the lock held. Returns the eventfd to signal,
  // or -1.
  using EventHandler = std::function<int(const Event&)>;

  Adapter(std::unique_ptr<Port> port, Ipv4 ip, uint32_t mtu, const roce::Policy& policy,
          EventHandler on_event);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // Starts the helper thread, once: 0, or an errno. Nothing else may be called before.
  int Start();

  // Calls action(nic), with the lock held, then sends and tells what it has caused: if there is no memory for
  // that, later, by the helper or the next call. What is thrown is thrown by the action.
  template <typename Action>
  auto Do(Action action) {
    MutexLock lock(mutex_);
    ++entries_;
    if constexpr (std::is_void_v<decltype(action(nic_))>) {
      action(nic_);
      Send();
      Tell(lock);
    } else {
      const auto result = action(nic_);
      Send();
      Tell(lock);
      return result;
    }
  }

  // The same for what may complete requests by itself, after telling the adapter the time.
  template <typename Action>
  auto DoNow(Action action) {
    return Do([&](Nic& nic) {
      nic.SetTime(port_->Now());
      return action(nic);
    });
  }

  // Calls action(nic) with the lock held and tells what it has caused, but sends nothing: for what makes no
  // packet.
  template <typename Action>
  auto Note(Action action) {
    MutexLock lock(mutex_);
    ++entries_;
    const auto result = action(nic_);
    Tell(lock);
    return result;
  }

  // Takes completions; if there are none, looks at the network first. What throws has taken none.
  size_t Poll(uint32_t cq, std::span<Work> out);

  // Arms a queue whose events somebody waits for: from now on the helper watches the network.
  void Arm(uint32_t cq, bool solicited_only);

  // Of a thread that is about to sleep until the descriptor that is returned is readable, or the queue's next
  // event has come, and will then poll: the queue is armed, and packets are left to that thread until
  // EndSleep. One at a time: -1, and nothing is done, if another one sleeps so.
  int BeginSleep(uint32_t cq);
  // It is awake. True if the event is not to come any more, false if it has come, or is about to.
  bool EndSleep(uint32_t cq);

  // A queue pair number that no other adapter of this machine's address has; none if kMaxQps are taken, or
  // all are in use.
  std::optional<Qpn> NewQpn();
  void FreeQpn(Qpn qpn);
  static constexpr uint32_t kMaxQps = io::kMaxFilterBlocks * QpnBlock::kQpns;

  // Attaches a queue pair to a multicast group, or detaches it: 0 or an errno. The network is told of the
  // first and the last of a group. Attaching twice is the same as once.
  int Attach(Qpn qpn, Ip group);
  int Detach(Qpn qpn, Ip group);
  // To any group; the lock is held.
  bool IsAttached(Qpn qpn) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The port's clock.
  Nanos Now() const { return port_->Now(); }

  // As Nic says; never changes.
  uint32_t max_outstanding() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return nic_.max_outstanding(); }

  // As Port says.
  bool TakesSuperFrames();
  void SendSuperFrames(Ipv4 to, Qpn qpn, bool on);
  void SendByWireAlone(Ipv4 group, bool on);

  // As Nic says.
  void SetMoreAddresses(std::vector<Ip> more);

  // Waits until packets to the address can leave: 0, or an errno (ETIMEDOUT: it does not answer,
  // ENETUNREACH).
  int Reach(Ip to);

  // For calls that change and read what is beside the adapter, such as the consumer's event queues.
  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  // Held from when an event is put where the consumer reads it until its eventfd is signalled, which is after
  // mutex() was let go: whoever takes events back, with mutex() held, needs it too.
  Mutex& telling() ABSL_LOCK_RETURNED(telling_) { return telling_; }

 private:
  static constexpr int kBatch = 64;
  // What goes round inside the adapter may lead to more that does.
  static constexpr int kMaxRuns = 64;

  // Sends what there is to send, and sees to it that the helper wakes for the next timer. False if there was
  // no memory for all of it.
  bool Send() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells of events and lets go of the lock, in the order that does not wake anybody into waiting for it.
  // What there is no memory for stays, and the helper is woken to tell it.
  void Tell(MutexLock& lock) ABSL_UNLOCK_FUNCTION(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  bool IsMember(Ip group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int Receive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the interface has got the address since it was last asked; then the adapter knows it.
  bool HasNow(Ip address, Nanos now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if there was no memory for all of it; the next call goes on.
  bool Run(Nanos now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunTimers(Nanos now, WaitedClock::Looker looker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the helper's staying away.
  void CallHelper() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Nanos NextDefer(bool app_waits, bool app_looks, bool app_entered, int received) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Raises what there is to tell of the port. False if there was no memory for all of it; the next call goes
  // on.
  bool RaisePortNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HelperLoop();

  Mutex mutex_;
  Mutex telling_ ABSL_ACQUIRED_AFTER(mutex_);
  std::vector<int> signals_ ABSL_GUARDED_BY(telling_);  // eventfds to signal
  // Its clock, its wait and its descriptor are any thread's, and all else under the lock.
  const std::unique_ptr<Port> port_;
  Nic nic_ ABSL_GUARDED_BY(mutex_);
  EventHandler on_event_;
  Ipv4 ip_;
  std::vector<std::unique_ptr<QpnBlock>> blocks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Qpn> free_qpns_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<Ip, Qpn>> attached_ ABSL_GUARDED_BY(mutex_);

  // What the helper goes by.
  uint64_t entries_ ABSL_GUARDED_BY(mutex_) = 0;         // of the application into post and poll
  uint64_t looks_ ABSL_GUARDED_BY(mutex_) = 0;           // of the application at the network
  Nanos next_address_look_ ABSL_GUARDED_BY(mutex_) = 0;  // not before
  WaitedClock waited_ ABSL_GUARDED_BY(mutex_);           // of the application and the helper
  // For so long it leaves the network to the application; 0: not at all.
  Nanos helper_defers_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanos helper_until_ ABSL_GUARDED_BY(mutex_) = kNever;  // when it wakes by itself
  bool app_sleeps_ ABSL_GUARDED_BY(mutex_) = false;      // between BeginSleep and EndSleep
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  io::Descriptor wake_;  // an eventfd
  std::thread helper_;
};

}  // namespace epic::softnic
