// Takes the switches of a network from one set of forwarding tables to another without a loop in between
// (docs/PROTOCOL-CONTROL.md, section 14): what is to change is withdrawn everywhere before any of what is
// new is set. Sans-IO: answers and time come in, what is to be sent goes out.
//
//   withdrawing  each switch keeps only those of its ways that are wanted as they are
//   draining     if flood ports were withdrawn: frames that were flooded before arrive
//   setting      each switch gets what is wanted
//
// So all tables in the network are, at any moment, parts of one set of ways that ends everywhere. Ports of
// multicast groups go with the flood ports, which they are; groups that come and go withdraw nothing. A
// switch that does not answer holds the others up for kPatience. After that they get what ends together with
// whatever it may have, too, and it is withdrawn from when it answers again.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/topology.h"

namespace epic::manager {

class TableUpdate {
 public:
  static constexpr Nanos kPatience = kSecond;
  static constexpr Nanos kDrain = 20 * kMillisecond;

  struct Order {
    NodeId node = kNoNode;
    Forwarding table;
  };

  // topology outlives this.
  explicit TableUpdate(const Topology* topology) : topology_(topology) {}

  // The tables that are wanted from now on, by NodeId, for the topology as it is now. If a node has another
  // MAC or address than before, which are in what is sent, all are sent anew.
  void Want(std::vector<Forwarding> tables);
  const std::vector<Forwarding>& wanted() const { return want_; }

  // A switch can be sent tables, and is to be sent one in any case. empty: its engine has started anew, so
  // that all it was sent before it was gone is lost.
  void OnReady(NodeId node, bool empty);
  // Its engine has stopped, or the whole switch: it forwards nothing.
  void OnGone(NodeId node);
  // Nobody passes tables on to it; it goes on with what it has.
  void OnUnreachable(NodeId node);
  // The answer to the order before. Of one that went wrong nobody knows whether it was obeyed; the next is
  // sent after OnReady.
  void OnAnswer(NodeId node, bool ok);

  // What is to be sent now. To be called after any of these, and from time to time. Each order is answered by
  // OnAnswer, in the order of that switch.
  std::vector<Order> Due(Nanos now);

  // Whether all switches that can be reached have what is wanted.
  bool settled() const { return settled_; }

 private:
  enum class Phase : uint8_t { kWithdrawing, kDraining, kSetting };
  struct Switch {
    bool reachable = false;
    bool failed = false;     // the last order; wait for OnReady
    bool must_send = false;  // whatever it has
    bool fits = true;        // all that it may have is wanted
    bool done = false;       // it has what it is to get
    Forwarding has;
    std::optional<Forwarding> asked;
    Nanos asked_at = 0;
    std::vector<Forwarding> uncertain;  // that it may have instead
    std::vector<Forwarding> lost;       // what it had, or may have had, when it was gone
  };

  static bool CanBeSent(const Switch& at) { return at.reachable && !at.failed && !at.asked; }
  // The switches of which it is known what is wanted.
  std::span<const NodeId> Known() const;
  // All tables that it may have.
  static std::vector<const Forwarding*> MayHave(const Switch& at);
  bool Fits(NodeId node) const;
  void Judge(NodeId node);
  void FollowAddresses();
  Forwarding Withdrawn(NodeId node);
  // The ways to the target end, with all that switches may have that are not as is wanted.
  bool EndsAt(NodeId target) const;
  bool FloodsEnd() const;
  void ChooseTarget();
  bool Withdraw(Nanos now, std::vector<Order>* orders);
  void Set(Nanos now, std::vector<Order>* orders);
  void Send(Nanos now, NodeId node, Forwarding table, std::vector<Order>* orders);

  const Topology* topology_;
  Phase phase_ = Phase::kSetting;
  bool settled_ = true;
  bool drain_ = false;  // flood ports have been withdrawn since the last drain
  Nanos drained_at_ = 0;
  std::vector<Forwarding> want_;
  std::vector<std::pair<Ipv4, Mac>> addresses_;  // by NodeId, when it was wanted
  std::vector<Forwarding> target_;               // in kSetting: what is wanted, but for what would not end
  std::vector<Switch> switches_;                 // by NodeId
};

}  // namespace epic::manager
