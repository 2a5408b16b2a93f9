// What a queue pair needs of the world around it, passed in with every call: memory and a place for packets.
// The queue pair keeps no pointer to either, so that copying it is a snapshot.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "roce/packet.h"
#include "roce/transport/types.h"

namespace epic::roce {

// Registered memory. The implementation checks keys, bounds, permissions and protection domain; the transport
// touches no byte that it did not get from here.
class Memory {
 public:
  virtual ~Memory() = default;
  // The bytes [address, address + length), if `key` (an lkey for local access, else an rkey) allows `access`
  // to all of them; length > 0. Valid until the call into the queue pair returns.
  virtual std::optional<std::span<uint8_t>> Map(Access access, uint32_t key, uint64_t address,
                                                uint32_t length) = 0;
  // Binds a memory window, or takes back the one that `rkey` names, for a request of this queue pair or of
  // its peer. False, and nothing changed, if that may not be (InfiniBand specification 10.6.7.2).
  virtual bool Bind(const WindowBind& /*bind*/) { return false; }
  virtual bool Invalidate(uint32_t /*rkey*/) { return false; }
  // Takes the next work request of the shared receive queue; asked only by queue pairs that have one
  // (QpConfig::shared_receives), when a message needs a receive. Nothing if it is empty.
  virtual std::optional<RecvWr> TakeSharedReceive() { return std::nullopt; }
};

class PacketSink {
 public:
  virtual ~PacketSink() = default;
  // The packet and its payload are valid during the call only.
  virtual void Send(const Packet& packet) = 0;
};

// The bytes [offset, offset + length) of the list, for sending. A view of memory if they lie in one piece,
// else gathered into scratch, which must hold `length` bytes. False if a key does not allow it.
bool Gather(const SgeList& list, uint64_t offset, uint32_t length, Memory& memory, std::span<uint8_t> scratch,
            std::span<const uint8_t>* out);

// Writes data at offset of the list; the caller has seen that it fits. False if a key does not allow it, then
// some of it may have been written.
bool Scatter(const SgeList& list, uint64_t offset, std::span<const uint8_t> data, Memory& memory);

}  // namespace epic::roce
