// Extended completion queues: the iterator, what it reads, timestamps, flags.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>
#include <vector>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr uint64_t kAllFields = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

ibv_cq_ex* CreateEx(const Device& device, uint32_t depth, uint32_t flags = 0) {
  ibv_cq_init_attr_ex init{.cqe = depth, .channel = device.channel, .wc_flags = kAllFields};
  init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  init.flags = flags;
  ibv_cq_ex* ex = ibv_create_cq_ex(device.context, &init);
  if (ex == nullptr) Die("ibv_create_cq_ex");
  return ex;
}

// A Connection with a queue pair at b whose completions, of both kinds, come to an extended queue.
struct PolledConnection : Connection {
  explicit PolledConnection(uint32_t flags = 0, uint32_t depth = 16) : ex(CreateEx(b, depth, flags)) {
    qp = CreateRc(b, ibv_cq_ex_to_cq(ex));
    Connect(qp, a.gid(), qp_a->qp_num);
    Connect(qp_a, b.gid(), qp->qp_num);
  }
  ~PolledConnection() {
    if (qp != nullptr && ibv_destroy_qp(qp) != 0) Die("ibv_destroy_qp");
    if (ibv_destroy_cq(ibv_cq_ex_to_cq(ex)) != 0) Die("ibv_destroy_cq");
  }
  // Begins a batch, as soon as there is a completion.
  void Start() {
    ibv_poll_cq_attr attr{};
    int error = ENOENT;
    for (int i = 0; i < 1'000'000 && error == ENOENT; ++i) error = ibv_start_poll(ex, &attr);
    ASSERT_EQ(error, 0);
  }
  // The next completion of a batch that has begun.
  void Next() {
    int error = ENOENT;
    for (int i = 0; i < 1'000'000 && error == ENOENT; ++i) error = ibv_next_poll(ex);
    ASSERT_EQ(error, 0);
  }
  // b gets so many messages, and their completions are there when it returns.
  void Receive(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(PostRecv(b, qp, i, 0, 8), 0);
      ASSERT_EQ(PostSend(a, qp_a, 100 + i, 0, 8), 0);
      EXPECT_EQ(Await(cq_a).status, IBV_WC_SUCCESS);
    }
  }

  ibv_cq_ex* ex;
  ibv_qp* qp = nullptr;
};

int64_t NowOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

TEST(VerbsExtendedCq, EveryFieldOfACompletionCanBeRead) {
  PolledConnection c;
  ibv_sge sge{c.a.address(0), 20, c.a.mr->lkey};
  ibv_send_wr wr{.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM}, *bad = nullptr;
  wr.imm_data = htonl(0x0a0b0c0d);
  ASSERT_EQ(PostRecv(c.b, c.qp, 7, 0, 64), 0);
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  c.Start();
  EXPECT_EQ(c.ex->wr_id, 7u);
  EXPECT_EQ(c.ex->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(c.ex), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(c.ex), 20u);
  EXPECT_EQ(ibv_wc_read_imm_data(c.ex), htonl(0x0a0b0c0d));
  EXPECT_EQ(ibv_wc_read_wc_flags(c.ex), unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(ibv_wc_read_qp_num(c.ex), c.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(c.ex), 0u) << "of datagrams only";
  EXPECT_EQ(ibv_wc_read_vendor_err(c.ex), 0u);
  EXPECT_EQ(ibv_wc_read_slid(c.ex), 0u);
  EXPECT_EQ(ibv_wc_read_sl(c.ex), 0);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(c.ex), 0);
  // Nobody can ask for these; a program that reads them all the same goes on.
  EXPECT_EQ(ibv_wc_read_cvlan(c.ex), 0);
  EXPECT_EQ(ibv_wc_read_flow_tag(c.ex), 0u);
  ibv_wc_tm_info info{.tag = 7};
  ibv_wc_read_tm_info(c.ex, &info);
  EXPECT_EQ(info.tag, 0u);
  EXPECT_EQ(ibv_next_poll(c.ex), ENOENT);
  EXPECT_EQ(ibv_wc_read_byte_len(c.ex), 20u) << "it stands where it stood";
  ibv_end_poll(c.ex);
}

