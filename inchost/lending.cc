#include "inchost/lending.h"

namespace epic::host {

void Lending::AddTo(proto::HostInfo* info) const {
  if (servers_ != nullptr) *info->mutable_fallback() = servers_->Offer();
}

void Lending::OnManager(const proto::ToHost& message) {
  if (servers_ == nullptr) return;
  if (message.has_welcome()) {
    away_since_.reset();
    if (!message.welcome().takes_servers()) servers_->RemoveAll();
  } else if (message.has_make_server()) {
    servers_->Make(message.make_server());
  } else if (message.has_remove_server()) {
    servers_->Remove(message.remove_server().group());
  }
}

void Lending::OnStreamEnd(Nanos now) {
  if (!away_since_) away_since_ = now;
}

void Lending::Tick(Nanos now) {
  if (servers_ == nullptr || !away_since_ || now - *away_since_ < kManagerAway) return;
  away_since_.reset();
  servers_->RemoveAll();
}

proto::FromHost Lending::ToManager(const proto::ServerMade& made, const proto::HostInfo& info) {
  proto::FromHost message;
  *message.mutable_server_made() = made;
  for (const proto::HostPort& port : info.ports()) {
    if (port.ip() == made.ip()) message.mutable_server_made()->set_mac(port.mac());
  }
  return message;
}

proto::FromHost Lending::ToManager(const proto::ServerEnded& ended, const proto::HostInfo&) {
  proto::FromHost message;
  *message.mutable_server_ended() = ended;
  return message;
}

}  // namespace epic::host
