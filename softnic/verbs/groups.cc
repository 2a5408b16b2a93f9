#include "softnic/verbs/groups.h"

#include <cerrno>
#include <optional>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

namespace epic::softnic {
namespace {

int SendAlone(Qp& qp, const ibv_gid& gid) {
  const std::optional<Ipv4> group = Ipv4Of(gid);
  if (!qp.is_ud() || qp.by_wire_alone || !group || !Ip(*group).is_multicast()) return EINVAL;
  qp.by_wire_alone = group;
  AdapterOf(qp.base.context).SendByWireAlone(*group, true);
  return 0;
}

}  // namespace
}  // namespace epic::softnic

using namespace epic::softnic;

extern "C" int epic_softnic_serves_groups(ibv_context*) { return 1; }
extern "C" int epic_softnic_send_by_wire_alone(ibv_qp* base, const ibv_gid* group) {
  return ErrnoOf(base->context, [base, group] { return SendAlone(*Of(base), *group); });
}