TEST(VerbsExtendedCq, TheIteratorTakesOneAfterTheOther) {
  PolledConnection c(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
  ibv_poll_cq_attr attr{};
  EXPECT_EQ(ibv_start_poll(c.ex, &attr), ENOENT);
  ibv_end_poll(c.ex);
  EXPECT_EQ(ibv_next_poll(c.ex), EINVAL) << "nothing was started";
  attr.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(c.ex, &attr), EINVAL);
  c.Receive(5);
  c.Start();
  EXPECT_EQ(c.ex->wr_id, 0u);
  c.Next();
  EXPECT_EQ(c.ex->wr_id, 1u);
  ibv_end_poll(c.ex);
  EXPECT_EQ(Await(ibv_cq_ex_to_cq(c.ex)).wr_id, 2u) << "the plain verb takes the next";
  c.Start();
  EXPECT_EQ(c.ex->wr_id, 3u);
  c.Next();
  EXPECT_EQ(c.ex->wr_id, 4u);
  EXPECT_EQ(ibv_next_poll(c.ex), ENOENT);
  ibv_end_poll(c.ex);
  EXPECT_EQ(ibv_start_poll(c.ex, nullptr), ENOENT);
}

TEST(VerbsExtendedCq, ErrorsAreReadAsWell) {
  PolledConnection c;
  ASSERT_EQ(PostRecv(c.b, c.qp, 3, 0, 8), 0);
  ibv_qp_attr attr{.qp_state = IBV_QPS_ERR};
  ASSERT_EQ(ibv_modify_qp(c.qp, &attr, IBV_QP_STATE), 0);
  c.Start();
  EXPECT_EQ(c.ex->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(c.ex->wr_id, 3u);
  EXPECT_EQ(ibv_wc_read_qp_num(c.ex), c.qp->qp_num);
  ibv_end_poll(c.ex);
}

// Between two readings of the clocks that they are of.
TEST(VerbsExtendedCq, TimestampsAreOfThePortsClock) {
  PolledConnection c;
  const auto raw_clock = [&] {
    ibv_values_ex values{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    EXPECT_EQ(ibv_query_rt_values_ex(c.b.context, &values), 0);
    EXPECT_EQ(values.comp_mask, unsigned{IBV_VALUES_MASK_RAW_CLOCK});
    return static_cast<uint64_t>(values.raw_clock.tv_nsec);
  };
  const uint64_t before = raw_clock();
  const int64_t wall_before = NowOf(CLOCK_REALTIME);
  c.Receive(2);
  c.Start();
  const uint64_t first = ibv_wc_read_completion_ts(c.ex);
  const uint64_t first_wall = ibv_wc_read_completion_wallclock_ns(c.ex);
  c.Next();
  const uint64_t second = ibv_wc_read_completion_ts(c.ex);
  ibv_end_poll(c.ex);
  EXPECT_LE(before, first);
  EXPECT_LT(first, second) << "the second was sent when the first had been acknowledged";
  EXPECT_LE(second, raw_clock());
  // That clock may be set meanwhile, but not by hours.
  constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;
  EXPECT_GE(static_cast<int64_t>(first_wall), wall_before - kHour);
  EXPECT_LE(static_cast<int64_t>(first_wall), NowOf(CLOCK_REALTIME) + kHour);
  // A flush is stamped when it happens, not with the packet before it.
  ASSERT_EQ(PostRecv(c.b, c.qp, 3, 0, 8), 0);
  const uint64_t before_flush = raw_clock();
  ibv_qp_attr attr{.qp_state = IBV_QPS_ERR};
  ASSERT_EQ(ibv_modify_qp(c.qp, &attr, IBV_QP_STATE), 0);
  c.Start();
  EXPECT_GE(ibv_wc_read_completion_ts(c.ex), before_flush);
  ibv_end_poll(c.ex);
  ibv_values_ex values{.comp_mask = 2};
  EXPECT_EQ(ibv_query_rt_values_ex(c.b.context, &values), EINVAL);
}

TEST(VerbsExtendedCq, AnOverrunIsToldUnlessItIsToBeIgnored) {
  for (const uint32_t flags : {0u, uint32_t{IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}}) {
    SCOPED_TRACE(flags);
    PolledConnection c(flags, 1);
    c.Receive(2);
    c.Start();
    EXPECT_EQ(c.ex->wr_id, 0u);
    EXPECT_EQ(ibv_next_poll(c.ex), ENOENT) << "the second is lost";
    ibv_end_poll(c.ex);
    if (flags != 0) {
      EXPECT_FALSE(c.b.HasEvent());
      continue;
    }
    const auto event = c.b.NextEvent();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event->element.cq, ibv_cq_ex_to_cq(c.ex));
  }
}

TEST(VerbsExtendedCq, EventsComeAsForAnyQueue) {
  PolledConnection c;
  ASSERT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(c.ex), 0), 0);
  c.Receive(1);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(c.b.channel, &cq, &user), 0);
  EXPECT_EQ(cq, ibv_cq_ex_to_cq(c.ex));
  ibv_ack_cq_events(cq, 1);
}

