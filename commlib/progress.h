// The process's one progress thread: sleeps on the completion channels of communicators that have calls
// outstanding and nobody waiting for them, and looks after their deadlines once a second.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace epic::internal {

class Comm;

class Progress {
 public:
  // The instance of this process; lives for ever.
  static Progress& Get();
  // Makes this the process whose thread it is, if none is yet. False in a child of that process, where there
  // is no thread and a lock of it may be held for ever: nothing here, nor a session, may be used.
  static bool Claim();

  // From now on Arm can be used for comm; the thread is started with the first one.
  void Add(const std::shared_ptr<Comm>& comm, int channel_fd);
  // When it returns, the thread does not look at the descriptor any more.
  void Remove(int channel_fd);
  // One call of Comm::OnChannelReady when the descriptor is readable.
  void Arm(int channel_fd);

 private:
  Progress();
  void Run();
  std::shared_ptr<Comm> Find(int channel_fd);
  void Tick();

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::mutex mutex_;
  bool started_ = false;
  std::map<int, std::weak_ptr<Comm>> comms_;
};

}  // namespace epic::internal
