// How one of several managers comes to lead (PROTOCOL-CONTROL.md, 16).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "base/end_signals.h"
#include "base/status.h"
#include "incmanager/store/etcd_lead.h"
#include "incmanager/store/store.h"

namespace epic::manager {

// A lead, and the store that goes with it.
struct Leading {
  std::shared_ptr<EtcdLead> lead;
  std::unique_ptr<Store> store;
};

// Stands by at `listen` until this process leads by the etcd that `store` names ("etcd:http://a:2379,...").
// Without a store if a signal has come before. ends: called on any thread when it leads no more, or is deaf;
// does not return. Errors: as EtcdServers', OpenEtcdStore's and Standby's.
StatusOr<Leading> AwaitLead(const std::string& store, const std::string& listen, const EndSignals& signals,
                            const std::function<void(const std::string& why)>& ends);

// What `start` gives, which asks the store of this lead and may wait for etcd for as long as that leads; on a
// thread of its own. Nothing if a signal has come meanwhile: the lead is given back.
template <typename Start>
auto StartUnlessEnded(const EndSignals& signals, EtcdLead* lead, const Start& start)
    -> std::optional<decltype(start())> {
  constexpr std::chrono::milliseconds kEach(100);
  auto started = std::async(std::launch::async, start);
  while (started.wait_for(kEach) != std::future_status::ready) {
    if (signals.WaitFor(std::chrono::milliseconds(0)) == 0) continue;
    lead->Resign();
    return std::nullopt;
  }
  return started.get();
}

// Of a manager that leads: waits for a signal, and gives it; 0 if no agent has been heard for 6 s, and some
// were before: another manager may hear them. agents_heard: how many words of agents so far.
int AwaitEndOfLead(const EndSignals& signals, const std::function<uint64_t()>& agents_heard);

// After that: so long others have to lead before this process may again.
inline constexpr std::chrono::seconds kGivesWayFor{2};

}  // namespace epic::manager
