#include "commlib/verbs/extensions.h"

#include <dlfcn.h>

namespace epic::verbs {
namespace {

// Looked up by name: a program that runs on softnic was linked with any libibverbs.
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool TakesSuperFrames(ibv_context* context) {
  auto* const takes = Find<int(ibv_context*)>("epic_softnic_takes_super_frames");
  return takes != nullptr && takes(context) != 0;
}

bool SendSuperFrames(ibv_qp* qp) {
  auto* const send = Find<int(ibv_qp*)>("epic_softnic_send_super_frames");
  return send != nullptr && send(qp) == 0;
}

}  // namespace epic::verbs
