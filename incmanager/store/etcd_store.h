// A store in etcd, of several managers, of which the one that leads writes: PROTOCOL-CONTROL.md, 16.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "incmanager/store/etcd_client.h"
#include "incmanager/store/etcd_lead.h"
#include "incmanager/store/store.h"

namespace epic::manager {

// All rows there, as they were at one moment. Errors: as EtcdClient's; FAILED_PRECONDITION if they are of
// another format; DATA_LOSS, naming the key, if one is damaged or no manager's.
StatusOr<Contents> ReadEtcd(EtcdClient* etcd);

// The store of the process that leads by `lead`, whose revision is its epoch; gives the lead back when it is
// closed. What it does it tries until it is done or the lead is lost, or given back. Errors: those of
// ReadEtcd; ABORTED if the lead is lost meanwhile. Nothing is changed then.
StatusOr<std::unique_ptr<Store>> OpenEtcdStore(std::shared_ptr<EtcdClient> etcd,
                                               std::shared_ptr<EtcdLead> lead);

}  // namespace epic::manager
