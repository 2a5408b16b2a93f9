// The process's one progress thread: sleeps on the completion channels of communicators that have calls
// outstanding and nobody waiting for them, and looks after their deadlines once a second.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "commlib/calls_info.h"

namespace epic::internal {

// What the thread looks after: a communicator.
class Progressing {
 public:
  virtual ~Progressing() = default;
  // Called by the thread, one at a time.
  virtual void OnChannelReady() = 0;
  virtual void OnTick() = 0;
  // On any thread, also beside the others.
  virtual CallsInfo TellCalls() = 0;
};

class Progress {
 public:
  // The instance of this process; lives for ever.
  static Progress& Get();
  // Makes this the process whose thread it is, if none is yet. False in a child of that process, where there
  // is no thread and a lock of it may be held for ever: nothing here, nor a session, may be used.
  static bool Claim();

  // From now on Arm can be used for comm; the thread is started with the first one.
  void Add(const std::shared_ptr<Progressing>& comm, int channel_fd);
  // When it returns, the thread neither looks at the descriptor any more nor holds the communicator, nor does
  // who runs CallsOfOthers: whoever drops it then has its device closed. Not from these threads, and without a
  // lock that OnTick or TellCalls waits for.
  void Remove(int channel_fd);
  // One call of OnChannelReady when the descriptor is readable.
  void Arm(int channel_fd);
  // What all communicators but this one tell of their calls.
  std::vector<CallsInfo> CallsOfOthers(const Progressing* but);

 private:
  Progress();
  void Run();
  void OnReady(int channel_fd);
  void Tick();
  // All there are, held until LetGo.
  std::vector<std::shared_ptr<Progressing>> HoldAll();
  void LetGo();

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::mutex mutex_;
  bool started_ = false;
  int holders_ = 0;  // threads that hold communicators
  std::condition_variable let_go_;
  std::map<int, std::weak_ptr<Progressing>> comms_;
};

}  // namespace epic::internal
