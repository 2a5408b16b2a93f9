#include "io/packet_filter.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/check.h"
#include "roce/wire.h"

namespace epic::io {
namespace {

// Offsets into an untagged Ethernet frame. Those behind the IPv4 header are for one without options; the
// program adds how much longer it is.
constexpr uint32_t kDestinationMac = 0;
constexpr uint32_t kEtherType = 12;
constexpr uint32_t kArpOperation = 20;
constexpr uint32_t kIpHeader = 14;
constexpr uint32_t kIpFragment = kIpHeader + 6;
constexpr uint32_t kIpProtocol = kIpHeader + 9;
constexpr uint32_t kIpDestination = kIpHeader + 16;
constexpr uint32_t kIpv6NextHeader = kIpHeader + 6;
constexpr uint32_t kIpv6HeaderBytes = 40;
// From the start of the frame, less the IP header.
constexpr uint32_t kUdpDestinationPort = kIpHeader + 2;
constexpr uint32_t kBthDestinationQpn = kIpHeader + 8 + 4;

constexpr uint32_t kArpReply = 2;
constexpr uint32_t kMoreFragmentsAndOffset = 0x3fff;
constexpr uint32_t kQpnBits = 0xffffff, kMulticastQpn = 0xffffff;
constexpr uint32_t kQpnLowByte = 0xff;
// Not in the frame: the kernel keeps a VLAN tag beside it. Without one it is 0.
constexpr uint32_t kVlanTag = static_cast<uint32_t>(SKF_AD_OFF) + SKF_AD_VLAN_TAG;
constexpr uint32_t kVlanIdBits = 0xfff;

// Writes a program from top to bottom. The machine has two registers: the accumulator, which loads and
// arithmetic write and conditions read, and an index, which holds the length of the IP header here. A load
// from behind the frame's end ends the program, and drops the frame.
class Assembler {
 public:
  void LoadLength() { Emit(BPF_LD | BPF_W | BPF_LEN, 0); }
  void LoadByte(uint32_t offset) { Emit(BPF_LD | BPF_B | BPF_ABS, offset); }
  void LoadHalf(uint32_t offset) { Emit(BPF_LD | BPF_H | BPF_ABS, offset); }
  void LoadWord(uint32_t offset) { Emit(BPF_LD | BPF_W | BPF_ABS, offset); }
  void LoadIpHeaderLength() { Emit(BPF_LDX | BPF_B | BPF_MSH, kIpHeader); }
  void SetIpHeaderLength(uint32_t bytes) { Emit(BPF_LDX | BPF_W | BPF_IMM, bytes); }
  void LoadHalfBehindIp(uint32_t offset) { Emit(BPF_LD | BPF_H | BPF_IND, offset); }
  void LoadWordBehindIp(uint32_t offset) { Emit(BPF_LD | BPF_W | BPF_IND, offset); }
  void And(uint32_t bits) { Emit(BPF_ALU | BPF_AND | BPF_K, bits); }
  void ShiftRight(uint32_t bits) { Emit(BPF_ALU | BPF_RSH | BPF_K, bits); }
  void Modulo(uint32_t divisor) { Emit(BPF_ALU | BPF_MOD | BPF_K, divisor); }
  void AddToIndex(uint32_t bytes) {
    Emit(BPF_MISC | BPF_TXA, 0);
    Emit(BPF_ALU | BPF_ADD | BPF_K, bytes);
    Emit(BPF_MISC | BPF_TAX, 0);
  }
  void Pass() { Emit(BPF_RET | BPF_K, UINT32_MAX); }
  void Drop() { Emit(BPF_RET | BPF_K, 0); }

  void DropUnlessWithin(const FrameLengths& lengths) {
    if (lengths.min_bytes == 0 && lengths.max_bytes == UINT32_MAX) return;
    LoadLength();
    const size_t least = Emit(BPF_JMP | BPF_JGE | BPF_K, lengths.min_bytes);
    Drop();
    code_[least].jt = LengthBehind(least);
    const size_t most = Emit(BPF_JMP | BPF_JGT | BPF_K, lengths.max_bytes);
    Drop();
    code_[most].jf = LengthBehind(most);
  }

  // What `then` writes runs only if the accumulator is `value`. Jumps never leave it, so that none is longer
  // than it is, however long the program grows: their lengths have 8 bits.
  template <typename Then>
  void IfEqual(uint32_t value, Then then) {
    const size_t jump = Emit(BPF_JMP | BPF_JEQ | BPF_K, value);
    then();
    code_[jump].jf = LengthBehind(jump);
  }
  void PassIf(uint32_t value) {
    IfEqual(value, [this] { Pass(); });
  }
  void DropUnlessEither(uint32_t value, uint32_t other) {
    const size_t first = Emit(BPF_JMP | BPF_JEQ | BPF_K, value);
    const size_t second = Emit(BPF_JMP | BPF_JEQ | BPF_K, other);
    Drop();
    code_[first].jt = LengthBehind(first);
    code_[second].jt = LengthBehind(second);
  }
  void DropUnless(uint32_t value) { EndUnless(BPF_JEQ | BPF_K, value, false); }
  // Ends with this verdict unless the accumulator is `value`; is at least that; is at least the index.
  void EndUnless(uint32_t value, bool passes) { EndUnless(BPF_JEQ | BPF_K, value, passes); }
  void EndUnlessAtLeast(uint32_t value, bool passes) { EndUnless(BPF_JGE | BPF_K, value, passes); }
  void EndUnlessAtLeastIndex(bool passes) { EndUnless(BPF_JGE | BPF_X, 0, passes); }

