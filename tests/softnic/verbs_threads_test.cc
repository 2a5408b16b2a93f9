// Threads at once on one queue pair, on several of one device, and on the same queues. Meant for
// ThreadSanitizer as well.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr uint64_t kMessages = 300;  // by each thread
constexpr uint32_t kBytes = 2048;
constexpr int kWindow = 8;  // requests of a thread that have not completed

void RunThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Takes completions as whoever comes by until `done` reaches `goal`.
void PollUntil(ibv_cq* cq, std::atomic<uint64_t>& done, uint64_t goal) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (done.load() < goal && std::chrono::steady_clock::now() < give_up) {
    ibv_wc wcs[4];
    const int count = ibv_poll_cq(cq, 4, wcs);
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(wcs[i].status, IBV_WC_SUCCESS) << ibv_wc_status_str(wcs[i].status);
      ++done;
    }
  }
}

TEST(VerbsThreads, PostAndPollOnOneQueuePair) {
  Connection c({.send_depth = 4 * kWindow});
  std::atomic<uint64_t> posted = 0, done = 0;
  // Each thread writes to a place of its own.
  RunThreads(3, [&](int thread) {
    const size_t place = static_cast<size_t>(thread) * kBytes;
    std::memset(c.a.at(place), 0x40 + thread, kBytes);
    for (uint64_t i = 0; i < kMessages; ++i) {
      PollUntil(c.cq_a, done, posted < kWindow ? 0 : posted - kWindow);
      ASSERT_EQ(
          PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, i, place, kBytes, {c.b.address(place), c.b.mr->rkey}), 0);
      ++posted;
    }
  });
  PollUntil(c.cq_a, done, 3 * kMessages);
  EXPECT_EQ(done, 3 * kMessages);
  c.SeeWritesAtB();
  EXPECT_EQ(std::memcmp(c.a.at(0), c.b.at(0), 3 * kBytes), 0);
}

TEST(VerbsThreads, OwnQueuePairsOfOneDevice) {
  Device a, b;
  RunThreads(3, [&](int thread) {
    ibv_cq *cq_a = a.CreateCq(64), *cq_b = b.CreateCq(64);
    ibv_qp *qp_a = CreateRc(a, cq_a), *qp_b = CreateRc(b, cq_b);
    Connect(qp_a, b.gid(), qp_b->qp_num);
    Connect(qp_b, a.gid(), qp_a->qp_num);
    const size_t place = static_cast<size_t>(thread) * kBytes;
    for (uint64_t i = 0; i < kMessages; ++i) {
      std::memset(a.at(place), static_cast<int>(i) + thread, kBytes);
      ASSERT_EQ(PostRecv(b, qp_b, i, place, kBytes), 0);
      ASSERT_EQ(PostSend(a, qp_a, i, place, kBytes), 0);
      ASSERT_EQ(Await(cq_a).wr_id, i);
      ASSERT_EQ(Await(cq_b).wr_id, i);
      ASSERT_EQ(std::memcmp(a.at(place), b.at(place), kBytes), 0);
    }
    EXPECT_EQ(ibv_destroy_qp(qp_a), 0);
    EXPECT_EQ(ibv_destroy_qp(qp_b), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_a), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_b), 0);
  });
}

// Registrations that succeed and fail count the domain's users alike.
TEST(VerbsThreads, RegisterAndFailToInOneProtectionDomain) {
  Device device;
  ibv_pd* pd = ibv_alloc_pd(device.context);
  ASSERT_NE(pd, nullptr);
  RunThreads(3, [&](int thread) {
    uint8_t bytes[64];
    for (int i = 0; i < 20'000; ++i) {
      ibv_mr* mr = ibv_reg_mr(pd, bytes, thread == 0 ? sizeof bytes : 0, 0);
      ASSERT_EQ(mr != nullptr, thread == 0);
      if (mr != nullptr) {
        ASSERT_EQ(ibv_dereg_mr(mr), 0);
      }
    }
  });
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(VerbsThreads, OneWaitsForEventsAnotherPosts) {
  Connection c;
  ASSERT_EQ(ibv_req_notify_cq(c.cq_b, 0), 0);
  for (uint64_t i = 0; i < kWindow; ++i) ASSERT_EQ(PostRecv(c.b, c.qp_b, i, 0, kBytes), 0);
  std::thread receiver([&] {
    unsigned events = 0;
    for (uint64_t received = 0; received < kMessages;) {
      ibv_cq* cq = nullptr;
      void* user = nullptr;
      ASSERT_EQ(ibv_get_cq_event(c.b.channel, &cq, &user), 0);
      ++events;
      ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
      for (ibv_wc wc; ibv_poll_cq(cq, 1, &wc) == 1;) {
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.wr_id, received++);
        ASSERT_EQ(PostRecv(c.b, c.qp_b, wc.wr_id + kWindow, 0, kBytes), 0);
      }
    }
    ibv_ack_cq_events(c.cq_b, events);
  });
  for (uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(PostSend(c.a, c.qp_a, i, 0, kBytes), 0);
    ASSERT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  }
  receiver.join();
}

