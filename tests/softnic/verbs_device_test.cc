// What a device says of itself is what it does: limits hold, and one more is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

ibv_device_attr AttributesOf(const Device& device) {
  ibv_device_attr attr{};
  EXPECT_EQ(ibv_query_device(device.context, &attr), 0);
  return attr;
}

TEST(VerbsDevice, BothQueriesSayTheSame) {
  const Device device;
  const ibv_device_attr plain = AttributesOf(device);
  ibv_device_attr_ex extended;
  std::memset(&extended, 0xee, sizeof extended);
  ASSERT_EQ(ibv_query_device_ex(device.context, nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &plain, sizeof plain), 0);
  EXPECT_EQ(extended.comp_mask, 0u);
  EXPECT_EQ(extended.device_cap_flags_ex, plain.device_cap_flags);
  EXPECT_EQ(extended.completion_timestamp_mask, UINT64_MAX);
  EXPECT_EQ(extended.hca_core_clock, 1'000'000u) << "kHz: it counts nanoseconds";
  EXPECT_EQ(extended.phys_port_cnt_ex, 1u);
  EXPECT_EQ(extended.odp_caps.general_caps, 0u);
  EXPECT_EQ(extended.cq_mod_caps.max_cq_count, 0);
  EXPECT_EQ(extended.tso_caps.max_tso, 0u);
  EXPECT_EQ(extended.max_dm_size, 0u);
  EXPECT_EQ(extended.raw_packet_caps, 0u);
  ibv_query_device_ex_input input{.comp_mask = 1};
  EXPECT_EQ(ibv_query_device_ex(device.context, &input, &extended), EINVAL);
}

TEST(VerbsDevice, ProgramsThatKnowLessGetLess) {
  const Device device;
  std::array<uint8_t, sizeof(ibv_device_attr_ex)> bytes;
  bytes.fill(0xee);
  constexpr size_t kKnown = offsetof(ibv_device_attr_ex, tso_caps);
  auto* const attr = reinterpret_cast<ibv_device_attr_ex*>(bytes.data());
  const verbs_context* const verbs = verbs_get_ctx(device.context);
  ASSERT_EQ(verbs->query_device_ex(device.context, nullptr, attr, kKnown), 0);
  EXPECT_EQ(attr->hca_core_clock, 1'000'000u);
  EXPECT_TRUE(std::all_of(bytes.begin() + kKnown, bytes.end(), [](uint8_t byte) { return byte == 0xee; }));
  EXPECT_EQ(verbs->query_device_ex(device.context, nullptr, attr, sizeof(ibv_device_attr) - 1), EINVAL);
}

