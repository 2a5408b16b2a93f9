#include "softnic/verbs/super_frames.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/peer_list.h"

namespace epic::softnic {
namespace {

constexpr char kVariable[] = "EPIC_SOFTNIC_SUPER_FRAMES";

PeerList ReadList() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr) return {};
  std::vector<std::string> wrong;
  PeerList list = PeerList::Parse(text, &wrong);
  for (const std::string& entry : wrong)
    std::fprintf(stderr, "softnic: %s: '%s' is no IPv4 address nor prefix, such as 10.0.0.7 or 10.1.0.0/16\n",
                 kVariable, entry.c_str());
  return list;
}

// As it was when first asked for.
const PeerList& Listed() {
  static const PeerList list = ReadList();
  return list;
}

int Send(Qp& qp) {
  Adapter& adapter = AdapterOf(qp.base.context);
  if (!qp.is_rc() || (qp.base.state != IBV_QPS_RTR && qp.base.state != IBV_QPS_RTS)) return EINVAL;
  const std::optional<Ipv4> to = Ipv4Of(qp.attr.ah_attr.grh.dgid);
  if (!to) return EINVAL;
  if (!adapter.TakesSuperFrames()) return EOPNOTSUPP;
  qp.super_frames_to = {*to, Qpn{qp.attr.dest_qp_num}};
  adapter.SendSuperFrames(qp.super_frames_to->first, qp.super_frames_to->second, true);
  return 0;
}

int SendToGroup(Qp& qp, const ibv_gid& gid) {
  Adapter& adapter = AdapterOf(qp.base.context);
  const std::optional<Ipv4> group = Ipv4Of(gid);
  if (!qp.is_ud() || qp.super_frames_to || !group || !Ip(*group).is_multicast()) return EINVAL;
  if (!adapter.TakesSuperFrames()) return EOPNOTSUPP;
  qp.super_frames_to = {*group, roce::kMulticastQpn};
  adapter.SendSuperFrames(qp.super_frames_to->first, qp.super_frames_to->second, true);
  return 0;
}

}  // namespace

void SendSuperFramesIfListed(Qp& qp) {
  qp.super_frames_listed = false;
  const std::optional<Ipv4> to = Ipv4Of(qp.attr.ah_attr.grh.dgid);
  if (!qp.is_rc() || !to || !Listed().Contains(*to)) return;
  qp.super_frames_listed = Send(qp) == 0;
  static std::atomic<bool> told = false;
  if (!qp.super_frames_listed && !told.exchange(true))
    std::fprintf(stderr,
                 "softnic: %s: %s does not carry super-frames (a veth whose tx-udp-segmentation is on does, "
                 "unless EPIC_SOFTNIC_SINGLE_FRAMES is set); single frames leave\n",
                 kVariable, qp.base.context->device->name);
}

void TellUnanswered(const Qp& qp) {
  if (!qp.super_frames_listed) return;
  std::fprintf(stderr,
               "softnic: queue pair 0x%x gets no answer from its peer, which %s lists: if the peer or the "
               "way to it does "
               "not take super-frames, take it off the list\n",
               qp.base.qp_num, kVariable);
}

}  // namespace epic::softnic

using namespace epic::softnic;

extern "C" int epic_softnic_takes_super_frames(ibv_context* context) {
  return AdapterOf(context).TakesSuperFrames() ? 1 : 0;
}

extern "C" int epic_softnic_send_super_frames_to_group(ibv_qp* base, const ibv_gid* group) {
  return ErrnoOf(base->context, [base, group] { return SendToGroup(*Of(base), *group); });
}
extern "C" int epic_softnic_send_super_frames(ibv_qp* base) {
  return ErrnoOf(base->context, [base] { return Send(*Of(base)); });
}
