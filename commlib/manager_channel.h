// The way of a rank to its manager.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/grpc/channel.h"
#include "base/grpc/host_name.h"
#include "commlib/session_errors.h"
#include "epic/epic.h"

namespace epic::internal {

// Connects to the manager at this address. kManagerUnreachable when the time is over, whatever the resolver
// does; at once if this machine knows no such host.
inline Error ConnectToManager(const std::string& address, std::chrono::milliseconds timeout,
                              std::shared_ptr<grpc::Channel>* channel) {
  const auto deadline = std::chrono::system_clock::now() + timeout;
  grpc::ChannelArguments args;
  PingPeers(&args);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  *channel = ChannelTo(address, args);
  // gRPC would try for the whole time to connect to a host that nobody knows.
  if (AwaitAnswer(channel->get(), deadline) && (*channel)->GetState(false) != GRPC_CHANNEL_READY) {
    if (const Status host = FindHost(address, LeftUntil(deadline)); host.code() == StatusCode::kNotFound)
      return NoManagerThere(address, std::string(host.message()));
  }
  return (*channel)->WaitForConnected(deadline) ? Error() : ManagerSilent(address, timeout);
}

}  // namespace epic::internal