TEST(VerbsDevice, LimitsOfQueuesHold) {
  Device device;
  const ibv_device_attr attr = AttributesOf(device);
  ibv_cq* cq = device.CreateCq(8);
  const auto queue_pair = [&](const ibv_qp_cap& cap, ibv_qp_type type) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = cap;
    init.qp_type = type;
    ibv_qp* const qp = ibv_create_qp(device.pd, &init);
    return qp != nullptr && ibv_destroy_qp(qp) == 0;
  };
  const auto requests = static_cast<uint32_t>(attr.max_qp_wr), pieces = static_cast<uint32_t>(attr.max_sge);
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UD}) {
    SCOPED_TRACE(type);
    EXPECT_TRUE(queue_pair({.max_send_wr = requests, .max_recv_wr = requests}, type));
    EXPECT_FALSE(queue_pair({.max_send_wr = requests + 1}, type));
    EXPECT_FALSE(queue_pair({.max_recv_wr = requests + 1}, type));
    EXPECT_TRUE(queue_pair({.max_send_sge = pieces, .max_recv_sge = pieces}, type));
    EXPECT_FALSE(queue_pair({.max_send_sge = pieces + 1}, type));
    EXPECT_FALSE(queue_pair({.max_recv_sge = pieces + 1}, type));
  }
  const auto completions = [&](int count) {
    ibv_cq* const other = ibv_create_cq(device.context, count, nullptr, nullptr, 0);
    return other != nullptr && ibv_destroy_cq(other) == 0;
  };
  EXPECT_FALSE(completions(attr.max_cqe + 1));
  EXPECT_FALSE(completions(-1));
  const auto shared = [&](int wr, int sge) {
    ibv_srq_init_attr init{
        .attr = {.max_wr = static_cast<uint32_t>(wr), .max_sge = static_cast<uint32_t>(sge)}};
    ibv_srq* const srq = ibv_create_srq(device.pd, &init);
    return srq != nullptr && ibv_destroy_srq(srq) == 0;
  };
  EXPECT_TRUE(shared(attr.max_srq_wr, attr.max_srq_sge));
  EXPECT_FALSE(shared(attr.max_srq_wr + 1, 1));
  EXPECT_FALSE(shared(1, attr.max_srq_sge + 1));
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(VerbsDevice, AsManyMulticastGroupsAsItSays) {
  Device device;
  const ibv_device_attr attr = AttributesOf(device);
  ibv_cq* cq = device.CreateCq(8);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_UD;
  constexpr int kGroupsOfOne = 16;
  std::vector<ibv_qp*> qps;
  const auto group = [](int number) {
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 239;
    gid.raw[15] = static_cast<uint8_t>(number + 1);
    return gid;
  };
  for (int i = 0; i <= attr.max_mcast_grp; ++i) {
    if (i % kGroupsOfOne == 0) qps.push_back(ibv_create_qp(device.pd, &init));
    ASSERT_NE(qps.back(), nullptr);
    const ibv_gid gid = group(i);
    EXPECT_EQ(ibv_attach_mcast(qps.back(), &gid, 0), i < attr.max_mcast_grp ? 0 : ENOBUFS) << i;
  }
  for (int i = 0; i < attr.max_mcast_grp; ++i) {
    const ibv_gid gid = group(i);
    EXPECT_EQ(ibv_detach_mcast(qps[static_cast<size_t>(i / kGroupsOfOne)], &gid, 0), 0);
  }
  for (ibv_qp* qp : qps) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(VerbsDevice, TheStateThatSomebodyThinksItIsInIsChecked) {
  Connection c;
  ASSERT_NE(AttributesOf(c.a).device_cap_flags & IBV_DEVICE_CURR_QP_STATE_MOD, 0u);
  ibv_qp_attr attr{.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  attr.cur_qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

TEST(VerbsDevice, TheGidTableHasEmptyPlaces) {
  Device device;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
  std::vector<ibv_gid_entry> entries(static_cast<size_t>(port.gid_tbl_len));
  const ssize_t count = ibv_query_gid_table(device.context, entries.data(), entries.size(), 0);
  ASSERT_GE(count, 2);
  ASSERT_LT(count, port.gid_tbl_len);
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    SCOPED_TRACE(i);
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(device.context, 1, i, &gid), 0);
    ibv_gid_entry entry{};
    const auto listed = std::find_if(entries.begin(), entries.begin() + count,
                                     [i](const ibv_gid_entry& e) { return e.gid_index == unsigned(i); });
    if (listed == entries.begin() + count) {
      EXPECT_EQ(ibv_query_gid_ex(device.context, 1, static_cast<uint32_t>(i), &entry, 0), ENODATA);
      EXPECT_EQ(std::memcmp(&gid, &entry.gid, sizeof gid), 0) << "zeroes";
    } else {
      EXPECT_EQ(ibv_query_gid_ex(device.context, 1, static_cast<uint32_t>(i), &entry, 0), 0);
      EXPECT_EQ(entry.gid_type, unsigned{IBV_GID_TYPE_ROCE_V2});
      EXPECT_EQ(std::memcmp(&gid, &entry.gid, sizeof gid), 0);
      EXPECT_EQ(std::memcmp(&gid, &listed->gid, sizeof gid), 0);
    }
  }
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(device.context, 1, static_cast<uint32_t>(port.gid_tbl_len), &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(device.context, 2, 0, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 0, &entry, 1), EINVAL);
}

// Bytes of a message are copied in any order.
TEST(VerbsDevice, NoOrderOfBytesIsPromised) {
  Connection c;
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ})
    EXPECT_EQ(ibv_query_qp_data_in_order(c.qp_a, opcode, 0), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
