#include "softnic/verbs/sleep.h"

#include <cerrno>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

using namespace epic::softnic;

extern "C" int epic_softnic_begin_sleep(ibv_cq* cq, int* fd) {
  return ErrnoOf(cq->context, [=] {
    if (cq->channel == nullptr) return EINVAL;
    *fd = AdapterOf(cq->context).BeginSleep(Of(cq)->id);
    return *fd < 0 ? EBUSY : 0;
  });
}

extern "C" int epic_softnic_end_sleep(ibv_cq* cq) {
  return !IsInherited(cq->context) && AdapterOf(cq->context).EndSleep(Of(cq)->id) ? 1 : 0;
}
