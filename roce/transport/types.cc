#include "roce/transport/types.h"

#include <algorithm>

namespace epic::roce {

const char* Name(WcStatus status) {
  switch (status) {
    case WcStatus::kSuccess:
      return "SUCCESS";
    case WcStatus::kLocLenErr:
      return "LOC_LEN_ERR";
    case WcStatus::kLocQpOpErr:
      return "LOC_QP_OP_ERR";
    case WcStatus::kLocProtErr:
      return "LOC_PROT_ERR";
    case WcStatus::kWrFlushErr:
      return "WR_FLUSH_ERR";
    case WcStatus::kMwBindErr:
      return "MW_BIND_ERR";
    case WcStatus::kBadRespErr:
      return "BAD_RESP_ERR";
    case WcStatus::kRemInvReqErr:
      return "REM_INV_REQ_ERR";
    case WcStatus::kRemAccessErr:
      return "REM_ACCESS_ERR";
    case WcStatus::kRemOpErr:
      return "REM_OP_ERR";
    case WcStatus::kRetryExcErr:
      return "RETRY_EXC_ERR";
    case WcStatus::kRnrRetryExcErr:
      return "RNR_RETRY_EXC_ERR";
  }
  return "unknown";
}

SgeList SgeList::Of(std::span<const Sge> pieces) {
  SgeList list;
  list.count = static_cast<uint8_t>(pieces.size());
  const size_t in_place = std::min(pieces.size(), kSgesInPlace);
  std::ranges::copy(pieces.first(in_place), list.sge.begin());
  if (pieces.size() > in_place)
    list.more = std::make_shared<const std::vector<Sge>>(pieces.begin() + kSgesInPlace, pieces.end());
  return list;
}

bool IsTransition(QpState from, QpState to) {
  if (to == QpState::kReset || to == QpState::kErr) return true;
  switch (from) {
    case QpState::kReset:
      return to == QpState::kInit;
    case QpState::kInit:
      return to == QpState::kInit || to == QpState::kRtr;
    case QpState::kRtr:
      return to == QpState::kRts;
    case QpState::kRts:
      return to == QpState::kRts || to == QpState::kSqd;
    case QpState::kSqd:
      return to == QpState::kSqd || to == QpState::kRts;
    case QpState::kSqe:
      return to == QpState::kRts;
    case QpState::kErr:
      return false;
  }
  return false;
}

}  // namespace epic::roce
