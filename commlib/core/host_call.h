// A call between the hosts, as those who compute it see it.
#pragma once

#include <cstdint>

#include "protocol/control.h"
#include "protocol/flow.h"

namespace epic {

// Whose memory an address is in: the rank's own (HostPath::memory), or the call's buffers.
enum class HostWhere : uint8_t { kOwn, kSend, kRecv };

// Memory of this rank as another rank's NIC names it.
struct RemoteMemory {
  uint64_t address = 0;
  uint32_t rkey = 0;
};

// A call, or a slice of one.
struct HostCall {
  ControlHeader header;  // its invocation and the flags of the hosts' path are filled in
  const uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
  // Bytes from one part to the next, where there is one per rank; 0: a part's bytes.
  uint64_t part_stride = 0;
  // Of a slice: data of the whole call, all parts together, by which its algorithm is chosen. 0: it is whole.
  uint64_t call_bytes = 0;
  // Of a call whose data go by multicast: `recv`, or of a Broadcast at its root `send`.
  RemoteMemory readable;

  uint64_t part_bytes() const { return header.count * ElementBytes(header.type); }
  uint64_t stride() const { return part_stride != 0 ? part_stride : part_bytes(); }
};

}  // namespace epic
