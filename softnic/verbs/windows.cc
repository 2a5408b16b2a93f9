// Memory windows: allocation, and binding those of type 1. Those of type 2 are bound by ibv_post_send.
#include <cerrno>
#include <memory>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

namespace epic::softnic {

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return Null(EINVAL);
  return ObjectOf(pd->context, [&]() -> ibv_mw* {
    auto mw = std::make_unique<Mw>();
    const auto window = AdapterOf(pd->context).Do([&](Nic& nic) {
      const auto allocated = nic.memory().AllocateWindow(Of(pd)->id, type == IBV_MW_TYPE_2);
      if (allocated) ++Of(pd)->users;
      return allocated;
    });
    if (!window) return Null(ENOMEM);
    mw->number = window->number;
    mw->base = {
        .context = pd->context, .pd = pd, .rkey = window->rkey, .handle = window->rkey >> 8, .type = type};
    return &mw.release()->base;
  });
}

int DeallocMw(ibv_mw* mw) {
  return ErrnoOf(mw->context, [&] {
    AdapterOf(mw->context).Do([&](Nic& nic) {
      nic.memory().FreeWindow(Of(mw)->number);
      --Of(mw->pd)->users;
    });
    delete Of(mw);
    return 0;
  });
}

int ToWindowBind(const Qp& qp, ibv_mw* mw, const ibv_mw_bind_info& info, uint32_t rkey,
                 roce::WindowBind* out) {
  // That of local writes says nothing of a window, but programs set it.
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;
  const ibv_context* const context = qp.base.context;
  if (mw == nullptr || mw->context != context || (info.mw_access_flags & ~kKnown) != 0) return EINVAL;
  if (info.mr == nullptr ? info.length != 0 || info.addr != 0 : info.mr->context != context) return EINVAL;
  *out = {.window = Of(mw)->number,
          .rkey = rkey,
          .lkey = info.mr != nullptr ? info.mr->lkey : 0,
          .address = info.addr,
          .length = info.length,
          .remote_read = (info.mw_access_flags & IBV_ACCESS_REMOTE_READ) != 0,
          .remote_write = (info.mw_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0,
          .remote_atomic = (info.mw_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0,
          .zero_based = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0};
  return 0;
}

// verbs.h has seen to it that the window is of type 1, and the region of its protection domain.
int BindMw(ibv_qp* base, ibv_mw* mw, ibv_mw_bind* bind) {
  const Qp& qp = *Of(base);
  const ibv_mw_bind_info& info = bind->bind_info;
  if (qp.is_ud() || (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) return EINVAL;
  return ErrnoOf(base->context, [&] {
    roce::SendWr wr{.wr_id = bind->wr_id, .opcode = roce::WrOpcode::kBindMw};
    wr.signaled = qp.signal_all || (bind->send_flags & IBV_SEND_SIGNALED) != 0;
    wr.fence = (bind->send_flags & IBV_SEND_FENCE) != 0;
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    if (const int error = ToWindowBind(qp, mw, info, rkey, &wr.bind.emplace()); error != 0) return error;
    const auto posted = AdapterOf(base->context).Do([&](Nic& nic) {
      const roce::PostResult result = nic.PostSend(qp.init.qpn, wr);
      // The next one that is posted counts on from it, whether this one has been done or not.
      if (result == roce::PostResult::kOk) mw->rkey = rkey;
      return result;
    });
    return posted == roce::PostResult::kOk ? 0 : posted == roce::PostResult::kFull ? ENOMEM : EINVAL;
  });
}

}  // namespace epic::softnic
