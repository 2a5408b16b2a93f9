// Groups' fallback servers on this host: the memory that it lends, and for each group a queue pair to its
// switch (docs/PROTOCOL-MODE-V.md, section 5; docs/PROTOCOL-CONTROL.md, section 7.5).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "inchost/lending.h"
#include "proto/manager.pb.h"

namespace epic::host {

struct ServersOptions {
  uint64_t bytes = 0;  // for all groups together
  std::string ifname;  // of the network device by whose RoCE port they are served; empty: the first
};

// Thread-safe. One thread of its own serves all groups, and sleeps while nothing comes; kSideBySide others
// make and remove servers, as a connection may take some seconds.
class Servers final : public ServerMaker {
 public:
  // So many connections are made at a time.
  static constexpr size_t kSideBySide = 16;
  // Called on these threads, one at a time and in order; may not call back.
  struct Said {
    std::function<void(const proto::ServerMade&)> made;
    std::function<void(const proto::ServerEnded&)> ended;
  };
  // NOT_FOUND if there is no such port, RESOURCE_EXHAUSTED or INTERNAL if verbs refuse.
  static StatusOr<std::unique_ptr<Servers>> Open(const ServersOptions& options, Said said);
  // All servers end, and nothing more is said.
  ~Servers() override;
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Answered by Said::made. What is asked for one group is done in order, and behind RemoveAll what was asked
  // for before it; groups do not wait for each other.
  void Make(const proto::MakeServer& request) override;
  // Nothing is said of what is removed.
  void Remove(const proto::ServedGroup& group) override;
  void RemoveAll() override;
  proto::FallbackOffer Offer() const override;

 private:
  class Impl;
  explicit Servers(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace epic::host
