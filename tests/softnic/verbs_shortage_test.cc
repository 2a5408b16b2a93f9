// What a verb does when memory, descriptors, threads or queue pair numbers have run out: an errno, nothing
// half made, no exception; and once there is enough again it works.
#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include "tests/softnic/verbs_testing.h"

namespace {

// How many allocations of this thread succeed before one fails; negative: all do.
thread_local int allocations_left = -1;

}  // namespace

// For the whole program, the library included. Inlined, the compiler would take them for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  const bool fails = allocations_left == 0;
  if (allocations_left >= 0) --allocations_left;
  void* const memory = fails ? nullptr : std::malloc(std::max<size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace epic::softnic::testing {
namespace {

// Calls `make` (which returns an errno) with the first allocation failing, the second, and so on until none
// does; `unmake` takes back what came to be.
void WithEachAllocationFailing(const std::function<int()>& make, const std::function<void()>& unmake) {
  constexpr int kMost = 1000;
  for (int succeed = 0; succeed < kMost; ++succeed) {
    allocations_left = succeed;
    const int error = make();
    const bool failed = allocations_left < 0;
    allocations_left = -1;
    if (error == 0) unmake();
    if (!failed) {
      EXPECT_EQ(error, 0);
      EXPECT_GT(succeed, 0) << "it allocates nothing";
      return;
    }
    EXPECT_EQ(error, ENOMEM) << "allocation " << succeed + 1;
  }
  FAIL() << "more than " << kMost << " allocations";
}

template <typename Object>
int ErrorOf(Object* object) {
  return object == nullptr ? errno : 0;
}

TEST(VerbsShortage, OfMemoryWhenADeviceIsOpened) {
  ibv_device** list = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(list = ibv_get_device_list(nullptr)); },
                            [&] { ibv_free_device_list(list); });
  list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  ibv_context* context = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(context = ibv_open_device(list[0])); },
                            [&] { EXPECT_EQ(ibv_close_device(context), 0); });
  ibv_free_device_list(list);
}

TEST(VerbsShortage, OfMemoryWhenObjectsAreMade) {
  Connection c;
  ibv_pd* pd = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(pd = ibv_alloc_pd(c.a.context)); },
                            [&] { EXPECT_EQ(ibv_dealloc_pd(pd), 0); });
  pd = ibv_alloc_pd(c.a.context);
  ibv_mr* mr = nullptr;
  WithEachAllocationFailing(
      [&] { return ErrorOf(mr = ibv_reg_mr(pd, c.a.at(0), 64, IBV_ACCESS_LOCAL_WRITE)); },
      [&] { EXPECT_EQ(ibv_dereg_mr(mr), 0); });
  ibv_mw* mw = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)); },
                            [&] { EXPECT_EQ(ibv_dealloc_mw(mw), 0); });
  ibv_comp_channel* channel = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(channel = ibv_create_comp_channel(c.a.context)); },
                            [&] { EXPECT_EQ(ibv_destroy_comp_channel(channel), 0); });
  channel = ibv_create_comp_channel(c.a.context);
  ibv_cq* cq = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(cq = ibv_create_cq(c.a.context, 16, nullptr, channel, 0)); },
                            [&] { EXPECT_EQ(ibv_destroy_cq(cq), 0); });
  cq = ibv_create_cq(c.a.context, 16, nullptr, channel, 0);
  int depth = 16;
  WithEachAllocationFailing([&] { return ibv_resize_cq(cq, depth *= 2); }, [] {});
  ibv_srq* srq = nullptr;
  ibv_srq_init_attr srq_init{.attr = {.max_wr = 8, .max_sge = 1}};
  WithEachAllocationFailing([&] { return ErrorOf(srq = ibv_create_srq(pd, &srq_init)); },
                            [&] { EXPECT_EQ(ibv_destroy_srq(srq), 0); });
  srq = ibv_create_srq(pd, &srq_init);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.srq = srq;
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(qp = ibv_create_qp(pd, &init)); },
                            [&] { EXPECT_EQ(ibv_destroy_qp(qp), 0); });
  ibv_cq_init_attr_ex cq_init{.cqe = 16, .channel = channel};
  ibv_cq_ex* cq_ex = nullptr;
  WithEachAllocationFailing([&] { return ErrorOf(cq_ex = ibv_create_cq_ex(c.a.context, &cq_init)); },
                            [&] { EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0); });
  ibv_qp_init_attr_ex init_ex{};
  init_ex.send_cq = init_ex.recv_cq = cq;
  init_ex.qp_type = IBV_QPT_RC;
  init_ex.cap = {.max_send_wr = 8, .max_send_sge = 1, .max_inline_data = 64};
  init_ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init_ex.pd = pd;
  init_ex.send_ops_flags = IBV_QP_EX_WITH_SEND;
  WithEachAllocationFailing([&] { return ErrorOf(qp = ibv_create_qp_ex(c.a.context, &init_ex)); },
                            [&] { EXPECT_EQ(ibv_destroy_qp(qp), 0); });
  qp = ibv_create_qp_ex(c.a.context, &init_ex);
  // A batch that grows for the first time, and is given up.
  WithEachAllocationFailing(
      [&] {
        ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp);
        char byte = 0;
        ibv_wr_start(ex);
        for (int i = 0; i < 2; ++i) {
          ibv_wr_send(ex);
          ibv_wr_set_inline_data(ex, &byte, 1);
        }
        const int error = ibv_wr_complete(ex);
        return error == EINVAL ? 0 : error;  // in RESET nothing is posted
      },
      [] {});
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  // Nobody counts a user that did not come to be.
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  // And the device works.
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Await(c.cq_b).wr_id, 1u);
}

