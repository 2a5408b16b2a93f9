// A RoCE port and the memory registered on it. Devices are opened once per process and port.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/types.h"
#include "epic/epic.h"

namespace epic::verbs {

// Whose datagrams to a multicast group a NIC gives to a queue pair that is attached there.
enum class DatagramReach : uint8_t {
  kNone,    // it has no multicast
  kRemote,  // those of other hosts
  kAll,     // and what is sent on this host
};

// Owns a context and a protection domain. Immutable once open, hence safe from any thread.
class Device {
 public:
  // Opens the port whose network device is `ifname`, or that of the RDMA device of this name if it has none,
  // or with an empty name the first active port that has an IPv4 RoCE v2 GID. Waits up to 2 s for the GID,
  // which the kernel adds some time after the address. kNotFound says what there is instead. Successful opens
  // are shared while anybody holds them.
  static Error Open(const std::string& ifname, std::shared_ptr<Device>* device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  uint8_t port() const { return port_; }
  uint8_t gid_index() const { return gid_index_; }
  // Of the GID.
  Ipv4 ip() const { return ip_; }
  // The network device of the GID.
  const std::string& ifname() const { return ifname_; }
  // The largest path MTU of the port, bytes.
  uint32_t max_path_mtu() const { return max_path_mtu_; }
  // RDMA Reads that a queue pair can have under way to its other end, and those of the other end that it
  // takes.
  uint8_t max_reads() const { return max_reads_; }
  uint8_t max_reads_of_peer() const { return max_reads_of_peer_; }
  // Packets that a queue pair of the NIC can have unacknowledged: as it says itself, else as any has.
  uint32_t max_outstanding() const { return max_outstanding_; }
  // The NIC takes super-frames and can send them (docs/PROTOCOL.md, section 9).
  bool takes_super_frames() const { return takes_super_frames_; }
  // kAll of a NIC that says so itself, as softnic does, and of rdma_rxe: it sends by Linux, which gives a member
  // what its own host sends. Of any other NIC with multicast no more than kRemote is promised.
  DatagramReach datagram_reach() const { return datagram_reach_; }
  // The NIC has the kernel join the groups to which queue pairs are attached.
  bool joins_groups() const { return joins_groups_; }
  // "rxe0 port 1 (vec0, 10.0.0.1)".
  const std::string& description() const { return description_; }

 private:
  Device() = default;
  bool FindGid(const std::string& ifname);
  void AskAttributes();
  static std::shared_ptr<Device> OpenOne(ibv_device* candidate, const std::string& ifname);

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  uint8_t port_ = 0;
  uint8_t gid_index_ = 0;
  Ipv4 ip_{};
  std::string ifname_;
  uint32_t max_path_mtu_ = 0;
  uint8_t max_reads_ = 0;
  uint8_t max_reads_of_peer_ = 0;
  uint32_t max_outstanding_ = 0;
  bool takes_super_frames_ = false;
  DatagramReach datagram_reach_ = DatagramReach::kNone;
  bool joins_groups_ = false;
  std::string description_;
};

// Registered memory; deregistered when the last holder goes.
class Memory {
 public:
  // `writable`: the NIC may write results there. `remote_reads`: other ranks may read it, by rkey(), over
  // queue pairs that allow Reads. kNoResource if the memory cannot be pinned.
  static Error Register(std::shared_ptr<Device> device, const void* base, size_t bytes, bool writable,
                        std::shared_ptr<Memory>* memory, bool remote_reads = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint32_t lkey() const { return mr_->lkey; }
  // For other ranks' Reads, if they are allowed.
  uint32_t rkey() const { return mr_->rkey; }
  bool Contains(const void* base, size_t bytes) const;

 private:
  Memory() = default;
  std::shared_ptr<Device> device_;
  ibv_mr* mr_ = nullptr;
};

}  // namespace epic::verbs
