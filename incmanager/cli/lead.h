// How one of several managers comes to lead (PROTOCOL-CONTROL.md, 16).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/end_signals.h"
#include "base/status.h"
#include "incmanager/store/store.h"

namespace epic::manager {

// Stands by at `listen` until this process leads by the etcd that `store` names ("etcd:http://a:2379,..."),
// and gives its store; null if a signal has come before. ends: called on any thread when it leads no more, or
// is deaf; does not return. Errors: as EtcdServers', OpenEtcdStore's and Standby's.
StatusOr<std::unique_ptr<Store>> AwaitLead(const std::string& store, const std::string& listen,
                                           const EndSignals& signals,
                                           const std::function<void(const std::string& why)>& ends);

// Of a manager that leads: waits for a signal, and gives it; 0 if no agent has been heard for 6 s, and some
// were before: another manager may hear them. agents_heard: how many words of agents so far.
int AwaitEndOfLead(const EndSignals& signals, const std::function<uint64_t()>& agents_heard);

// After that: so long others have to lead before this process may again.
inline constexpr std::chrono::seconds kGivesWayFor{2};

}  // namespace epic::manager
