// The objects behind the handles that verbs hands out. Each begins with the structure that the application
// sees (rdma-core 44, infiniband/verbs.h), so that a pointer to one is a pointer to the other.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "io/descriptor.h"
#include "io/interface.h"
#include "softnic/verbs/adapter.h"

// Exported, at a version given by libibverbs.map.
#define EPIC_VERBS extern "C" __attribute__((visibility("default")))

namespace epic::softnic {

struct Device {
  ibv_device base{};
  io::AddressedInterface interface;
  Network* network = nullptr;
  Device* before = nullptr;  // the one that was listed before it
};

// Takes `count` events, which have been taken back from those to read, off the counter of a descriptor. The
// adapter's lock is held.
void DropTokens(Adapter& adapter, int fd, size_t count);

struct CompChannel;
struct Cq;
struct Qp;
struct Srq;

// The consumer's side of an adapter: which objects its events are about. Guarded by the adapter's lock.
struct Context {
  verbs_context verbs{};  // ends with the ibv_context that the application has
  const Device* device = nullptr;
  uint32_t fork_depth = ForkDepth();  // of the process that opened it, and that alone may use it (call.h)
  io::Descriptor async;               // an eventfd that counts async_events
  std::map<uint32_t, Cq*> cqs;
  std::map<uint32_t, Qp*> qps;
  std::map<uint32_t, Srq*> srqs;
  std::deque<ibv_async_event> async_events;
  uint32_t next_pd = 1;
  std::unique_ptr<Adapter> adapter;  // the last: its thread tells of events until it is gone

