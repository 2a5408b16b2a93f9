// The way to a daemon of ours, for whoever calls one. Header only, as server_stream.h.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

namespace epic {

// A channel to HOST:PORT or unix:PATH. It never asks a proxy: http_proxy, https_proxy and grpc_proxy are for the programs beside
// which a rank runs, and no proxy knows a fabric's management addresses.
inline std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address, grpc::ChannelArguments args = {}) {
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

}  // namespace epic
