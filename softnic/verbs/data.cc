// Work requests in, completions out: the calls that take the fast road, through ibv_context::ops.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/super_frames.h"

namespace epic::softnic {
namespace {

int ToErrno(roce::PostResult result) {
  return result == roce::PostResult::kOk ? 0 : result == roce::PostResult::kFull ? ENOMEM : EINVAL;
}

roce::Sge ToSge(const ibv_sge& sge) { return {sge.addr, sge.length, sge.lkey}; }

bool ToSges(const ibv_sge* list, int count, roce::SgeList* out) {
  if (count < 0 || static_cast<size_t>(count) > roce::kMaxSge) return false;
  const auto pieces = static_cast<size_t>(count);
  if (pieces > roce::kSgesInPlace) {
    std::array<roce::Sge, roce::kMaxSge> all;
    std::transform(list, list + pieces, all.begin(), ToSge);
    *out = roce::SgeList::Of(std::span(all).first(pieces));
    return true;
  }
  out->count = static_cast<uint8_t>(count);
  std::transform(list, list + pieces, out->sge.begin(), ToSge);
  return true;
}

using InlineBuffer = std::array<uint8_t, kMaxInline>;

// What makes no packet: 0, or an errno. Windows of type 1 are bound by ibv_bind_mw.
int ToLocal(const Qp& qp, const ibv_send_wr& wr, roce::SendWr* out) {
  if (wr.num_sge != 0 || qp.is_ud()) return EINVAL;
  if (out->opcode != roce::WrOpcode::kBindMw) return 0;
  if (wr.bind_mw.mw != nullptr && wr.bind_mw.mw->type != IBV_MW_TYPE_2) return EINVAL;
  return ToWindowBind(qp, wr.bind_mw.mw, wr.bind_mw.bind_info, wr.bind_mw.rkey, &out->bind.emplace());
}

// 0, or an errno. Inline data in several pieces is gathered into `bytes`, which must live until the request
// is posted, as must a single piece.
int ToSendWr(const Qp& qp, const ibv_send_wr& wr, InlineBuffer* bytes, roce::SendWr* out) {
  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_LOCAL_INV:
    case IBV_WR_BIND_MW:
    case IBV_WR_SEND_WITH_INV:
      out->opcode = static_cast<roce::WrOpcode>(wr.opcode);
      break;
    default:
      return EOPNOTSUPP;
  }
  out->wr_id = wr.wr_id;
  out->signaled = qp.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  out->solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  out->fence = (wr.send_flags & IBV_SEND_FENCE) != 0;
  out->imm = ntohl(wr.imm_data);
  out->invalidate_rkey = wr.invalidate_rkey;
  if (roce::IsLocal(out->opcode)) return ToLocal(qp, wr, out);
  if (!ToSges(wr.sg_list, wr.num_sge, &out->sges)) return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 && wr.num_sge == 1) {
    const ibv_sge& sge = wr.sg_list[0];
    out->inline_bytes = {reinterpret_cast<const uint8_t*>(sge.addr), sge.length};
    out->sges.count = 0;
  } else if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    size_t filled = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
      const ibv_sge& sge = wr.sg_list[i];
      if (sge.length > bytes->size() - filled) return EINVAL;
      std::memcpy(bytes->data() + filled, reinterpret_cast<const void*>(sge.addr), sge.length);
      filled += sge.length;
    }
    out->inline_bytes = std::span(*bytes).first(filled);
    out->sges.count = 0;
  }
  if (qp.is_ud()) {
    if (wr.wr.ud.ah == nullptr || wr.wr.ud.ah->context != qp.base.context) return EINVAL;
    const Ah& ah = *Of(wr.wr.ud.ah);
    out->ud = roce::UdAddress{.ip = ah.ip,
                              .qpn = Qpn{wr.wr.ud.remote_qpn & kQpnMask},
                              .qkey = wr.wr.ud.remote_qkey,
                              .from = ah.from,
                              .traffic_class = ah.traffic_class,
                              .hop_limit = ah.hop_limit};
  } else if (roce::IsAtomic(out->opcode)) {
    out->remote_address = wr.wr.atomic.remote_addr;
    out->rkey = wr.wr.atomic.rkey;
    out->compare_add = wr.wr.atomic.compare_add;
    out->swap = wr.wr.atomic.swap;
  } else {
    out->remote_address = wr.wr.rdma.remote_addr;
    out->rkey = wr.wr.rdma.rkey;
  }
  return 0;
}

// What the service level of a datagram's completion says over RoCE, which has no such levels: how the header in
// front of the data is to be read. mlx5's NICs began it, and UCX goes by it: it drops a datagram whose
// destination, read so, is none of its GIDs.
constexpr uint8_t kHeaderIsIpv6 = 1, kHeaderIsIpv4 = 2, kHeaderBeforeUdp = 8;

ibv_wc ToWc(const Work& work) {
  const roce::Completion& c = work.completion;
  ibv_wc wc{};
  wc.wr_id = c.wr_id;
  wc.status = static_cast<ibv_wc_status>(c.status);
  wc.opcode = static_cast<ibv_wc_opcode>(c.opcode);
  wc.byte_len = c.bytes;
  wc.qp_num = Raw(work.qpn);
  if (c.has_imm) {
    wc.imm_data = htonl(c.imm);
    wc.wc_flags |= IBV_WC_WITH_IMM;
  }
  if (c.has_invalidated) {
    wc.invalidated_rkey = c.invalidated_rkey;
    wc.wc_flags |= IBV_WC_WITH_INV;
  }
  if (work.is_ud && c.is_recv()) {
    wc.src_qp = Raw(c.src_qpn);
    wc.sl = kHeaderBeforeUdp | (c.over_ipv6 ? kHeaderIsIpv6 : kHeaderIsIpv4);
    wc.wc_flags |= IBV_WC_GRH;
  }
  return wc;
}