// Of a chain whose second request needs memory: what is before it is posted and sent, the others are not.
TEST(VerbsShortage, OfMemoryWithinAChain) {
  Connection c;
  std::vector<ibv_sge> pieces(8, {c.a.address(0), 1, c.a.mr->lkey});
  std::array<ibv_send_wr, 3> wrs{};
  for (uint64_t i = 0; i < wrs.size(); ++i) {
    wrs[i] = {.wr_id = i,
              .next = i < 2 ? &wrs[i + 1] : nullptr,
              .sg_list = pieces.data(),
              .num_sge = i == 1 ? 8 : 1,
              .opcode = IBV_WR_SEND,
              .send_flags = IBV_SEND_SIGNALED};
  }
  // Once with all memory, after which the device's own buffers are there.
  for (int succeed = -1; succeed < 100; ++succeed) {
    for (uint64_t i = 0; i < wrs.size(); ++i) ASSERT_EQ(PostRecv(c.b, c.qp_b, i, 1024, 64), 0);
    ibv_send_wr* bad = nullptr;
    allocations_left = succeed;
    const int error = ibv_post_send(c.qp_a, wrs.data(), &bad);
    const bool failed = succeed >= 0 && allocations_left < 0;
    allocations_left = -1;
    EXPECT_EQ(error, failed ? ENOMEM : 0);
    if (failed) {
      ASSERT_EQ(bad, &wrs[1]);
      EXPECT_EQ(Await(c.cq_b).wr_id, 0u) << "nobody has entered the sender's device since";
      ASSERT_EQ(ibv_post_send(c.qp_a, bad, &bad), 0);
    }
    for (uint64_t i = failed ? 1 : 0; i < wrs.size(); ++i) EXPECT_EQ(Await(c.cq_b).wr_id, i);
    for (uint64_t i = 0; i < wrs.size(); ++i) EXPECT_EQ(Await(c.cq_a).wr_id, i);
    if (failed || succeed < 0) continue;
    EXPECT_GT(succeed, 0) << "it allocates nothing";
    return;
  }
  FAIL() << "it never succeeds";
}

// What goes round inside the device is copied, has timers, and raises events: whatever of that finds no
// memory, what was posted is done, and what was done is told, once.
TEST(VerbsShortage, OfMemoryWhileItIsSent) {
  Device device;
  ibv_cq *send_cq = device.CreateCq(8), *recv_cq = device.CreateCq(8);
  ibv_qp *from = CreateRc(device, send_cq), *to = CreateRc(device, recv_cq);
  Connect(from, device.gid(), to->qp_num);
  Connect(to, device.gid(), from->qp_num);
  int failures = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(ibv_req_notify_cq(recv_cq, 0), 0);
    ASSERT_EQ(PostRecv(device, to, i, 1024, 8), 0);
    ibv_sge piece{device.address(0), 8, device.mr->lkey};
    ibv_send_wr wr{.wr_id = i, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND};
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    allocations_left = static_cast<int>(i % 12);
    const int error = ibv_post_send(from, &wr, &bad);
    failures += allocations_left < 0 ? 1 : 0;
    allocations_left = -1;
    ASSERT_EQ(error, 0) << "it needs no memory to be posted";
    ASSERT_EQ(Await(recv_cq).wr_id, i);
    ASSERT_EQ(Await(send_cq).wr_id, i);
    pollfd event{device.channel->fd, POLLIN, 0};
    ASSERT_EQ(poll(&event, 1, 5000), 1) << "no event";
    ibv_cq* told = nullptr;
    void* user = nullptr;
    ASSERT_EQ(ibv_get_cq_event(device.channel, &told, &user), 0);
    ASSERT_EQ(told, recv_cq);
    ibv_ack_cq_events(told, 1);
  }
  EXPECT_GT(failures, 100);
  for (ibv_qp* qp : {from, to}) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  for (ibv_cq* cq : {send_cq, recv_cq}) EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

