#include "check/multicast_host.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "commlib/core/host_peers.h"

namespace epic::check {
namespace {

// Of the memory of calls that others may read: each call has a key, and addresses of its own.
constexpr uint64_t kCallAddresses = 1 << 20;

uint64_t AddressOfCall(size_t call) { return (call + 1) * kCallAddresses; }

}  // namespace

std::optional<ReadRequest> ReadRequestOf(const roce::Packet& packet) {
  if (packet.bth.opcode != roce::Opcode::kRcReadRequest) return std::nullopt;
  ReadRequest request;
  EPIC_CHECK(packet.payload.size() == sizeof request);
  std::memcpy(&request, packet.payload.data(), sizeof request);
  return request;
}

MulticastHost::MulticastHost(const System& system, int node)
    : system_(system),
      node_(node),
      path_(system.PathOf(node)),
      recvs_(system.ports(node)),
      sends_(system.ports(node)) {
  const auto each = [this](const auto& action) {
    for (PortId port = 0; port < recvs_.size(); ++port) {
      if (ConnectionAt(port) < kDatagrams) action(ConnectionAt(port));
    }
  };
  each([this](uint32_t connection) { path_.SetConnected(connection); });
  Run([](PortId, const roce::Packet&) { EPIC_CHECK(false); });
  each([this](uint32_t connection) { path_.SetReady(connection); });
}

uint32_t MulticastHost::ConnectionAt(PortId port) const {
  const Edge& edge = system_.EdgeAt(node_, port);
  if (edge.kind == Edge::Kind::kDatagrams) return kDatagrams;
  const auto peer = static_cast<uint32_t>(system_.PeerOf(node_, edge));
  return edge.kind == Edge::Kind::kFetchRing ? kFetchRing + peer : peer;
}

PortId MulticastHost::PortOf(uint32_t connection) const {
  PortId port = 0;
  while (ConnectionAt(port) != connection) ++port;
  return port;
}

roce::Packet MulticastHost::PacketTo(PortId port, roce::Opcode opcode) const {
  const Edge& edge = system_.EdgeAt(node_, port);
  roce::Packet packet;
  packet.src_ip = system_.AddressOf(node_);
  packet.dst_ip = system_.AddressOf(system_.PeerOf(node_, edge));
  packet.bth.opcode = opcode;
  packet.bth.dest_qp = system_.QpnAtPeer(node_, edge);
  return packet;
}

void MulticastHost::Start(const uint8_t* send, uint8_t* recv) {
  const ControlHeader& header = system_.CallOf(calls_, static_cast<uint32_t>(node_));
  path_.Post({.header = header,
              .send = send,
              .recv = recv,
              .readable = {.address = AddressOfCall(calls_), .rkey = static_cast<uint32_t>(calls_) + 1}});
  ++calls_;
}

void MulticastHost::Run(const Send& send) {
  do {
    for (HostPath::Request request; path_.NextRequest(&request);) Post(request, send);
    while (const auto finished = path_.NextFinished()) ended_.push_back(*finished);
    if (datagrams_sent_.empty()) return;
    path_.OnComplete(kDatagrams, datagrams_sent_.front(), 0, std::nullopt);
    datagrams_sent_.pop_front();
  } while (true);
}

void MulticastHost::Post(const HostPath::Request& request, const Send& send) {
  EPIC_CHECK(request.verb != HostVerb::kQkey);
  Posted posted{.wr_id = request.wr_id, .length = request.length};
  if (request.is_recv) {
    posted.address = std::bit_cast<uint64_t>(request.address);
    auto& queue = request.peer == kDatagrams ? datagram_recvs_ : recvs_[PortOf(request.peer)];
    return queue.push_back(posted);
  }
  if (request.peer == kDatagrams) return SendDatagram(request, send);
  const PortId port = PortOf(request.peer);
  if (request.verb == HostVerb::kRead) {
    posted.address = std::bit_cast<uint64_t>(request.address);
    posted.is_read = true;
    const uint32_t call = request.remote.rkey - 1;
    const ReadRequest asked{.call = call,
                            .offset = static_cast<uint32_t>(request.remote.address - AddressOfCall(call)),
                            .length = request.length};
    roce::Packet packet = PacketTo(port, roce::Opcode::kRcReadRequest);
    packet.payload = {reinterpret_cast<const uint8_t*>(&asked), sizeof asked};
    send(port, packet);
  } else {
    roce::Packet packet = PacketTo(port, roce::Opcode::kRcSendOnlyImm);
    packet.imm = request.imm;
    packet.payload = {request.address, request.length};
    send(port, packet);
    // What has been sent says nothing any more: states do not differ by it.
    if (IsOfFetchRing(request.peer)) std::memset(request.address, 0, request.length);
  }
  sends_[port].push_back(posted);
}

void MulticastHost::SendDatagram(const HostPath::Request& request, const Send& send) {
  for (PortId port = 0; port < recvs_.size(); ++port) {
    if (ConnectionAt(port) != kDatagrams) continue;
    roce::Packet packet = PacketTo(port, roce::Opcode::kUdSendOnlyImm);
    packet.imm = request.imm;
    packet.payload = {request.address, request.length};
    send(port, packet);
  }
  datagrams_sent_.push_back(request.wr_id);
}

void MulticastHost::OnPacket(PortId port, const roce::Packet& packet, const Send& send) {
  switch (packet.bth.opcode) {
    case roce::Opcode::kUdSendOnlyImm:
      return ReceiveDatagram(port, packet);
    case roce::Opcode::kRcSendOnlyImm:
      send(port, PacketTo(port, roce::Opcode::kRcAck));
      return Receive(port, packet);
    default:
      return Complete(port, packet);
  }
}

void MulticastHost::Answer(PortId port, std::span<const uint8_t> bytes, const Send& send) const {
  roce::Packet packet = PacketTo(port, roce::Opcode::kRcReadResponseOnly);
  packet.payload = bytes;
  send(port, packet);
}

// The oldest request has been acknowledged, or answered.
void MulticastHost::Complete(PortId port, const roce::Packet& packet) {
  EPIC_CHECK(!sends_[port].empty());
  const Posted posted = sends_[port].front();
  sends_[port].pop_front();
  EPIC_CHECK(posted.is_read == (packet.bth.opcode == roce::Opcode::kRcReadResponseOnly));
  if (posted.is_read) std::ranges::copy(packet.payload, std::bit_cast<uint8_t*>(posted.address));
  path_.OnComplete(ConnectionAt(port), posted.wr_id, 0, std::nullopt);
}

// That a receive is missing must never happen.
void MulticastHost::Receive(PortId port, const roce::Packet& packet) {
  EPIC_CHECK(!recvs_[port].empty() && recvs_[port].front().length >= packet.payload.size());
  const Posted posted = recvs_[port].front();
  recvs_[port].pop_front();
  auto* const memory = std::bit_cast<uint8_t*>(posted.address);
  std::ranges::copy(packet.payload, memory);
  const uint32_t connection = ConnectionAt(port);
  path_.OnComplete(connection, posted.wr_id, static_cast<uint32_t>(packet.payload.size()), packet.imm);
  if (IsOfFetchRing(connection)) std::memset(memory, 0, packet.payload.size());
}

void MulticastHost::ReceiveDatagram(PortId port, const roce::Packet& packet) {
  if (datagram_recvs_.empty()) return;  // before the first call
  const Posted posted = datagram_recvs_.front();
  datagram_recvs_.pop_front();
  auto* const memory = std::bit_cast<uint8_t*>(posted.address) + kGrhBytes;
  std::ranges::copy(packet.payload, memory);
  const auto from = static_cast<uint32_t>(system_.PeerOf(node_, system_.EdgeAt(node_, port)));
  path_.OnDatagram(posted.wr_id, from, static_cast<uint32_t>(packet.payload.size()), packet.imm);
  std::memset(memory, 0, packet.payload.size());
}

bool MulticastHost::is_released() const {
  const auto acknowledged = [](const auto& sends) { return sends.empty(); };
  return path_.idle() && std::ranges::all_of(sends_, acknowledged);
}

}  // namespace epic::check
