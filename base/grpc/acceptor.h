// Takes connections in front of a gRPC server, whose own listener is deaf for ever once it has run out of
// descriptors (gRPC 1.51). What connects gets to gRPC only when it has said what a client says first; until
// then it costs a descriptor, and gives way to whoever comes next when there is no room. What it says then is
// passed on no faster than gRPC can bear (Relay).
#pragma once

#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/grpc/connections.h"
#include "base/grpc/listener.h"
#include "base/grpc/relay.h"
#include "base/types.h"

namespace epic {

// What a server may take of this process.
struct ServerBounds {
  int streams = 1024;               // of a connection, at once
  size_t memory = size_t{256} << 20;  // of all messages under way
  int threads = 512;                // that answer calls: one waits for as long as its transport has others to serve
  int queues = 2;                   // of calls; each has a thread at least
};

struct AcceptorOptions {
  // 0: what the limit of descriptors leaves, with three for each; of_peer 0: half of all.
  Connections::Bounds bounds;
  // HTTP/2 frames that a peer may send in a second, by all its connections, of which one that begins a call counts
  // for several (FrameCounter); a quarter of them at once. More wait.
  uint64_t frames_a_second = 6000;
  // For the first words, and as long again for gRPC's handshake.
  std::chrono::milliseconds patience{10'000};
  // TCP_USER_TIMEOUT of each connection: the peer's kernel acknowledges what is sent, or it is given up. 0: as
  // the system has it.
  std::chrono::milliseconds user_timeout{0};
  // One line for the log, at most once a second; on the acceptor's thread.
  std::function<void(const std::string& line)> say;
};

class Acceptor {
 public:
  Acceptor(Listener listener, AcceptorOptions options);
  // As Stop. Connections that are still there are closed.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Has the server that is built take its connections from here alone, within these bounds.
  void AddTo(grpc::ServerBuilder* builder, const ServerBounds& bounds);
  // When the server runs. From now on somebody answers.
  void Start();
  // Before the server ends: nobody is taken any more. What it still says is passed on until this is destroyed,
  // when the server has gone.
  void Stop();

  const Listener& listener() const { return listener_; }
  int port() const { return listener_.bound().port; }
  // How many have not been taken, or have given way, so far.
  uint64_t refused() const { return refused_; }

  // A connection from this process to itself (SelfCheck) is beyond all bounds: who comes from here, as
  // getsockname() has it.
  void Expect(const std::string& own_name);

 private:
  enum class Phase : uint8_t { kTaking, kPassing, kEnding };

  void Loop();
  void Take(int listening);
  void TakeSpared(int listening);
  void Hear(int fd);
  void HandOver(int fd);
  void Close(int fd);
  void GiveUpSilent(Nanos now);
  bool MakeRoom(const std::string& peer);
  void SetPhase(Phase phase);
  void StopTaking();
  void Refuse(const std::string& why);
  void SayRefused(Nanos now);
  int WaitMs(Nanos now) const;

  Listener listener_;
  const AcceptorOptions options_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  int epoll_ = -1, wake_ = -1;
  int spare_ = -1;  // given up for as long as a connection is refused for lack of descriptors

  // Of the loop's thread.
  Connections connections_;
  Relay relay_;
  bool taking_ = true;
  Nanos said_ = 0;
  std::map<std::string, uint64_t> unsaid_;  // refusals since the log was told, by why

  std::atomic<uint64_t> refused_ = 0;
  std::atomic<Phase> phase_ = Phase::kTaking;
  std::mutex mutex_;
  std::string own_name_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace epic
