// Extended completion queues: ibv_create_cq_ex, the iterator over completions, and the clock of their
// timestamps.
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <memory>
#include <utility>

#include "softnic/verbs/abi.h"
#include "softnic/verbs/call.h"

namespace epic::softnic {
namespace {

Cq* Of(ibv_cq_ex* ex) { return reinterpret_cast<Cq*>(ex); }
const ibv_wc& WcOf(ibv_cq_ex* ex) { return Of(ex)->poller->wc; }

// Moves the iterator: 0, or ENOENT.
int Advance(Cq& cq) {
  if (!PollOne(cq, &cq.poller->wc, &cq.poller->at)) return ENOENT;
  cq.ex.wr_id = cq.poller->wc.wr_id;
  cq.ex.status = cq.poller->wc.status;
  return 0;
}

void Close(Poller& poller) {
  poller.open = false;
  if (poller.is_locked) poller.mutex.unlock();
}

int StartPoll(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) {
  Cq& cq = *Of(ex);
  Poller& poller = *cq.poller;
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  return ErrnoOf(ex->context, [&] {
    if (poller.is_locked) poller.mutex.lock();
    const int error = Caught([&] { return Advance(cq); }, [](int thrown) { return thrown; });
    poller.open = true;
    if (error != 0) Close(poller);
    return error;
  });
}

int NextPoll(ibv_cq_ex* ex) {
  return ErrnoOf(ex->context, [&] { return Of(ex)->poller->open ? Advance(*Of(ex)) : EINVAL; });
}

// Does nothing where ibv_start_poll has failed.
void EndPoll(ibv_cq_ex* ex) {
  if (!IsInherited(ex->context) && Of(ex)->poller->open) Close(*Of(ex)->poller);
}

Nanos WallClock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// Fills in the functions; fields that nobody can ask for are 0.
void Offer(ibv_cq_ex& ex) {
  ex.start_poll = StartPoll;
  ex.next_poll = NextPoll;
  ex.end_poll = EndPoll;
  ex.read_opcode = [](ibv_cq_ex* cq) { return WcOf(cq).opcode; };
  ex.read_vendor_err = [](ibv_cq_ex* cq) { return WcOf(cq).vendor_err; };
  ex.read_byte_len = [](ibv_cq_ex* cq) { return WcOf(cq).byte_len; };
  ex.read_imm_data = [](ibv_cq_ex* cq) { return WcOf(cq).imm_data; };
  ex.read_qp_num = [](ibv_cq_ex* cq) { return WcOf(cq).qp_num; };
  ex.read_src_qp = [](ibv_cq_ex* cq) { return WcOf(cq).src_qp; };
  ex.read_wc_flags = [](ibv_cq_ex* cq) { return WcOf(cq).wc_flags; };
  ex.read_slid = [](ibv_cq_ex* cq) { return uint32_t{WcOf(cq).slid}; };
  ex.read_sl = [](ibv_cq_ex* cq) { return WcOf(cq).sl; };
  ex.read_dlid_path_bits = [](ibv_cq_ex* cq) { return WcOf(cq).dlid_path_bits; };
  ex.read_completion_ts = [](ibv_cq_ex* cq) { return static_cast<uint64_t>(Of(cq)->poller->at); };
  ex.read_cvlan = [](ibv_cq_ex*) { return uint16_t{0}; };
  ex.read_flow_tag = [](ibv_cq_ex*) { return uint32_t{0}; };
  ex.read_tm_info = [](ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; };
  ex.read_completion_wallclock_ns = [](ibv_cq_ex* cq) {
    const Nanos age = AdapterOf(cq->context).Now() - Of(cq)->poller->at;
    return static_cast<uint64_t>(WallClock() - age);
  };
}

}  // namespace

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* init) {
  constexpr uint64_t kFields = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                               IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  constexpr uint32_t kFlags =
      uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED} | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((init->comp_mask & ~uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) != 0) return Null(EOPNOTSUPP);
  const uint32_t flags = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? init->flags : 0;
  if ((init->wc_flags & ~kFields) != 0 || (flags & ~kFlags) != 0) return Null(EOPNOTSUPP);
  return ObjectOf(context, [&]() -> ibv_cq_ex* {
    auto poller = std::make_unique<Poller>();
    poller->is_locked = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) == 0;
    Cq* const cq =
        CreateCq(context, *init, std::move(poller), (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) == 0);
    if (cq == nullptr) return nullptr;
    Offer(cq->ex);
    return &cq->ex;
  });
}

// The raw clock is the port's, in nanoseconds, whole in tv_nsec, as NICs with a counter give theirs: so it
// compares with ibv_wc_read_completion_ts.
int QueryRtValues(ibv_context* context, ibv_values_ex* values) {
  return ErrnoOf(context, [&] {
    if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EINVAL;
    if (values->comp_mask != 0) values->raw_clock = {.tv_sec = 0, .tv_nsec = AdapterOf(context).Now()};
    return 0;
  });
}

}  // namespace epic::softnic
