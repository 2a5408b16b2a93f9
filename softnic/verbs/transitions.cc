#include "softnic/verbs/transitions.h"

#include <algorithm>
#include <iterator>

namespace epic::softnic {
namespace {

struct Attributes {
  int needed = 0, optional = 0;
};

struct Transition {
  ibv_qp_state from, to;
  Attributes rc, uc, ud;
};

constexpr int kPkey = IBV_QP_PKEY_INDEX, kPort = kPkey | IBV_QP_PORT, kQkey = IBV_QP_QKEY;
constexpr int kAccess = IBV_QP_ACCESS_FLAGS, kRnrTimer = IBV_QP_MIN_RNR_TIMER;
constexpr int kPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kPeersReads = IBV_QP_MAX_DEST_RD_ATOMIC, kOwnReads = IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kRetries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
// Of connections. There are no alternate paths (IBV_QP_ALT_PATH, which may be left out everywhere), so the
// state of migration can only be said to be what it is.
constexpr int kOpen = kAccess | IBV_QP_PATH_MIG_STATE;
constexpr int kNow = IBV_QP_CUR_STATE;

// Those to RESET and to ERR, from any state, are not listed: they take nothing.
constexpr Transition kTransitions[] = {
    {.from = IBV_QPS_RESET,
     .to = IBV_QPS_INIT,
     .rc = {.needed = kPort | kAccess},
     .uc = {.needed = kPort | kAccess},
     .ud = {.needed = kPort | kQkey}},
    {.from = IBV_QPS_INIT,
     .to = IBV_QPS_INIT,
     .rc = {.optional = kPort | kAccess},
     .uc = {.optional = kPort | kAccess},
     .ud = {.optional = kPort | kQkey}},
    {.from = IBV_QPS_INIT,
     .to = IBV_QPS_RTR,
     .rc = {.needed = kPath | kPeersReads | kRnrTimer, .optional = kPkey | kAccess},
     .uc = {.needed = kPath, .optional = kPkey | kAccess},
     .ud = {.optional = kPkey | kQkey}},
    {.from = IBV_QPS_RTR,
     .to = IBV_QPS_RTS,
     .rc = {.needed = IBV_QP_SQ_PSN | kRetries | kOwnReads, .optional = kNow | kOpen | kRnrTimer},
     .uc = {.needed = IBV_QP_SQ_PSN, .optional = kNow | kOpen},
     .ud = {.needed = IBV_QP_SQ_PSN, .optional = kNow | kQkey}},
    {.from = IBV_QPS_RTS,
     .to = IBV_QPS_RTS,
     .rc = {.optional = kNow | kOpen | kRnrTimer},
     .uc = {.optional = kNow | kOpen},
     .ud = {.optional = kNow | kQkey}},
    {.from = IBV_QPS_RTS,
     .to = IBV_QPS_SQD,
     .rc = {.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY},
     .uc = {.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY},
     .ud = {.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    {.from = IBV_QPS_SQD,
     .to = IBV_QPS_SQD,
     .rc = {.optional = kPort | IBV_QP_AV | kRetries | kOwnReads | kPeersReads | kOpen | kRnrTimer},
     .uc = {.optional = kPkey | IBV_QP_AV | kOpen},
     .ud = {.optional = kPkey | kQkey}},
    {.from = IBV_QPS_SQD,
     .to = IBV_QPS_RTS,
     .rc = {.optional = kNow | kOpen | kRnrTimer},
     .uc = {.optional = kNow | kOpen},
     .ud = {.optional = kNow | kQkey}},
    {.from = IBV_QPS_SQE,
     .to = IBV_QPS_RTS,
     .uc = {.optional = kNow | kAccess},
     .ud = {.optional = kNow | kQkey}},
};

const Attributes& Of(const Transition& transition, ibv_qp_type type) {
  return type == IBV_QPT_RC ? transition.rc : type == IBV_QPT_UC ? transition.uc : transition.ud;
}

}  // namespace

bool MayModify(ibv_qp_state from, ibv_qp_state to, ibv_qp_type type, int mask) {
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0;
  const auto* const found =
      std::ranges::find_if(kTransitions, [&](const Transition& t) { return t.from == from && t.to == to; });
  if (found == std::end(kTransitions)) return false;
  const auto& [needed, optional] = Of(*found, type);
  return (mask & needed) == needed && (mask & ~(needed | optional)) == 0;
}

}  // namespace epic::softnic
