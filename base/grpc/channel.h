// The way to a daemon of ours, for whoever calls one. Header only, as server_stream.h.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

namespace epic {

// A channel to HOST:PORT or unix:PATH, as ManagerAddress gives them. It never asks a proxy: http_proxy,
// https_proxy and grpc_proxy are for the programs beside which a rank runs, and no proxy knows a fabric's
// management addresses.
inline std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address,
                                                grpc::ChannelArguments args = {}) {
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

// Has a connection whose peer's kernel acknowledges nothing for 10 s given up, and made anew: TCP alone waits twice as long
// each time, up to two minutes after the network is back. gRPC sets TCP_USER_TIMEOUT only with keepalive; its pings, which a
// process that is stopped does not answer, are sent next to never.
inline void GiveUpDeadPeers(grpc::ChannelArguments* args) {
  args->SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 2'000'000'000);
  args->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
}

// Has a peer whose process does not answer a ping given up: after 15 s, of which 10 are between two pings. For whoever holds a
// stream to a manager.
inline void PingPeers(grpc::ChannelArguments* args) {
  args->SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  args->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  args->SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

// What is left until a deadline that AwaitAnswer takes, for FindHost.
template <typename Time>
std::chrono::nanoseconds LeftUntil(Time deadline) {
  return std::max<std::chrono::nanoseconds>(deadline - Time::clock::now(), std::chrono::nanoseconds(0));
}

// Waits until the channel is connected, or an attempt to connect has failed: then a call says at once what is
// the matter. False if neither is so by the deadline: nobody answers there.
template <typename Time>
bool AwaitAnswer(grpc::Channel* channel, Time deadline) {
  for (;;) {
    const grpc_connectivity_state state = channel->GetState(true);
    if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_TRANSIENT_FAILURE) return true;
    if (!channel->WaitForStateChange(state, deadline)) return false;
  }
}

}  // namespace epic
