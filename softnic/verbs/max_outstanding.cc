#include "softnic/verbs/max_outstanding.h"

#include "softnic/verbs/abi.h"

using namespace epic::softnic;

extern "C" uint32_t epic_softnic_max_outstanding(ibv_context* context) {
  return AdapterOf(context).max_outstanding();
}
