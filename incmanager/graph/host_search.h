// Has switches ask for hosts whose ranks join while nobody hears them (docs/PROTOCOL.md, "The live graph").
// Sans-IO: answers and time come in, who is to ask for whom goes out. An engine asks for few at a time; each
// address has its turn at each switch, and its time begins when all of them have asked for it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/types.h"
#include "incmanager/topology.h"

namespace epic::manager {

class HostSearch {
 public:
  // Who was asked for by all switches is heard within so long, or not at all.
  static constexpr Nanos kFindWithin = 3 * kSecond;
  // Also if not all switches have asked by then.
  static constexpr Nanos kAtMost = 60 * kSecond;
  static constexpr Nanos kAskEvery = 500 * kMillisecond;
  // What an engine asks for: so many at once, then one each kPerAsk.
  static constexpr int kAtOnce = 20;
  static constexpr Nanos kPerAsk = 100 * kMillisecond;

  struct Order {
    NodeId node = kNoNode;
    Ipv4 ip{};
  };

  // These are looked for from now on, and no others.
  void Want(Nanos now, const std::set<Ipv4>& addresses);
  // What is to be asked now by the switches that can be asked. Each order is answered by OnAnswer.
  std::vector<Order> Due(Nanos now, const std::vector<NodeId>& switches);
  // asked: false if the engine has asked for too many lately; true also of one that cannot ask.
  void OnAnswer(Nanos now, NodeId node, Ipv4 ip, bool asked);
  // Nobody waits for it any longer. Of one that is looked for.
  bool IsOver(Nanos now, Ipv4 ip) const;

 private:
  struct Ask {
    Nanos at = 0;  // the last one; 0: none that was granted, and none under way
    bool under_way = false;
    bool granted = false;  // once
  };
  struct Search {
    Nanos give_up = 0;
    std::optional<Nanos> until;  // all have asked
    std::map<NodeId, Ask> asks;
  };

  void AskAt(Nanos now, NodeId node, std::vector<Order>* orders);

  std::map<Ipv4, Search> searches_;
  std::map<NodeId, Nanos> full_at_;  // when an engine may ask for kAtOnce again
};

}  // namespace epic::manager
