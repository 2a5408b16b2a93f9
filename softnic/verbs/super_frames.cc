#include "softnic/verbs/super_frames.h"

#include <cerrno>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

using namespace epic::softnic;

extern "C" int epic_softnic_takes_super_frames(ibv_context* context) {
  return AdapterOf(context).TakesSuperFrames() ? 1 : 0;
}

extern "C" int epic_softnic_send_super_frames(ibv_qp* base) {
  return ErrnoOf(base->context, [base] {
    Qp& qp = *Of(base);
    Adapter& adapter = AdapterOf(base->context);
    if (qp.is_ud() || (base->state != IBV_QPS_RTR && base->state != IBV_QPS_RTS)) return EINVAL;
    const std::optional<epic::Ipv4> to = Ipv4Of(qp.attr.ah_attr.grh.dgid);
    if (!to) return EINVAL;
    if (!adapter.TakesSuperFrames()) return EOPNOTSUPP;
    qp.super_frames_to = {*to, epic::Qpn{qp.attr.dest_qp_num}};
    adapter.SendSuperFrames(qp.super_frames_to->first, qp.super_frames_to->second, true);
    return 0;
  });
}
