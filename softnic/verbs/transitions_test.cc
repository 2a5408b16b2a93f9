#include "softnic/verbs/transitions.h"

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

namespace epic::softnic::testing {
namespace {

// As drivers/infiniband/core/verbs.c of Linux has them, but for IBV_QP_ALT_PATH, of RC, UC and UD.
struct Row {
  const char* name;
  ibv_qp_state from, to;
  std::array<int, 3> needed, optional;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

constexpr std::array kTypes{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
constexpr int kAllBits = 26;  // as ibv_qp_attr_mask
constexpr int kInitRc = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kInitUd = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kRtrUc = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kRtrRc = kRtrUc | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kMayRtrRc = IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
constexpr int kMayRtrUd = IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
constexpr int kRtsRc =
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kMayRtsUc = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE;
constexpr int kMayRtsRc = kMayRtsUc | IBV_QP_MIN_RNR_TIMER;
constexpr int kMayRtsUd = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr int kNotify = IBV_QP_EN_SQD_ASYNC_NOTIFY;
constexpr int kMaySqdUc = IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE;
constexpr int kMaySqdRc = kMaySqdUc | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kMaySqdUd = IBV_QP_PKEY_INDEX | IBV_QP_QKEY;

const std::vector<Row> kRows = {
    {"ResetToReset", IBV_QPS_RESET, IBV_QPS_RESET, {}, {}},
    {"ResetToInit", IBV_QPS_RESET, IBV_QPS_INIT, {kInitRc, kInitRc, kInitUd}, {}},
    {"ResetToErr", IBV_QPS_RESET, IBV_QPS_ERR, {}, {}},  // figure 126 of the specification, not the kernel
    {"InitToReset", IBV_QPS_INIT, IBV_QPS_RESET, {}, {}},
    {"InitToErr", IBV_QPS_INIT, IBV_QPS_ERR, {}, {}},
    {"InitToInit", IBV_QPS_INIT, IBV_QPS_INIT, {}, {kInitRc, kInitRc, kInitUd}},
    {"InitToRtr", IBV_QPS_INIT, IBV_QPS_RTR, {kRtrRc, kRtrUc, 0}, {kMayRtrRc, kMayRtrRc, kMayRtrUd}},
    {"RtrToReset", IBV_QPS_RTR, IBV_QPS_RESET, {}, {}},
    {"RtrToErr", IBV_QPS_RTR, IBV_QPS_ERR, {}, {}},
    {"RtrToRts",
     IBV_QPS_RTR,
     IBV_QPS_RTS,
     {kRtsRc, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN},
     {kMayRtsRc, kMayRtsUc, kMayRtsUd}},
    {"RtsToReset", IBV_QPS_RTS, IBV_QPS_RESET, {}, {}},
    {"RtsToErr", IBV_QPS_RTS, IBV_QPS_ERR, {}, {}},
    {"RtsToRts", IBV_QPS_RTS, IBV_QPS_RTS, {}, {kMayRtsRc, kMayRtsUc, kMayRtsUd}},
    {"RtsToSqd", IBV_QPS_RTS, IBV_QPS_SQD, {}, {kNotify, kNotify, kNotify}},
    {"SqdToReset", IBV_QPS_SQD, IBV_QPS_RESET, {}, {}},
    {"SqdToErr", IBV_QPS_SQD, IBV_QPS_ERR, {}, {}},
    {"SqdToRts", IBV_QPS_SQD, IBV_QPS_RTS, {}, {kMayRtsRc, kMayRtsUc, kMayRtsUd}},
    {"SqdToSqd", IBV_QPS_SQD, IBV_QPS_SQD, {}, {kMaySqdRc, kMaySqdUc, kMaySqdUd}},
    {"SqeToReset", IBV_QPS_SQE, IBV_QPS_RESET, {}, {}},
    {"SqeToErr", IBV_QPS_SQE, IBV_QPS_ERR, {}, {}},
    {"SqeToRts",
     IBV_QPS_SQE,
     IBV_QPS_RTS,
     {},
     {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS, IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    {"ErrToReset", IBV_QPS_ERR, IBV_QPS_RESET, {}, {}},
    {"ErrToErr", IBV_QPS_ERR, IBV_QPS_ERR, {}, {}},
};

class TransitionTest : public ::testing::TestWithParam<Row> {};

TEST_P(TransitionTest, NeedsAndTakesWhatItsRowSays) {
  const Row& row = GetParam();
  for (size_t i = 0; i < kTypes.size(); ++i) {
    const int needed = row.needed[i], optional = row.optional[i];
    const auto may = [&](int mask) { return MayModify(row.from, row.to, kTypes[i], mask); };
    EXPECT_TRUE(may(needed)) << kTypes[i];
    EXPECT_TRUE(may(needed | IBV_QP_STATE)) << kTypes[i];
    EXPECT_TRUE(may(needed | optional)) << kTypes[i];
    for (int bit = 2; bit < 1 << kAllBits; bit <<= 1) {
      if ((needed & bit) != 0) {
        EXPECT_FALSE(may(needed & ~bit)) << kTypes[i] << " without " << bit;
      } else {
        EXPECT_EQ(may(needed | bit), (optional & bit) != 0) << kTypes[i] << " with " << bit;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, TransitionTest, ::testing::ValuesIn(kRows),
                         [](const auto& test) { return test.param.name; });

TEST(TransitionsTest, ThereAreNoOthers) {
  std::set<std::pair<int, int>> known;
  for (const Row& row : kRows) known.emplace(row.from, row.to);
  EXPECT_EQ(known.size(), kRows.size());
  for (int from = IBV_QPS_RESET; from <= IBV_QPS_UNKNOWN; ++from) {
    for (int to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN; ++to) {
      if (known.contains({from, to}) || (from == IBV_QPS_UNKNOWN && to != from)) continue;
      for (const ibv_qp_type type : kTypes)
        EXPECT_FALSE(MayModify(ibv_qp_state(from), ibv_qp_state(to), type, 0)) << from << " to " << to;
    }
  }
}

}  // namespace
}  // namespace epic::softnic::testing