  // Puts an event where the application reads it; the adapter's lock is held. Returns the eventfd that counts
  // it, or -1 if nobody is to hear of it.
  int OnEvent(const Event& event);
  int AddPortEvent(const ibv_async_event& event);
  // Takes back those events that nobody has read yet and that are about an object which is being destroyed.
  template <typename About>
  void ForgetAsync(About about) {
    DropTokens(*adapter, async.get(), std::erase_if(async_events, about));
  }
};

inline Context* Of(ibv_context* context) {
  return reinterpret_cast<Context*>(reinterpret_cast<char*>(context) - offsetof(verbs_context, context));
}

struct CompChannel {
  ibv_comp_channel base{};
  io::Descriptor waiting;  // an eventfd that counts the events
  std::deque<Cq*> events;
};

struct Pd {
  ibv_pd base{};
  uint32_t id = 0;
  int users = 0;
};

struct Mr {
  ibv_mr base{};
  bool zero_based = false;  // peers count its bytes from 0
  bool writable = false;    // its rights have local writes
};

// What lies between ibv_wr_start and ibv_wr_complete of a queue pair. Requests are kept as ibv_post_send
// takes them, but for pointers, which Post makes of the places in `pieces` and `bytes` when these grow no
// more.
struct Batch {
  struct Request {
    ibv_send_wr wr{};        // sg_list is not set
    size_t first_piece = 0;  // in pieces, of wr.num_sge; of inline data `addr` is a place in bytes
    bool has_data = false;   // a setter has been called
  };
  std::mutex mutex;  // held while it is open
  bool open = false;
  int error = 0;  // the first thing that was wrong; what ibv_wr_complete returns
  std::vector<Request> requests;
  std::vector<ibv_sge> pieces;
  std::vector<uint8_t> bytes;  // inline data, copied by the setters
  std::vector<roce::SendWr> converted;
};

// The iterator over the completions of an extended completion queue: where ibv_start_poll and ibv_next_poll
// are.
struct Poller {
  bool is_locked = true;  // not with IBV_CREATE_CQ_ATTR_SINGLE_THREADED
  std::mutex mutex;       // held from ibv_start_poll to ibv_end_poll, if is_locked
  bool open = false;
  ibv_wc wc{};
  Nanos at = 0;  // when the completion arose, by the port's clock
};

// Events that the application has read must be acknowledged before their object is destroyed (verbs,
// ibv_get_cq_event and ibv_get_async_event): hence the counts of those read.
struct Cq {
  union {
    ibv_cq_ex ex{};  // of ibv_create_cq_ex; those of ibv_create_cq use no more of it than is `base`
    ibv_cq base;
  };
  uint32_t id = 0;
  std::unique_ptr<Poller> poller;  // of ibv_create_cq_ex
  int users = 0;
  uint32_t comp_events_read = 0;
  uint32_t async_events_read = 0;
};

struct Srq {
  ibv_srq base{};
  uint32_t id = 0;
  uint32_t depth = 0;
  int users = 0;
  uint32_t events_read = 0;
};

struct Qp {
  union {
    ibv_qp_ex ex{};  // of those created with send_ops_flags; the others use no more of it than is `base`
    ibv_qp base;
  };
  std::unique_ptr<Batch> batch;  // of those created with send_ops_flags
  QpInit init;
  bool signal_all = false;
  uint32_t events_read = 0;
  ibv_qp_cap cap{};
  ibv_qp_attr attr{};                                   // as the application set it, for ibv_query_qp
  std::optional<std::pair<Ipv4, Qpn>> super_frames_to;  // the other end, if it takes them
  std::optional<Ipv4> by_wire_alone;  // a group, to which nobody on this machine belongs beside it
  bool super_frames_listed = false;   // by EPIC_SOFTNIC_SUPER_FRAMES, since it was RTR
  bool is_ud() const { return init.type == QpType::kUd; }
  bool is_rc() const { return init.type == QpType::kRc; }
};

struct Mw {
  ibv_mw base{};
  uint64_t number = 0;  // as the memory table has it
};

struct Ah {
  ibv_ah base{};
  Ip ip, from;
  uint8_t traffic_class = 0, hop_limit = 64;
};

// The structures that the application sees begin alike.
static_assert(offsetof(ibv_cq_ex, async_events_completed) == offsetof(ibv_cq, async_events_completed));
static_assert(offsetof(ibv_qp_ex, qp_base) == 0);

inline CompChannel* Of(ibv_comp_channel* c) { return reinterpret_cast<CompChannel*>(c); }
inline Pd* Of(ibv_pd* pd) { return reinterpret_cast<Pd*>(pd); }
inline Cq* Of(ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
inline Srq* Of(ibv_srq* srq) { return reinterpret_cast<Srq*>(srq); }
inline Qp* Of(ibv_qp* qp) { return reinterpret_cast<Qp*>(qp); }
inline Mw* Of(ibv_mw* mw) { return reinterpret_cast<Mw*>(mw); }
inline Mr* Of(ibv_mr* mr) { return reinterpret_cast<Mr*>(mr); }
inline Ah* Of(ibv_ah* ah) { return reinterpret_cast<Ah*>(ah); }
inline Adapter& AdapterOf(ibv_context* context) { return *Of(context)->adapter; }

// The GID table of the device's port, as GidsOf says and as the kernel has the addresses now, up or not:
// always two places at least.
std::vector<Ip> GidsNow(const Device& device);
inline constexpr size_t kGidPlaces = 16;  // what the table has at least; those behind its entries are empty
ibv_gid GidOf(Ip ip);
inline Ip IpOf(const ibv_gid& gid) { return Ip::Of(gid.raw); }
// Nothing if the GID is not an IPv4-mapped one.
std::optional<Ipv4> Ipv4Of(const ibv_gid& gid);

// Waits until the application has acknowledged as many events as it has read.
template <typename Object>
void AwaitAcknowledged(Object* object, const uint32_t* completed, uint32_t read) {
  pthread_mutex_lock(&object->mutex);
  while (*completed != read) pthread_cond_wait(&object->cond, &object->mutex);
  pthread_mutex_unlock(&object->mutex);
}

// For verbs that return a pointer or -1: sets errno.
inline std::nullptr_t Null(int error) {
  errno = error;
  return nullptr;
}

// What devices stand on: the kernel's interfaces, unless epic_softnic_use_network said otherwise.
Network& TheNetwork();

// data.cc
int PollCq(ibv_cq* cq, int count, ibv_wc* out);
// Takes one completion, with when it arose by the port's clock. False if there is none.
bool PollOne(Cq& cq, ibv_wc* out, Nanos* at);
int RequestNotify(ibv_cq* cq, int solicited_only);
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
// Posts all requests of the queue pair's batch, or, if one cannot be, none: 0 or an errno.
int PostBatch(Qp& qp);
// queue_pair.cc: what ibv_create_qp does, with a batch or null. Null and errno if it cannot be.
ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* init, std::unique_ptr<Batch> batch);
// work_requests.cc
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* init);
// queues.cc: what ibv_create_cq does, with a poller or null; tells_overrun: a completion that finds no room
// raises IBV_EVENT_CQ_ERR. Null and errno if it cannot be.
Cq* CreateCq(ibv_context* context, const ibv_cq_init_attr_ex& init, std::unique_ptr<Poller> poller,
             bool tells_overrun);
// extended_cq.cc
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* init);
int QueryRtValues(ibv_context* context, ibv_values_ex* values);
// windows.cc
ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int DeallocMw(ibv_mw* mw);
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
// 0, or an errno. rkey: the window's next key, of which the low byte counts.
int ToWindowBind(const Qp& qp, ibv_mw* mw, const ibv_mw_bind_info& info, uint32_t rkey,
                 roce::WindowBind* out);
// attributes.cc
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t bytes);
int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                  size_t bytes);

// What the adapter offers, told by ibv_query_device and kept to.
inline constexpr int kMaxQp = Adapter::kMaxQps, kMaxQpWr = 16384, kMaxCqe = 1 << 22, kMaxSrqWr = 1 << 16;
inline constexpr uint32_t kMaxInline = 1024;

}  // namespace epic::softnic
