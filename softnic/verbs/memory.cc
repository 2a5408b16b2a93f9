// Protection domains and memory regions.
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/pages.h"

#undef ibv_reg_mr  // macros in front of the functions below
#undef ibv_reg_mr_iova

using namespace epic::softnic;

namespace {

// What access flags (ibv_access_flags) allow: 0 or an errno.
int ToRights(unsigned access, MemoryRights* rights) {
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                              IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
  if ((access & ~kKnown) != 0) return EOPNOTSUPP;
  // Who may write from afar may write at home (InfiniBand specification 10.6.3.1).
  if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
      (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return EINVAL;
  // rdma_rxe binds no windows to a zero-based region either.
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  *rights = {.local_write = (access & IBV_ACCESS_LOCAL_WRITE) != 0,
             .remote_read = (access & IBV_ACCESS_REMOTE_READ) != 0,
             .remote_write = (access & IBV_ACCESS_REMOTE_WRITE) != 0,
             .remote_atomic = (access & IBV_ACCESS_REMOTE_ATOMIC) != 0,
             .mw_bind = (access & IBV_ACCESS_MW_BIND) != 0 && !zero_based};
  return 0;
}

// Whether there is memory that may be used so, from its begin and from where peers count: 0, or an errno.
// What is not there would end the program when a packet names it.
int CheckMemory(const void* base, size_t length, uint64_t iova, bool writes) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  if (length == 0 || begin + (length - 1) < begin || iova + (length - 1) < iova) return EINVAL;
  return BringInPages(base, length, writes);
}

}  // namespace

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
  MemoryRights rights;
  if (const int error = ToRights(access, &rights); error != 0) return Null(error);
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;  // bytes are counted from the begin
  return ObjectOf(pd->context, [&]() -> ibv_mr* {
    if (const int error = CheckMemory(base, length, iova, rights.local_write); error != 0) return Null(error);
    auto mr = std::make_unique<Mr>();
    mr->base = {.context = pd->context, .pd = pd, .addr = base, .length = length};
    const auto key = AdapterOf(pd->context).Do([&](Nic& nic) {
      const auto registered =
          nic.memory().Register(Of(pd)->id, static_cast<uint8_t*>(base), iova, length, rights);
      if (registered) ++Of(pd)->users;
      return registered;
    });
    if (!key) return Null(ENOMEM);
    mr->writable = rights.local_write;
    mr->zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
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

namespace {

// 0 or an errno: with one the region is as it was.
int Reregister(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if (flags == 0 || (flags & ~int{IBV_REREG_MR_FLAGS_SUPPORTED}) != 0) return EINVAL;
  if (moves && (addr == nullptr || length == 0)) return EINVAL;
  if (changes_pd && (pd == nullptr || pd->context != mr->context)) return EINVAL;
  if (!changes_access && access != 0) return EINVAL;
  MemoryRights rights;
  if (const int error = ToRights(static_cast<unsigned>(access), &rights); error != 0) return error;
  // From where a peer counts its bytes changes only when they are others.
  bool& zero_based = Of(mr)->zero_based;
  const bool becomes_zero_based = changes_access ? (access & IBV_ACCESS_ZERO_BASED) != 0 : zero_based;
  if (!moves && becomes_zero_based != zero_based) return EINVAL;
  bool& writable = Of(mr)->writable;
  const bool becomes_writable = changes_access ? rights.local_write : writable;
  const uint64_t iova = becomes_zero_based ? 0 : reinterpret_cast<uint64_t>(addr);
  if (moves || (becomes_writable && !writable)) {
    const int error = moves ? CheckMemory(addr, length, iova, becomes_writable)
                            : BringInPages(mr->addr, mr->length, becomes_writable);
    if (error != 0) return error;
  }
  return AdapterOf(mr->context).Do([&](Nic& nic) {
    if (nic.memory().HasWindows(mr->lkey)) return EINVAL;
    std::optional<MemoryRange> range;
    if (moves) range = {static_cast<uint8_t*>(addr), iova, length};
    if (!nic.memory().Reregister(mr->lkey, range, changes_pd ? std::optional(Of(pd)->id) : std::nullopt,
                                 changes_access ? std::optional(rights) : std::nullopt))
      return EINVAL;
    writable = becomes_writable;
    if (moves) {
      zero_based = becomes_zero_based;
      mr->addr = addr;
      mr->length = length;
    }
    if (changes_pd) {
      --Of(mr->pd)->users;
      ++Of(pd)->users;
      mr->pd = pd;
    }
    return 0;
  });
}

}  // namespace

EPIC_VERBS int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  const int error = ErrnoOf(mr->context, [&] { return Reregister(mr, flags, pd, addr, length, access); });
  if (error == 0) return 0;
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;  // nothing that can fail comes behind the checks
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
