// Protection domains and memory regions.
#include <cerrno>
#include <memory>
#include <mutex>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

#undef ibv_reg_mr  // macros in front of the functions below
#undef ibv_reg_mr_iova

using namespace epic::softnic;

EPIC_VERBS ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return ObjectOf(context, [&] {
    auto pd = std::make_unique<Pd>();
    pd->base.context = context;
    const std::lock_guard lock(AdapterOf(context).mutex());
    pd->base.handle = pd->id = Of(context)->next_pd++;
    return &pd.release()->base;
  });
}

EPIC_VERBS int ibv_dealloc_pd(ibv_pd* pd) {
  return ErrnoOf(pd->context, [&] {
    {
      const std::lock_guard lock(AdapterOf(pd->context).mutex());
      if (Of(pd)->users != 0) return EBUSY;
    }
    delete Of(pd);
    return 0;
  });
}

EPIC_VERBS ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* base, size_t length, uint64_t iova,
                                    unsigned int access) {
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                              IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
  if ((access & ~kKnown) != 0) return Null(EOPNOTSUPP);
  // Who may write from afar may write at home (InfiniBand specification 10.6.3.1).
  if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
      (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return Null(EINVAL);
  // Its bytes are counted from its begin; a window's begin would be told by an address that it has not.
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  if (zero_based) iova = 0;
  return ObjectOf(pd->context, [&]() -> ibv_mr* {
    auto mr = std::make_unique<Mr>();
    mr->base = {.context = pd->context, .pd = pd, .addr = base, .length = length};
    const auto key = AdapterOf(pd->context).Do([&](Nic& nic) {
      const auto registered =
          nic.memory().Register(Of(pd)->id, static_cast<uint8_t*>(base), iova, length,
                                {.local_write = (access & IBV_ACCESS_LOCAL_WRITE) != 0,
                                 .remote_read = (access & IBV_ACCESS_REMOTE_READ) != 0,
                                 .remote_write = (access & IBV_ACCESS_REMOTE_WRITE) != 0,
                                 .remote_atomic = (access & IBV_ACCESS_REMOTE_ATOMIC) != 0,
                                 .mw_bind = (access & IBV_ACCESS_MW_BIND) != 0 && !zero_based});
      if (registered) ++Of(pd)->users;
      return registered;
    });
    if (!key) return Null(length == 0 ? EINVAL : ENOMEM);
    mr->base.handle = mr->base.lkey = mr->base.rkey = *key;
    return &mr.release()->base;
  });
}

EPIC_VERBS ibv_mr* ibv_reg_mr(ibv_pd* pd, void* base, size_t length, int access) {
  return ibv_reg_mr_iova2(pd, base, length, reinterpret_cast<uint64_t>(base), static_cast<unsigned>(access));
}

EPIC_VERBS ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* base, size_t length, uint64_t iova, int access) {
  return ibv_reg_mr_iova2(pd, base, length, iova, static_cast<unsigned>(access));
}

EPIC_VERBS int ibv_dereg_mr(ibv_mr* mr) {
  return ErrnoOf(mr->context, [&] {
    const bool has_windows = AdapterOf(mr->context).Do([&](Nic& nic) {
      if (nic.memory().HasWindows(mr->lkey)) return true;
      nic.memory().Deregister(mr->lkey);
      --Of(mr->pd)->users;
      return false;
    });
    if (has_windows) return EINVAL;  // as rdma_rxe says it
    delete reinterpret_cast<Mr*>(mr);
    return 0;
  });
}