// To a device that nothing was sent from so far: whom it sends to is looked up, and kept.
TEST(VerbsShortage, OfMemoryWhenSomethingIsSentForTheFirstTime) {
  for (int succeed = 0;; ++succeed) {
    ASSERT_LT(succeed, 200);
    Connection c;
    ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 8), 0);
    allocations_left = succeed;
    const int error = PostSend(c.a, c.qp_a, 2, 0, 8);
    const bool failed = allocations_left < 0;
    allocations_left = -1;
    ASSERT_EQ(error, 0);
    EXPECT_EQ(Await(c.cq_b).wr_id, 1u);
    EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
    if (!failed) break;
  }
}

std::vector<int> OpenDescriptors() {
  std::vector<int> open;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(directory)) open.push_back(fd);
  }
  closedir(directory);
  std::ranges::sort(open);
  return open;
}

TEST(VerbsShortage, OfDescriptors) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  ibv_context* context = nullptr;
  const std::vector<int> before = OpenDescriptors();
  rlimit enough{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &enough), 0);
  int failures = 0;
  // One more each time, so that each of those that it needs is the one that is missing.
  for (rlim_t more = 0; context == nullptr && more < 50; ++more) {
    const rlimit few{.rlim_cur = more, .rlim_max = enough.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    errno = 0;
    context = ibv_open_device(list[0]);
    const int error = errno;
    errno = 0;
    ibv_comp_channel* const channel = context == nullptr ? nullptr : ibv_create_comp_channel(context);
    const int channel_error = errno;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &enough), 0);
    if (context != nullptr) {
      EXPECT_EQ(channel, nullptr) << "the device took the last one";
      EXPECT_EQ(channel_error, EMFILE);
      continue;
    }
    ++failures;
    EXPECT_NE(error, 0);
    ASSERT_EQ(OpenDescriptors(), before) << "with descriptors up to " << more;
  }
  ASSERT_NE(context, nullptr);
  // At least sockets for packets, for the loopback's, for UDP, and what waits for them; two counters.
  EXPECT_GE(failures, 6);
  EXPECT_GE(context->async_fd, 0);
  EXPECT_EQ(ibv_close_device(context), 0);
  EXPECT_EQ(OpenDescriptors(), before);
  ibv_free_device_list(list);
}

TEST(VerbsShortage, OfThreads) {
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  const std::vector<int> before = OpenDescriptors();
  // No thread can have a stack of that size.
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  errno = 0;
  ibv_context* context = ibv_open_device(list[0]);
  const int error = errno;
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(error, EAGAIN);
  EXPECT_EQ(OpenDescriptors(), before);
  sigset_t blocked;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0) << "signals reach the application as before";
  context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
  ibv_free_device_list(list);
}

// As many as the device says it has, and they receive: the last as well as the first.
TEST(VerbsShortage, OfQueuePairs) {
  Device a, b;
  ibv_cq *cq_a = a.CreateCq(8), *cq_b = b.CreateCq(8);
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(a.context, &attr), 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_a;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  const auto most = static_cast<size_t>(attr.max_qp);
  const std::vector<size_t> tried = {0, 240 * 256, 244 * 256, most - 1};
  std::vector<ibv_qp*> qps;
  while (qps.size() <= most) {
    // Those that are not tried are of the kind that needs less memory.
    init.qp_type = std::ranges::count(tried, qps.size()) != 0 ? IBV_QPT_RC : IBV_QPT_UD;
    ibv_qp* const qp = ibv_create_qp(a.pd, &init);
    if (qp == nullptr) break;
    qps.push_back(qp);
  }
  EXPECT_EQ(errno, ENOMEM);
  ASSERT_EQ(qps.size(), most);
  ibv_qp* const peer = CreateRc(b, cq_b);
  for (const size_t i : tried) {
    SCOPED_TRACE(i);
    Connect(qps[i], b.gid(), peer->qp_num);
    Connect(peer, a.gid(), qps[i]->qp_num);
    ASSERT_EQ(PostRecv(a, qps[i], i, 0, 8), 0);
    ASSERT_EQ(PostSend(b, peer, 1, 0, 8), 0);
    EXPECT_EQ(Await(cq_b).status, IBV_WC_SUCCESS);
    EXPECT_EQ(Await(cq_a).wr_id, i);
  }
  // One that is given back can be had again.
  EXPECT_EQ(ibv_destroy_qp(qps.front()), 0);
  qps.front() = ibv_create_qp(a.pd, &init);
  ASSERT_NE(qps.front(), nullptr);
  for (ibv_qp* qp : qps) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_qp(peer), 0);
  EXPECT_EQ(ibv_destroy_cq(cq_a), 0);
  EXPECT_EQ(ibv_destroy_cq(cq_b), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
