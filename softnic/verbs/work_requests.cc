// Extended queue pairs: ibv_create_qp_ex, and requests that are built by functions between ibv_wr_start and
// ibv_wr_complete (rdma-core's manual, ibv_wr_post). What they build waits in the queue pair's Batch and is
// posted whole, by the road of ibv_post_send (data.cc), or not at all.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

namespace epic::softnic {
namespace {

Qp* Of(ibv_qp_ex* ex) { return reinterpret_cast<Qp*>(ex); }

// The builders and setters return nothing: action(qp, batch) gives 0 or an errno, of which ibv_wr_complete
// returns the first. Behind an error, outside of a batch, and in a child of fork nothing is done.
template <typename Action>
void Build(ibv_qp_ex* ex, Action action) {
  Qp& qp = *Of(ex);
  Batch& batch = *qp.batch;
  if (IsInherited(qp.base.context) || !batch.open || batch.error != 0) return;
  batch.error = Caught([&] { return action(qp, batch); }, [](int error) { return error; });
}

// A builder: a new request with what `set` fills in.
template <typename Set>
void Begin(ibv_qp_ex* ex, ibv_wr_opcode opcode, Set set) {
  Build(ex, [&](const Qp& qp, Batch& batch) {
    if (batch.requests.size() == qp.cap.max_send_wr) return ENOMEM;
    Batch::Request& request = batch.requests.emplace_back();
    request.wr.wr_id = ex->wr_id;
    request.wr.opcode = opcode;
    request.wr.send_flags = ex->wr_flags & ~unsigned{IBV_SEND_INLINE};  // which the setters say
    request.first_piece = batch.pieces.size();
    set(request.wr);
    return 0;
  });
}

// A setter of data, of which the last request that was begun has one.
template <typename Set>
void SetData(ibv_qp_ex* ex, Set set) {
  Build(ex, [&](const Qp& qp, Batch& batch) {
    if (batch.requests.empty() || std::exchange(batch.requests.back().has_data, true)) return EINVAL;
    return set(qp, batch, batch.requests.back().wr);
  });
}

// Any operation or setter that the queue pair was not created for.
template <typename... Arguments>
void Refuse(ibv_qp_ex* ex, Arguments...) {
  Build(ex, [](const Qp&, const Batch&) { return EOPNOTSUPP; });
}

void WrSend(ibv_qp_ex* ex) {
  Begin(ex, IBV_WR_SEND, [](ibv_send_wr&) {});
}

void WrSendImm(ibv_qp_ex* ex, __be32 imm_data) {
  Begin(ex, IBV_WR_SEND_WITH_IMM, [&](ibv_send_wr& wr) { wr.imm_data = imm_data; });
}

void WrRdmaWrite(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) {
  Begin(ex, IBV_WR_RDMA_WRITE, [&](ibv_send_wr& wr) { wr.wr.rdma = {remote_addr, rkey}; });
}

void WrRdmaWriteImm(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr, __be32 imm_data) {
  Begin(ex, IBV_WR_RDMA_WRITE_WITH_IMM, [&](ibv_send_wr& wr) {
    wr.imm_data = imm_data;
    wr.wr.rdma = {remote_addr, rkey};
  });
}

void WrRdmaRead(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) {
  Begin(ex, IBV_WR_RDMA_READ, [&](ibv_send_wr& wr) { wr.wr.rdma = {remote_addr, rkey}; });
}

void WrAtomicCmpSwp(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap) {
  Begin(ex, IBV_WR_ATOMIC_CMP_AND_SWP, [&](ibv_send_wr& wr) {
    wr.wr.atomic = {remote_addr, compare, swap, rkey};
  });
}

void WrAtomicFetchAdd(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr, uint64_t add) {
  Begin(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, [&](ibv_send_wr& wr) {
    wr.wr.atomic = {remote_addr, add, 0, rkey};
  });
}

void WrSendInv(ibv_qp_ex* ex, uint32_t invalidate_rkey) {
  Begin(ex, IBV_WR_SEND_WITH_INV, [&](ibv_send_wr& wr) { wr.invalidate_rkey = invalidate_rkey; });
}

void WrLocalInv(ibv_qp_ex* ex, uint32_t invalidate_rkey) {
  Begin(ex, IBV_WR_LOCAL_INV, [&](ibv_send_wr& wr) { wr.invalidate_rkey = invalidate_rkey; });
}

void WrBindMw(ibv_qp_ex* ex, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  Begin(ex, IBV_WR_BIND_MW, [&](ibv_send_wr& wr) { wr.bind_mw = {mw, rkey, *info}; });
}

void WrSetUdAddr(ibv_qp_ex* ex, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  Build(ex, [&](const Qp&, Batch& batch) {
    if (batch.requests.empty()) return EINVAL;
    batch.requests.back().wr.wr.ud = {ah, remote_qpn, remote_qkey};
    return 0;
  });
}

void WrSetSgeList(ibv_qp_ex* ex, size_t count, const ibv_sge* list) {
  SetData(ex, [&](const Qp&, Batch& batch, ibv_send_wr& wr) {
    if (count > roce::kMaxSge) return EINVAL;
    batch.pieces.insert(batch.pieces.end(), list, list + count);
    wr.num_sge = static_cast<int>(count);
    return 0;
  });
}

void WrSetSge(ibv_qp_ex* ex, uint32_t lkey, uint64_t addr, uint32_t length) {
  SetData(ex, [&](const Qp&, Batch& batch, ibv_send_wr& wr) {
    batch.pieces.push_back({addr, length, lkey});
    wr.num_sge = 1;
    return 0;
  });
}

void WrSetInlineDataList(ibv_qp_ex* ex, size_t count, const ibv_data_buf* list) {
  SetData(ex, [&](const Qp& qp, Batch& batch, ibv_send_wr& wr) {
    const size_t first = batch.bytes.size(), end = first + qp.cap.max_inline_data;
    for (const ibv_data_buf& buf : std::span(list, count)) {
      if (buf.length > end - batch.bytes.size()) return EINVAL;
      const auto* const from = static_cast<const uint8_t*>(buf.addr);
      batch.bytes.insert(batch.bytes.end(), from, from + buf.length);
    }
    batch.pieces.push_back({first, static_cast<uint32_t>(batch.bytes.size() - first), 0});
    wr.num_sge = 1;
    wr.send_flags |= IBV_SEND_INLINE;
    return 0;
  });
}

void WrSetInlineData(ibv_qp_ex* ex, void* addr, size_t length) {
  const ibv_data_buf buf{addr, length};
  WrSetInlineDataList(ex, 1, &buf);
}

void WrStart(ibv_qp_ex* ex) {
  Qp& qp = *Of(ex);
  if (IsInherited(qp.base.context)) return;
  qp.batch->mutex.lock();
  qp.batch->open = true;
}

// Ends the batch, which is posted if there was no error.
int End(Qp& qp, bool post) {
  Batch& batch = *qp.batch;
  if (IsInherited(qp.base.context)) return EIO;
  if (!batch.open) return EINVAL;  // without ibv_wr_start
  int error = std::exchange(batch.error, 0);
  if (post && error == 0) error = PostBatch(qp);
  batch.requests.clear();
  batch.pieces.clear();
  batch.bytes.clear();
  batch.converted.clear();
  batch.open = false;
  batch.mutex.unlock();
  return error;
}

int WrComplete(ibv_qp_ex* ex) { return End(*Of(ex), true); }
void WrAbort(ibv_qp_ex* ex) { End(*Of(ex), false); }

// Which operations there are, and on queue pairs of which types (1 << ibv_qp_type).
struct Operation {
  uint64_t flag;  // of ibv_qp_create_send_ops_flags
  unsigned types;
  void (*offer)(ibv_qp_ex& ex);
};
constexpr unsigned kRc = 1u << IBV_QPT_RC, kUc = 1u << IBV_QPT_UC, kUd = 1u << IBV_QPT_UD;
constexpr unsigned kConnected = kRc | kUc;
constexpr std::array kOperations = {
    Operation{IBV_QP_EX_WITH_SEND, kConnected | kUd, [](ibv_qp_ex& ex) { ex.wr_send = WrSend; }},
    Operation{IBV_QP_EX_WITH_SEND_WITH_IMM, kConnected | kUd,
              [](ibv_qp_ex& ex) { ex.wr_send_imm = WrSendImm; }},
    Operation{IBV_QP_EX_WITH_RDMA_WRITE, kConnected, [](ibv_qp_ex& ex) { ex.wr_rdma_write = WrRdmaWrite; }},
    Operation{IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, kConnected,
              [](ibv_qp_ex& ex) { ex.wr_rdma_write_imm = WrRdmaWriteImm; }},
    Operation{IBV_QP_EX_WITH_RDMA_READ, kRc, [](ibv_qp_ex& ex) { ex.wr_rdma_read = WrRdmaRead; }},
    Operation{IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, kRc,
              [](ibv_qp_ex& ex) { ex.wr_atomic_cmp_swp = WrAtomicCmpSwp; }},
    Operation{IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, kRc,
              [](ibv_qp_ex& ex) { ex.wr_atomic_fetch_add = WrAtomicFetchAdd; }},
    Operation{IBV_QP_EX_WITH_SEND_WITH_INV, kRc, [](ibv_qp_ex& ex) { ex.wr_send_inv = WrSendInv; }},
    Operation{IBV_QP_EX_WITH_LOCAL_INV, kConnected, [](ibv_qp_ex& ex) { ex.wr_local_inv = WrLocalInv; }},
    Operation{IBV_QP_EX_WITH_BIND_MW, kConnected, [](ibv_qp_ex& ex) { ex.wr_bind_mw = WrBindMw; }},
};

// Fills in the functions: those that were asked for, and for all others one that refuses.
void Offer(ibv_qp_ex& ex, uint64_t asked) {
  ex.wr_atomic_cmp_swp = Refuse;
  ex.wr_atomic_fetch_add = Refuse;
  ex.wr_atomic_write = Refuse;
  ex.wr_bind_mw = Refuse;
  ex.wr_local_inv = Refuse;
  ex.wr_rdma_read = Refuse;
  ex.wr_rdma_write = Refuse;
  ex.wr_rdma_write_imm = Refuse;
  ex.wr_send = Refuse;
  ex.wr_send_imm = Refuse;
  ex.wr_send_inv = Refuse;
  ex.wr_send_tso = Refuse;
  ex.wr_set_xrc_srqn = Refuse;
  ex.wr_set_ud_addr = Refuse;
  if (ex.qp_base.qp_type == IBV_QPT_UD) ex.wr_set_ud_addr = WrSetUdAddr;
  ex.wr_set_inline_data = WrSetInlineData;
  ex.wr_set_inline_data_list = WrSetInlineDataList;
  ex.wr_set_sge = WrSetSge;
  ex.wr_set_sge_list = WrSetSgeList;
  ex.wr_start = WrStart;
  ex.wr_complete = WrComplete;
  ex.wr_abort = WrAbort;
  for (const Operation& operation : kOperations) {
    if ((asked & operation.flag) != 0) operation.offer(ex);
  }
}

uint64_t OffersTo(ibv_qp_type type) {
  uint64_t flags = 0;
  for (const Operation& operation : kOperations) {
    if (type < 32 && (operation.types & 1u << type) != 0) flags |= operation.flag;
  }
  return flags;
}

}  // namespace

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* init) {
  constexpr uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((init->comp_mask & ~kKnown) != 0) return Null(EOPNOTSUPP);
  if ((init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && init->create_flags != 0)
    return Null(EOPNOTSUPP);
  if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || init->pd == nullptr || init->pd->context != context)
    return Null(EINVAL);
  // The extended structure begins with all of the other.
  static_assert(offsetof(ibv_qp_init_attr_ex, comp_mask) ==
                offsetof(ibv_qp_init_attr, sq_sig_all) + sizeof(int));
  auto* const plain = reinterpret_cast<ibv_qp_init_attr*>(init);
  if ((init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0) return CreateQp(init->pd, plain, nullptr);
  if ((init->send_ops_flags & ~OffersTo(init->qp_type)) != 0) return Null(EOPNOTSUPP);
  return ObjectOf(context, [&]() -> ibv_qp* {
    ibv_qp* const qp = CreateQp(init->pd, plain, std::make_unique<Batch>());
    if (qp != nullptr) Offer(Of(qp)->ex, init->send_ops_flags);
    return qp;
  });
}

}  // namespace epic::softnic

EPIC_VERBS ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  epic::softnic::Qp* const own = epic::softnic::Of(qp);
  return own->batch != nullptr ? &own->ex : nullptr;
}
