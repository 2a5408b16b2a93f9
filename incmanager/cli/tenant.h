// incmanager tenant set: what a tenant is to have then.
#pragma once

#include "incmanager/cli/client.h"
#include "proto/manager.pb.h"

namespace epic::manager {

// The tenant with what the options name, and for the rest what it has among all of these; a new one has no
// limit and no guarantee.
proto::Tenant TenantWith(const proto::TenantsReply& all, const TenantOptions& options);

}  // namespace epic::manager