// What softnic offers beyond verbs (softnic/verbs/sleep.h); looked up, as commlib does.
int BeginSleep(ibv_cq* cq, int* fd) {
  return reinterpret_cast<int (*)(ibv_cq*, int*)>(dlsym(RTLD_DEFAULT, "epic_softnic_begin_sleep"))(cq, fd);
}
int EndSleep(ibv_cq* cq) {
  return reinterpret_cast<int (*)(ibv_cq*)>(dlsym(RTLD_DEFAULT, "epic_softnic_end_sleep"))(cq);
}
bool IsReadable(int fd, int timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, timeout_ms) == 1;
}
constexpr int kLongMs = 20'000;

// Now and then the helper thread is faster, after a millisecond: then the event has come, else it is taken
// back.
TEST(VerbsThreads, WhoSleepsOnThePortIsWokenByThePacket) {
  Connection c;
  int taken_back_in_all = 0;
  for (uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(PostRecv(c.b, c.qp_b, i, 0, kBytes), 0);
    int fd = -1, other = -1;
    ASSERT_EQ(BeginSleep(c.cq_b, &fd), 0);
    ASSERT_EQ(BeginSleep(c.cq_b, &other), EBUSY);
    ASSERT_EQ(PostSend(c.a, c.qp_a, i, 0, kBytes), 0);
    pollfd either[] = {{fd, POLLIN, 0}, {c.b.channel->fd, POLLIN, 0}};
    ASSERT_GT(poll(either, 2, kLongMs), 0);
    const bool taken_back = EndSleep(c.cq_b) == 1;
    taken_back_in_all += taken_back ? 1 : 0;
    ASSERT_EQ(Await(c.cq_b).wr_id, i);
    if (taken_back) {
      ASSERT_FALSE(IsReadable(c.b.channel->fd, 0)) << "message " << i;
    } else {
      ibv_cq* cq = nullptr;
      void* user = nullptr;
      ASSERT_EQ(ibv_get_cq_event(c.b.channel, &cq, &user), 0);
      ibv_ack_cq_events(cq, 1);
    }
    ASSERT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  }
  EXPECT_GT(taken_back_in_all, 0) << "the packet has not been left to it once";
}

TEST(VerbsThreads, WhoSleepsOnAPortThatGoesDownSleepsOn) {
  Device device;
  ibv_cq* cq = device.CreateCq(8);
  // While somebody polls, the helper thread stays away, and takes no error.
  std::atomic<bool> done = false;
  std::thread other([&] {
    for (ibv_wc wc; !done; ibv_poll_cq(cq, 1, &wc)) {
    }
  });
  EXPECT_EQ(std::system("ip link set eth0 down"), 0);
  bool slept = false;
  for (int i = 0; i < 1000 && !slept; ++i) {
    int fd = -1;
    ASSERT_EQ(BeginSleep(cq, &fd), 0);
    slept = !IsReadable(fd, 50);
    EndSleep(cq);
  }
  done = true;
  other.join();
  EXPECT_TRUE(slept) << "it is woken again and again";
  EXPECT_EQ(std::system("ip link set eth0 up"), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(VerbsThreads, AnEventComesAlsoIfNobodyLooksAtThePort) {
  Connection c;
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, kBytes), 0);
  int fd = -1;
  ASSERT_EQ(BeginSleep(c.cq_b, &fd), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 1, 0, kBytes), 0);
  ASSERT_TRUE(IsReadable(c.b.channel->fd, kLongMs));
  EXPECT_EQ(EndSleep(c.cq_b), 0);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(c.b.channel, &cq, &user), 0);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(Await(c.cq_b).wr_id, 1u);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace epic::softnic::testing