TEST(VerbsExtendedCq, ThreadsTakeTurnsByBatches) {
  PolledConnection c;
  constexpr uint64_t kMessages = 16;
  c.Receive(kMessages);
  std::vector<std::vector<uint64_t>> taken(4);
  std::vector<std::thread> threads;
  for (std::vector<uint64_t>& mine : taken) {
    threads.emplace_back([&c, &mine] {
      ibv_poll_cq_attr attr{};
      while (ibv_start_poll(c.ex, &attr) == 0) {
        const uint64_t id = c.ex->wr_id;
        std::this_thread::yield();
        // Nobody has moved it meanwhile.
        mine.push_back(c.ex->wr_id == id ? id : UINT64_MAX);
        ibv_end_poll(c.ex);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<bool> seen(kMessages);
  for (const auto& mine : taken) {
    for (const uint64_t id : mine) {
      ASSERT_LT(id, kMessages);
      EXPECT_FALSE(seen[id]) << id;
      seen[id] = true;
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<ptrdiff_t>(kMessages));
}

TEST(VerbsExtendedCq, QueuesThatCannotBeHadAreRefused) {
  Device device, other;
  const auto refused_with = [&](ibv_cq_init_attr_ex init) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq_ex(device.context, &init), nullptr);
    return errno;
  };
  EXPECT_EQ(refused_with({.cqe = 0}), EINVAL);
  EXPECT_EQ(refused_with({.cqe = UINT32_MAX}), EINVAL);
  EXPECT_EQ(refused_with({.cqe = 8, .comp_vector = 1}), EINVAL);
  EXPECT_EQ(refused_with({.cqe = 8, .channel = other.channel}), EINVAL);
  EXPECT_EQ(refused_with({.cqe = 8, .wc_flags = IBV_WC_EX_WITH_CVLAN}), EOPNOTSUPP);
  EXPECT_EQ(refused_with({.cqe = 8, .wc_flags = uint64_t{1} << 40}), EOPNOTSUPP);
  EXPECT_EQ(refused_with({.cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD}), EOPNOTSUPP);
  EXPECT_EQ(refused_with({.cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 4}), EOPNOTSUPP);
  ibv_cq_init_attr_ex init{.cqe = 8, .flags = 0xff};
  ibv_cq_ex* ex = ibv_create_cq_ex(device.context, &init);
  ASSERT_NE(ex, nullptr) << "flags that comp_mask does not name are not looked at";
  ibv_modify_cq_attr moderation{.attr_mask = IBV_CQ_ATTR_MODERATE,
                                .moderate = {.cq_count = 4, .cq_period = 10}};
  EXPECT_EQ(ibv_modify_cq(ibv_cq_ex_to_cq(ex), &moderation), EOPNOTSUPP);
  EXPECT_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(ex), 16), 0);
  EXPECT_EQ(ex->cqe, 16);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
