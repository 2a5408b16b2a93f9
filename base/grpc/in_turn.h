// The servers of a list of which one answers: asked in turn until it is found. Header only, as
// server_stream.h.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/grpc/channel.h"

namespace epic {

// Has a connection to one of several given up after 9 s without a word of it: another one may have what it
// had. A manager says something each 5 s.
inline void PingPeersOfMany(grpc::ChannelArguments* args) {
  PingPeers(args);
  args->SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 6'000);
  args->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
}

// Of a list, an attempt to connect takes no longer than this.
inline constexpr int kConnectOneMs = 2'000;
// A connection to a machine that is gone stays for so long and longer.
inline constexpr std::chrono::seconds kSilentFor(5);

// Stubs of a service, one for each server. Found and Next are for one thread at a time; the others may ask
// for the stub of now at the same time.
template <typename Service>
class InTurn {
 public:
  using Stub = typename Service::Stub;
  // servers: as ManagerAddress gives them.
  InTurn(const std::string& servers, grpc::ChannelArguments args) : addresses_(AddressesOf(servers)) {
    if (are_many()) args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectOneMs);
    for (const std::string& address : addresses_) {
      channels_.push_back(ChannelTo(address, args));
      stubs_.push_back(Service::NewStub(channels_.back()));
    }
    silent_until_.resize(addresses_.size());
    is_wrong_.resize(addresses_.size());
  }

  Stub* operator->() const { return stubs_[at_].get(); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channels_[at_]; }
  const std::string& address() const { return addresses_[at_]; }
  bool are_many() const { return addresses_.size() > 1; }
  const std::vector<std::shared_ptr<grpc::Channel>>& channels() const { return channels_; }
  void Choose(size_t at) { at_ = at; }

  // Whether the one of now is passed over for what it has answered: of several one may be at a wrong address,
  // and know nothing of the service. say: gets a line for people, once of each.
  template <typename Say>
  bool IsPassedOver(const grpc::Status& status, const Say& say) {
    if (!are_many() || status.error_code() != grpc::StatusCode::UNIMPLEMENTED) return false;
    if (is_wrong_[at_]) return true;
    is_wrong_[at_] = true;
    say("what answers at " + address() + " is no manager, and is passed over" +
        (status.error_message().empty() ? "" : ": " + status.error_message()));
    return true;
  }

  // It is the one of now.
  void Found() { in_vain_ = 0; }
  // It is not. False if all have been asked in vain since one was found, or since this was false.
  bool Next() {
    at_ = (at_ + 1) % stubs_.size();
    in_vain_ = (in_vain_ + 1) % stubs_.size();
    return in_vain_ != 0;
  }
  // The same for who asks for ever: of those that are connected, if any is, so that nobody waits for one that
  // is gone; all are connected to meanwhile. silent: the one of now has not answered; it is asked again when
  // kSilentFor is over, though it seems to be connected, or if there is no other. False if a round is over:
  // who asks takes a rest before the next.
  bool NextConnected(bool silent = false) {
    const auto now = std::chrono::steady_clock::now();
    const size_t before = at_, count = stubs_.size();
    if (silent) silent_until_[before] = now + kSilentFor;
    size_t next = (before + 1) % count;
    bool is_found = false;
    for (size_t i = 1; i <= count; ++i) {
      const size_t at = (before + i) % count;
      const bool is_there = channels_[at]->GetState(true) == GRPC_CHANNEL_READY && silent_until_[at] <= now;
      if (!is_there || is_found) continue;
      next = at;
      is_found = true;
    }
    at_ = next;
    return next > before;
  }

 private:
  const std::vector<std::string> addresses_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<Stub>> stubs_;
  std::vector<std::chrono::steady_clock::time_point> silent_until_;
  std::vector<bool> is_wrong_;  // has been found so
  std::atomic<size_t> at_ = 0;
  size_t in_vain_ = 0;
};

}  // namespace epic
