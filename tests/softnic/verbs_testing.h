// Queue pairs with few words, for our own verbs programs over softnic. Plain libibverbs: whatever fails that
// a test does not ask for ends the program with a message.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace epic::softnic::testing {

// Prints what failed, and errno, and exits with 1.
[[noreturn]] void Die(const char* what);

// A device, the first one or another of the list, opened; with a protection domain, a channel, and memory
// that everybody may use.
struct Device {
  explicit Device(size_t memory_bytes = 1 << 16, int number = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_gid gid() const;
  uint8_t* at(size_t offset) { return memory.data() + offset; }
  uint64_t address(size_t offset) { return reinterpret_cast<uintptr_t>(at(offset)); }
  ibv_cq* CreateCq(int depth);  // on the channel
  // The next asynchronous event, acknowledged; its type only if there is one within 5 s.
  std::optional<ibv_async_event> NextEvent();
  // Whether an asynchronous event waits.
  bool HasEvent() const;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  std::vector<uint8_t> memory;
  ibv_mr* mr = nullptr;
};

struct QpOptions {
  uint32_t send_depth = 64, recv_depth = 64;
  ibv_srq* srq = nullptr;
  int access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  ibv_qp_type type = IBV_QPT_RC;  // or UC
};
ibv_qp* CreateRc(Device& device, ibv_cq* cq, const QpOptions& options = {});

struct PathOptions {
  uint8_t timeout = 14, retry_cnt = 7;
  uint8_t traffic_class = 0;
};
// From RESET, or wherever it is, to RTS.
void Connect(ibv_qp* qp, const ibv_gid& gid, uint32_t qpn, const QpOptions& options = {},
             const PathOptions& path = {});

// Verbs' return values; `bytes` at `offset` of the device's memory.
int PostRecv(Device& device, ibv_qp* qp, uint64_t id, size_t offset, uint32_t bytes);
int PostSend(Device& device, ibv_qp* qp, uint64_t id, size_t offset, uint32_t bytes);
struct Remote {
  uint64_t address = 0;
  uint32_t rkey = 0;
};
int PostRdma(Device& device, ibv_qp* qp, ibv_wr_opcode opcode, uint64_t id, size_t offset, uint32_t bytes,
             const Remote& remote);

// To eight bytes at `offset`: what memory held before. `swap` is of compare and swap only.
int PostAtomic(Device& device, ibv_qp* qp, ibv_wr_opcode opcode, uint64_t id, size_t offset,
               const Remote& remote, uint64_t compare_add, uint64_t swap = 0);

// Datagrams. The queue pair is in RTS, and has this Q_Key, as what it sends.
inline constexpr uint32_t kQkey = 0x1234;
inline constexpr uint32_t kGrh = 40;  // bytes of the header before a datagram
inline constexpr uint32_t kMulticastQpn = 0xffffff;
ibv_qp* CreateUd(Device& device, ibv_cq* cq);
// From RESET to RTS.
void MakeReady(ibv_qp* ud);
// Of an IPv4 or IPv6 address, one of a group included.
ibv_gid GidOf(const char* address);
// From the first address of the same version; what fails is told by errno.
ibv_ah* TryCreateAh(Device& device, const ibv_gid& to);
ibv_ah* CreateAh(Device& device, const ibv_gid& to);
int PostDatagram(Device& device, ibv_qp* qp, ibv_ah* to, uint32_t qpn, uint64_t id, size_t offset,
                 uint32_t bytes);

// Polls until a completion is there; dies after 20 s.
ibv_wc Await(ibv_cq* cq);

// Two queue pairs of two open devices, so that packets take the network; each with its queue.
struct Connection {
  explicit Connection(const QpOptions& options = {}, const PathOptions& path = {});
  ~Connection();
  // A Write is no news to the process that it goes to: a call into its device orders what has arrived before
  // what the caller reads afterwards, and what the caller has written before what arrives then.
  void SeeWritesAtB();

  Device a, b;
  ibv_cq *cq_a, *cq_b;
  ibv_qp *qp_a, *qp_b;
};

}  // namespace epic::softnic::testing
