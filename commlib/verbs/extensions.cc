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

std::optional<uint32_t> MaxOutstanding(ibv_context* context) {
  auto* const most = Find<uint32_t(ibv_context*)>("epic_softnic_max_outstanding");
  return most != nullptr ? std::optional(most(context)) : std::nullopt;
}

bool ServesGroups(ibv_context* context) {
  auto* const serves = Find<int(ibv_context*)>("epic_softnic_serves_groups");
  return serves != nullptr && serves(context) != 0;
}

bool SendSuperFrames(ibv_qp* qp) {
  auto* const send = Find<int(ibv_qp*)>("epic_softnic_send_super_frames");
  return send != nullptr && send(qp) == 0;
}

bool SendSuperFramesToGroup(ibv_qp* qp, const ibv_gid& group) {
  auto* const send = Find<int(ibv_qp*, const ibv_gid*)>("epic_softnic_send_super_frames_to_group");
  return send != nullptr && send(qp, &group) == 0;
}

void SendByWireAlone(ibv_qp* qp, const ibv_gid& group) {
  auto* const send = Find<int(ibv_qp*, const ibv_gid*)>("epic_softnic_send_by_wire_alone");
  if (send != nullptr) send(qp, &group);
}

void ShareAcks(ibv_qp* qp, uint32_t messages, uint32_t delay_us) {
  static auto* const share = Find<int(ibv_qp*, uint32_t, uint32_t)>("epic_softnic_share_acks");
  if (share != nullptr) share(qp, messages, delay_us);
}

int BeginSleep(ibv_cq* cq) {
  static auto* const begin = Find<int(ibv_cq*, int*)>("epic_softnic_begin_sleep");
  int fd = -1;
  return begin != nullptr && begin(cq, &fd) == 0 ? fd : -1;
}

bool EndSleep(ibv_cq* cq) {
  static auto* const end = Find<int(ibv_cq*)>("epic_softnic_end_sleep");
  return end != nullptr && end(cq) != 0;
}

}  // namespace epic::verbs
