#include "softnic/verbs/share_acks.h"

#include <cerrno>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

using namespace epic::softnic;

extern "C" int epic_softnic_share_acks(ibv_qp* base, uint32_t messages, uint32_t delay_us) {
  return ErrnoOf(base->context, [=] {
    constexpr uint32_t kMost = 1024;
    if (!Of(base)->is_rc() || messages < 1 || messages > kMost) return EINVAL;
    AdapterOf(base->context).Do([&](Nic& nic) {
      nic.ShareAcks(Of(base)->init.qpn, static_cast<int>(messages), delay_us * epic::kMicrosecond);
    });
    return 0;
  });
}
