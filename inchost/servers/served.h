// One group's fallback server: its queue pair to the switch, the memory with which the NIC works, and the
// sums.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "commlib/verbs/completion_queue.h"
#include "commlib/verbs/device.h"
#include "commlib/verbs/queue_pair.h"
#include "fallback/leg.h"
#include "proto/manager.pb.h"

namespace epic::host {

// Not thread-safe, but for Connect.
class Served final : public fallback::LegPort {
 public:
  // Completions on the common queue that a server may have.
  static constexpr uint32_t kCompletions = kLegReceives + kLegSums;

  // With all receives posted; the request has been judged (Lent). number: in the upper half of its
  // completions' wr_id. The errors of Memory::Register and QueuePair::Create.
  static Error Make(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                    const proto::MakeServer& request, uint32_t number, std::unique_ptr<Served>* served);
  // Its queue pair goes before the memory that it works with.
  ~Served() override { qp_.reset(); }

  // Blocks for up to some seconds, and no other function needs to wait for it.
  Error Connect() { return qp_->Connect(connect_); }

  // Why the leg has ended.
  struct End {
    std::string field;  // of a message of the switch; empty: the connection failed
    std::string message;
  };
  // One of its own. If the leg ends by it, that is the last.
  std::optional<End> OnCompletion(const ibv_wc& done);

  uint32_t qpn() const { return qp_->qpn(); }
  const proto::ServedGroup& group() const { return group_; }
  const std::string& name() const { return name_; }
  // "switch leaf1 at 10.0.255.1".
  const std::string& peer() const { return connect_.name; }

  // LegPort.
  bool PostReceive(uint32_t number, std::span<uint8_t> room) override;
  bool PostSend(uint32_t number, uint32_t immediate, std::span<const uint8_t> bytes) override;

 private:
  Served(const proto::MakeServer& request, uint32_t number);

  const proto::ServedGroup group_;
  const std::string name_;
  const uint64_t wr_id_;  // the upper half of it
  verbs::ConnectInfo connect_;
  std::unique_ptr<uint8_t[]> bytes_;
  std::shared_ptr<verbs::Memory> memory_;
  std::unique_ptr<verbs::QueuePair> qp_;
  fallback::Leg leg_;
};

}  // namespace epic::host
