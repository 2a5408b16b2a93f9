#include "incmanager/rpc/standby.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "base/address.h"
#include "base/grpc/acceptor.h"
#include "base/grpc/listener.h"
#include "base/grpc/self_check.h"
#include "base/grpc/standing_by.h"

namespace epic::manager {

struct Standby::Impl {
  Impl(Listener listener, std::function<std::string()> words)
      : service(std::move(words)),
        acceptor(std::move(listener), {.say = [](const std::string& line) { spdlog::warn("{}", line); }}) {}
  StandingBy service;
  Acceptor acceptor;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<SelfCheck> check;
};

StatusOr<std::unique_ptr<Standby>> Standby::Start(const std::string& listen,
                                                  std::function<std::string()> words,
                                                  std::function<void(const std::string& why)> deaf) {
  const auto wrong = [](const Status& status) {
    return MakeStatus(status.code(), "--listen: " + std::string(status.message()));
  };
  const StatusOr<Address> address = ListenAddress(listen);
  if (!address.ok()) return wrong(address.status());
  StatusOr<Listener> listener = Listener::At(*address);
  if (!listener.ok()) return wrong(listener.status());
  auto impl = std::make_unique<Impl>(*std::move(listener), std::move(words));
  grpc::ServerBuilder builder;
  impl->acceptor.AddTo(&builder, {});
  builder.RegisterCallbackGenericService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr)
    return MakeStatus(StatusCode::kUnavailable, fmt::format("cannot serve on {}", listen));
  impl->acceptor.Start();
  impl->check = std::make_unique<SelfCheck>(&impl->acceptor, std::move(deaf));
  return std::unique_ptr<Standby>(new Standby(std::move(impl)));
}

Standby::Standby(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Standby::~Standby() {
  impl_->check.reset();
  impl_->acceptor.Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now());
  impl_->server->Wait();
}

int Standby::port() const { return impl_->acceptor.port(); }

}  // namespace epic::manager