  std::vector<sock_filter> code() && { return std::move(code_); }

 private:
  void EndUnless(int condition, uint32_t value, bool passes) {
    const size_t jump = Emit(BPF_JMP | condition, value);
    passes ? Pass() : Drop();
    code_[jump].jt = LengthBehind(jump);
  }
  size_t Emit(int what, uint32_t operand) {
    code_.push_back({static_cast<uint16_t>(what), 0, 0, operand});
    return code_.size() - 1;
  }
  uint8_t LengthBehind(size_t jump) const {
    const size_t length = code_.size() - jump - 1;
    EPIC_CHECK(length <= UINT8_MAX);
    return static_cast<uint8_t>(length);
  }

  std::vector<sock_filter> code_;
};

}  // namespace

std::vector<sock_filter> RoceFilter(const FilterOptions& options, std::span<const uint16_t> qpn_blocks) {
  EPIC_CHECK(qpn_blocks.size() <= kMaxFilterBlocks);
  Assembler a;
  a.DropUnlessWithin(options.lengths);
  a.LoadHalf(kEtherType);
  if (options.arp_replies) {
    a.IfEqual(ETH_P_ARP, [&] {
      a.LoadHalf(kArpOperation);
      a.PassIf(kArpReply);
      a.Drop();
    });
  }
  // Either version leaves the length of its header behind.
  a.DropUnlessEither(ETH_P_IP, ETH_P_IPV6);
  a.IfEqual(ETH_P_IPV6, [&] {
    a.LoadByte(kIpv6NextHeader);
    a.DropUnless(IPPROTO_UDP);
    a.SetIpHeaderLength(kIpv6HeaderBytes);
    a.LoadHalf(kEtherType);
  });
  a.IfEqual(ETH_P_IP, [&] {
    a.LoadByte(kIpProtocol);
    a.DropUnless(IPPROTO_UDP);
    a.LoadHalf(kIpFragment);
    a.And(kMoreFragmentsAndOffset);
    a.DropUnless(0);
    a.LoadIpHeaderLength();
  });
  a.LoadHalfBehindIp(kUdpDestinationPort);
  a.DropUnless(options.udp_port);
  a.LoadWordBehindIp(kBthDestinationQpn);
  a.And(kQpnBits);
  a.PassIf(kMulticastQpn);
  a.ShiftRight(8);
  for (const uint16_t block : qpn_blocks) a.PassIf(block);
  a.Drop();
  return std::move(a).code();
}

std::vector<sock_filter> LengthFilter(const FrameLengths& lengths) {
  Assembler a;
  a.DropUnlessWithin(lengths);
  a.Pass();
  return std::move(a).code();
}

std::vector<sock_filter> ShardFilter(const FrameShard& shard, const FrameLengths& lengths) {
  EPIC_CHECK(shard.number < shard.count);
  Assembler a;
  a.DropUnlessWithin(lengths);
  // What is too short to have a QPN belongs to shard 0 as well. So its length is asked for before the loads,
  // one of which would have every shard drop it.
  const bool rest = shard.number == 0;
  a.LoadLength();
  a.EndUnlessAtLeast(kIpDestination + 4, rest);
  a.LoadWord(kDestinationMac);
  a.EndUnless(roce::LoadBe32(shard.mac.data()), rest);
  a.LoadHalf(kDestinationMac + 4);
  a.EndUnless(roce::LoadBe16(shard.mac.data() + 4), rest);
  a.LoadWord(kVlanTag);
  a.And(kVlanIdBits);
  a.EndUnless(0, rest);
  a.LoadHalf(kEtherType);
  a.EndUnless(ETH_P_IP, rest);
  a.LoadByte(kIpProtocol);
  a.EndUnless(IPPROTO_UDP, rest);
  a.LoadHalf(kIpFragment);
  a.And(kMoreFragmentsAndOffset);
  a.EndUnless(0, rest);
  a.LoadWord(kIpDestination);
  a.EndUnless(Raw(shard.address), rest);
  a.LoadIpHeaderLength();
  a.AddToIndex(kBthDestinationQpn + 4);
  a.LoadLength();
  a.EndUnlessAtLeastIndex(rest);
  a.LoadIpHeaderLength();
  a.LoadHalfBehindIp(kUdpDestinationPort);
  a.EndUnless(roce::kUdpPort, rest);
  a.LoadWordBehindIp(kBthDestinationQpn);
  a.And(kQpnLowByte);
  a.Modulo(shard.count);
  a.PassIf(shard.number);
  a.Drop();
  return std::move(a).code();
}

std::vector<sock_filter> EmptyFilter() {
  Assembler a;
  a.Drop();
  return std::move(a).code();
}

bool AttachFilter(int fd, std::vector<sock_filter> program) {
  const sock_fprog attached{static_cast<uint16_t>(program.size()), program.data()};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached) == 0;
}

}  // namespace epic::io
