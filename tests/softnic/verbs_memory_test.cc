// Re-registration of memory: what each flag changes, and that bad input leaves the region as it was.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

// One Write of eight bytes to the region at b, and how it ends; both queue pairs are connected anew.
ibv_wc_status Write(Connection& c, const ibv_mr* mr) {
  Connect(c.qp_a, c.b.gid(), c.qp_b->qp_num);
  Connect(c.qp_b, c.a.gid(), c.qp_a->qp_num);
  const auto address = reinterpret_cast<uint64_t>(mr->addr);
  EXPECT_EQ(PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, 1, 0, 8, {address, mr->rkey}), 0);
  return Await(c.cq_a).status;
}

struct Region {
  explicit Region(const Device& device, int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
      : mr(ibv_reg_mr(device.pd, bytes.data(), bytes.size(), access)) {
    if (mr == nullptr) Die("ibv_reg_mr");
  }
  ~Region() {
    if (ibv_dereg_mr(mr) != 0) Die("ibv_dereg_mr");
  }
  std::array<uint8_t, 64> bytes{};
  ibv_mr* mr;
};

TEST(VerbsMemory, AccessIsChanged) {
  Connection c;
  Region region(c.b, IBV_ACCESS_LOCAL_WRITE);
  const uint32_t rkey = region.mr->rkey;
  EXPECT_EQ(Write(c, region.mr), IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(ibv_rereg_mr(region.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
            0);
  EXPECT_EQ(region.mr->rkey, rkey) << "who knows it may go on";
  EXPECT_EQ(Write(c, region.mr), IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_rereg_mr(region.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(Write(c, region.mr), IBV_WC_REM_ACCESS_ERR);
}

TEST(VerbsMemory, TheProtectionDomainIsChanged) {
  Connection c;
  Region region(c.b);
  ibv_pd* pd = ibv_alloc_pd(c.b.context);
  ASSERT_EQ(ibv_rereg_mr(region.mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  EXPECT_EQ(region.mr->pd, pd);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "it is used now";
  EXPECT_EQ(Write(c, region.mr), IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(ibv_rereg_mr(region.mr, IBV_REREG_MR_CHANGE_PD, c.b.pd, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0) << "and no longer";
  EXPECT_EQ(Write(c, region.mr), IBV_WC_SUCCESS);
}

TEST(VerbsMemory, TheTranslationIsChanged) {
  Connection c;
  Region region(c.b);
  std::array<uint8_t, 32> other{};
  *c.a.at(0) = 0x5c;
  const uint64_t before = reinterpret_cast<uintptr_t>(region.bytes.data());
  ASSERT_EQ(ibv_rereg_mr(region.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), other.size(), 0),
            0);
  EXPECT_EQ(region.mr->addr, other.data());
  EXPECT_EQ(region.mr->length, other.size());
  EXPECT_EQ(Write(c, region.mr), IBV_WC_SUCCESS);
  c.SeeWritesAtB();
  EXPECT_EQ(other[0], 0x5c);
  EXPECT_EQ(PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, 1, 0, 8, {before, region.mr->rkey}), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_REM_ACCESS_ERR) << "the old place is not named any more";
  EXPECT_EQ(region.bytes[0], 0);
}

// Peers of a zero-based region count from 0, also when its bytes are others; how they count changes with the
// bytes only.
TEST(VerbsMemory, AZeroBasedRegionStaysOne) {
  Connection c;
  constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  std::array<uint8_t, 32> first{}, other{};
  ibv_mr* mr = ibv_reg_mr(c.b.pd, first.data(), first.size(), kRights | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(mr, nullptr);
  const auto rereg = [&](int flags, void* addr, size_t length, int access) {
    return ibv_rereg_mr(mr, flags, nullptr, addr, length, access);
  };
  EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, kRights), IBV_REREG_MR_ERR_INPUT);
  ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION, other.data(), other.size(), 0), 0);
  *c.a.at(0) = 0x5c;
  EXPECT_EQ(PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, 1, 0, 8, {0, mr->rkey}), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  c.SeeWritesAtB();
  EXPECT_EQ(other[0], 0x5c);
  ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, first.data(), first.size(),
                  kRights),
            0);
  EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, kRights | IBV_ACCESS_ZERO_BASED),
            IBV_REREG_MR_ERR_INPUT);
  const auto address = reinterpret_cast<uintptr_t>(first.data());
  EXPECT_EQ(PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, 2, 0, 8, {address, mr->rkey}), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(VerbsMemory, AllThreeAreChangedAtOnce) {
  Connection c;
  Region region(c.b, 0);
  std::array<uint8_t, 32> other{};
  ibv_pd* pd = ibv_alloc_pd(c.b.context);
  ibv_mr* mr = ibv_reg_mr(pd, region.bytes.data(), 8, 0);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_FLAGS_SUPPORTED, c.b.pd, other.data(), other.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
            0);
  EXPECT_EQ(Write(c, mr), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(VerbsMemory, BadInputLeavesTheRegionAsItWas) {
  Connection c;
  Device stranger;
  Region region(c.b);
  ibv_pd* pd = ibv_alloc_pd(c.b.context);
  const auto refused_with = [&](int flags, ibv_pd* to, void* addr, size_t length, int access) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(region.mr, flags, to, addr, length, access), IBV_REREG_MR_ERR_INPUT);
    return errno;
  };
  constexpr int kRange = IBV_REREG_MR_CHANGE_TRANSLATION, kPd = IBV_REREG_MR_CHANGE_PD;
  constexpr int kAccess = IBV_REREG_MR_CHANGE_ACCESS;
  uint8_t* const other = c.b.at(0);
  EXPECT_EQ(refused_with(0, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused_with(8, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused_with(kRange, nullptr, nullptr, 8, 0), EINVAL);
  EXPECT_EQ(refused_with(kRange | kPd, pd, other, 0, 0), EINVAL);
  EXPECT_EQ(refused_with(kRange | kPd, pd, other, SIZE_MAX, 0), EINVAL) << "it wraps";
  EXPECT_EQ(refused_with(kPd, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused_with(kPd, stranger.pd, nullptr, 0, 0), EINVAL) << "of another device";
  EXPECT_EQ(refused_with(kPd, pd, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), EINVAL)
      << "access that is not asked for";
  EXPECT_EQ(refused_with(kAccess | kPd, pd, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused_with(kAccess | kPd, pd, nullptr, 0, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
  EXPECT_EQ(region.mr->pd, c.b.pd);
  EXPECT_EQ(region.mr->addr, region.bytes.data());
  EXPECT_EQ(region.mr->length, region.bytes.size());
  EXPECT_EQ(Write(c, region.mr), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0) << "nobody uses it";
}

// Three pages, of which the one in the middle is what the test makes of it.
class ThreePages {
 public:
  ThreePages() {
    void* const at = mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) Die("mmap");
    begin = static_cast<uint8_t*>(at);
  }
  ~ThreePages() { munmap(begin, 3 * kPage); }
  ThreePages(const ThreePages&) = delete;
  ThreePages& operator=(const ThreePages&) = delete;
  const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  uint8_t* begin = nullptr;
};

// As rdma_rxe, which finds no page to pin: a packet that names it would end the program.
TEST(VerbsMemory, WhatIsNotMappedIsNotRegistered) {
  const Device device;
  const ThreePages pages;
  ASSERT_EQ(munmap(pages.begin + pages.kPage, pages.kPage), 0);
  const auto refused_with = [&](void* begin, size_t length, int access) {
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(device.pd, begin, length, access), nullptr);
    return errno;
  };
  for (const int access : {0, int{IBV_ACCESS_REMOTE_READ}, int{IBV_ACCESS_LOCAL_WRITE}}) {
    EXPECT_EQ(refused_with(pages.begin, 3 * pages.kPage, access), EFAULT);
    EXPECT_EQ(refused_with(pages.begin + pages.kPage, 8, access), EFAULT);
  }
  EXPECT_EQ(refused_with(pages.begin, SIZE_MAX, 0), EINVAL) << "it wraps";
  EXPECT_EQ(refused_with(pages.begin, 0, 0), EINVAL);
}

TEST(VerbsMemory, WhatMayNotBeWrittenIsRegisteredForReadingOnly) {
  Connection c;
  const ThreePages pages;
  ASSERT_EQ(mprotect(pages.begin + pages.kPage, pages.kPage, PROT_READ), 0);
  const auto begin = reinterpret_cast<uintptr_t>(pages.begin);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(c.b.pd, pages.begin, 3 * pages.kPage, int{IBV_ACCESS_LOCAL_WRITE}), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* mr = ibv_reg_mr(c.b.pd, pages.begin, 3 * pages.kPage, int{IBV_ACCESS_REMOTE_READ});
  ASSERT_NE(mr, nullptr);
  *c.a.at(0) = 0x5c;
  EXPECT_EQ(PostRdma(c.a, c.qp_a, IBV_WR_RDMA_READ, 1, 0, 8, {begin + pages.kPage, mr->rkey}), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(*c.a.at(0), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST(VerbsMemory, ARegionIsNotMovedToWhatIsNotThere) {
  Connection c;
  Region region(c.b, IBV_ACCESS_REMOTE_READ);
  const ThreePages pages;
  ASSERT_EQ(mprotect(pages.begin + pages.kPage, pages.kPage, PROT_READ), 0);
  const auto rereg = [&](int flags, void* begin, size_t length, int access) {
    errno = 0;
    const int result = ibv_rereg_mr(region.mr, flags, nullptr, begin, length, access);
    return result == IBV_REREG_MR_ERR_INPUT ? errno : result;
  };
  constexpr int kMove = IBV_REREG_MR_CHANGE_TRANSLATION, kAccess = IBV_REREG_MR_CHANGE_ACCESS;
  constexpr int kWrites = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(rereg(kMove | kAccess, pages.begin, 3 * pages.kPage, kWrites), EFAULT);
  EXPECT_EQ(region.mr->addr, region.bytes.data());
  ASSERT_EQ(rereg(kMove, pages.begin, 3 * pages.kPage, 0), 0) << "it may be read";
  EXPECT_EQ(rereg(kAccess, nullptr, 0, kWrites), EFAULT) << "and not written";
  ASSERT_EQ(rereg(kMove, pages.begin, pages.kPage, 0), 0);
  ASSERT_EQ(rereg(kAccess, nullptr, 0, kWrites), 0);
  EXPECT_EQ(rereg(kMove, pages.begin, 2 * pages.kPage, 0), EFAULT) << "its rights are still those";
  EXPECT_EQ(Write(c, region.mr), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace epic::softnic::testing