// The lock that the queue pairs are under is not held. Words for the user: where there is no memory for them,
// the completion counts.
void NoteUnanswered(Context& context, const Work& work) {
  if (work.completion.status != roce::WcStatus::kRetryExcErr) return;
  const std::lock_guard lock(context.adapter->mutex());
  const auto qp = context.qps.find(Raw(work.qpn));
  if (qp == context.qps.end()) return;
  Caught(
      [&] {
        TellUnanswered(*qp->second);
        return 0;
      },
      [](int error) { return error; });
}

// Posts a chain until one cannot be, or finds no memory; *bad is that one, and what is before it is sent.
template <typename Wr, typename Post>
int PostChain(ibv_context* context, Wr* wr, Wr** bad, const Post& post) {
  const auto post_all = [&](Nic& nic) {
    for (; wr != nullptr; wr = wr->next) {
      const int refused = Caught([&] { return post(nic, *wr); }, [](int error) { return error; });
      if (refused != 0) return refused;
    }
    return 0;
  };
  constexpr bool kSends = std::is_same_v<Wr, ibv_send_wr>;
  const int error = ErrnoOf(
      context, [&] { return kSends ? AdapterOf(context).Do(post_all) : AdapterOf(context).Note(post_all); });
  if (error != 0) *bad = wr;
  return error;
}

}  // namespace

int PostSend(ibv_qp* base, ibv_send_wr* first, ibv_send_wr** bad) {
  const Qp& qp = *Of(base);
  InlineBuffer bytes;
  return PostChain(base->context, first, bad, [&](Nic& nic, const ibv_send_wr& wr) {
    roce::SendWr out;
    if (const int error = ToSendWr(qp, wr, &bytes, &out); error != 0) return error;
    return ToErrno(nic.PostSend(qp.init.qpn, out));
  });
}

int PostBatch(Qp& qp) {
  Batch& batch = *qp.batch;
  for (Batch::Request& request : batch.requests) {
    request.wr.sg_list = batch.pieces.data() + request.first_piece;
    if ((request.wr.send_flags & IBV_SEND_INLINE) == 0) continue;
    request.wr.sg_list->addr = reinterpret_cast<uintptr_t>(batch.bytes.data()) + request.wr.sg_list->addr;
  }
  return ErrnoOf(qp.base.context, [&] {
    InlineBuffer bytes;  // stays empty: inline data of a batch is one piece
    for (const Batch::Request& request : batch.requests) {
      const int error = ToSendWr(qp, request.wr, &bytes, &batch.converted.emplace_back());
      if (error != 0) return error;
    }
    return AdapterOf(qp.base.context).Do([&](Nic& nic) {
      return ToErrno(nic.PostSends(qp.init.qpn, batch.converted));
    });
  });
}

int PostRecv(ibv_qp* base, ibv_recv_wr* first, ibv_recv_wr** bad) {
  return PostChain(base->context, first, bad, [&](Nic& nic, const ibv_recv_wr& wr) {
    roce::RecvWr out{.wr_id = wr.wr_id};
    if (!ToSges(wr.sg_list, wr.num_sge, &out.sges)) return EINVAL;
    return ToErrno(nic.PostRecv(Of(base)->init.qpn, out));
  });
}

int PostSrqRecv(ibv_srq* base, ibv_recv_wr* first, ibv_recv_wr** bad) {
  return PostChain(base->context, first, bad, [&](Nic& nic, const ibv_recv_wr& wr) {
    roce::RecvWr out{.wr_id = wr.wr_id};
    if (!ToSges(wr.sg_list, wr.num_sge, &out.sges)) return EINVAL;
    return ToErrno(nic.PostSrqRecv(Of(base)->id, out));
  });
}

int PollCq(ibv_cq* cq, int count, ibv_wc* out) {
  return CountOf(cq->context, [&] {
    std::array<Work, 32> works;
    int taken = 0;
    while (taken < count) {
      const size_t room = std::min(works.size(), static_cast<size_t>(count - taken));
      const auto poll = [&] { return AdapterOf(cq->context).Poll(Of(cq)->id, std::span(works).first(room)); };
      // Those that were taken must not be lost for one that needs memory.
      const size_t got = taken == 0 ? poll() : Caught(poll, [](int) { return size_t{0}; });
      for (size_t i = 0; i < got; ++i) {
        out[taken++] = ToWc(works[i]);
        NoteUnanswered(*Of(cq->context), works[i]);
      }
      if (got < room) break;
    }
    return taken;
  });
}

bool PollOne(Cq& cq, ibv_wc* out, Nanos* at) {
  Work work;
  if (AdapterOf(cq.base.context).Poll(cq.id, std::span(&work, 1)) == 0) return false;
  *out = ToWc(work);
  *at = work.at;
  NoteUnanswered(*Of(cq.base.context), work);
  return true;
}

int RequestNotify(ibv_cq* cq, int solicited_only) {
  return ErrnoOf(cq->context, [&] {
    // Without a channel nobody can hear of it.
    if (cq->channel != nullptr) AdapterOf(cq->context).Arm(Of(cq)->id, solicited_only != 0);
    return 0;
  });
}

}  // namespace epic::softnic
