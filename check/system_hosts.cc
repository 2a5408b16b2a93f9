// Systems without switches: who speaks with whom, and what each message must be, from docs/PROTOCOL.md,
// section 11. A message is one packet, and its number on its direction is its place in the order of PSNs, and
// its immediate data.
#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "check/system.h"
#include "commlib/core/host_peers.h"

namespace epic::check {
namespace {

// The ranks begin to end - 1.
std::vector<uint32_t> RanksOf(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> ranks(end - begin);
  std::iota(ranks.begin(), ranks.end(), begin);
  return ranks;
}

}  // namespace

void System::LayOutHosts() {
  const auto ranks = static_cast<uint32_t>(hosts());
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    for (const uint32_t peer : PeersOf(rank, ranks)) {
      if (peer > rank) break;
      Edge edge{.child = static_cast<int>(rank),
                .parent = static_cast<int>(peer),
                .ranks = {},
                .up = Messages(rank, peer),
                .down = Messages(peer, rank)};
      AddPorts(edge);
      edges_.push_back(std::move(edge));
    }
  }
}

// What the ranks begin to end - 1 say together: the lowest one's header, and the lowest that differs from it.
ControlHeader System::SaidBy(size_t call, uint32_t begin, uint32_t end) const {
  const auto said = [&](uint32_t rank) {
    ControlHeader header = CallOf(call, rank);
    header.invocation = call;
    header.flags |= AlgorithmFlags(config_.algorithm);
    if (config_.algorithm == Algorithm::kDoubling && CallBytes(header) > 0) header.flags |= kInlinedFlag;
    return header;
  };
  ControlHeader header = said(begin);
  for (uint32_t rank = begin + 1; rank < end; ++rank) {
    const ControlField field = FirstDifference(header, said(rank));
    if (field == ControlField::kNone) continue;
    header.status = ControlStatus::kMismatch;
    header.field = field;
    header.culprit = rank;
    break;
  }
  return header;
}

std::optional<ControlHeader> System::RefusalOf(size_t call) const {
  if (!by_hosts()) return std::nullopt;
  const ControlHeader header = SaidBy(call, 0, static_cast<uint32_t>(hosts()));
  return header.status == ControlStatus::kOk ? std::nullopt : std::optional(header);
}

// In the pre, cube or post round in which one sends to the other, if there is one.
std::optional<Carried> System::ExchangeMessage(size_t call, uint32_t from, uint32_t to) const {
  const HostCube cube = HostCube::Of(static_cast<uint32_t>(hosts()));
  const uint32_t member = cube.MemberOf(from), bit = member ^ cube.MemberOf(to);
  uint32_t begin = 0, end = cube.ranks;
  if (cube.IsFolded(from)) {
    if (bit != 0) return std::nullopt;
    begin = from;
    end = from + 1;
  } else if (cube.IsFolded(to) ? bit != 0 : !std::has_single_bit(bit)) {
    return std::nullopt;
  } else if (!cube.IsFolded(to)) {
    begin = cube.RankOf(member & ~(bit - 1));
    end = cube.RankOf((member & ~(bit - 1)) + bit);
  }
  const ControlHeader header = SaidBy(call, begin, end);
  Carried message{.opcode = roce::Opcode::kRcSendOnlyImm, .payload = std::vector<uint8_t>(kControlBytes)};
  Encode(header, std::span(message.payload).first<kControlBytes>());
  if (!IsInlined(header) || header.status != ControlStatus::kOk) return message;
  const std::vector<uint8_t> data = Reduced(call, 0, 0, RanksOf(begin, end));
  message.payload.insert(message.payload.end(), data.begin(),
                         data.begin() + static_cast<ptrdiff_t>(CallBytes(header)));
  return message;
}

// A piece of block from - step - 1, which so many ranks up to `from` have added to, or all of them.
Carried System::RingMessage(size_t call, uint32_t from, int64_t step, int64_t piece) const {
  const int64_t n = hosts();
  const auto pieces = static_cast<int64_t>(config_.calls[call].count / ElementsOfPacket()) / n;
  const int64_t block = (int64_t{from} - step - 1 + 2 * n) % n;
  std::vector<uint32_t> ranks;
  for (int64_t back = 0; back <= std::min(step, n - 1); ++back)
    ranks.push_back(static_cast<uint32_t>((int64_t{from} - back + n) % n));
  return {.has_data = true,
          .opcode = roce::Opcode::kRcSendOnlyImm,
          .payload = Reduced(call, 0, block * pieces + piece, ranks)};
}

std::vector<Carried> System::Messages(uint32_t from, uint32_t to) const {
  const int64_t n = hosts();
  std::vector<Carried> messages;
  for (size_t call = 0; call < config_.calls.size(); ++call) {
    if (auto exchange = ExchangeMessage(call, from, to)) messages.push_back(std::move(*exchange));
    const bool is_ring = config_.algorithm == Algorithm::kRing && CallBytes(config_.calls[call]) > 0;
    if (!is_ring || RefusalOf(call) || to != (from + 1) % n) continue;
    const auto pieces = static_cast<int64_t>(config_.calls[call].count / ElementsOfPacket()) / n;
    for (int64_t step = 0; step < 2 * (n - 1); ++step) {
      for (int64_t piece = 0; piece < pieces; ++piece)
        messages.push_back(RingMessage(call, from, step, piece));
    }
  }
  for (size_t at = 0; at < messages.size(); ++at) {
    messages[at].index = static_cast<Index>(at);
    messages[at].imm = static_cast<uint32_t>(at);
  }
  return messages;
}

// Of the exchange, of the fetch ring, and of datagrams between any two.
void System::LayOutMulticast() {
  const auto ranks = static_cast<uint32_t>(hosts());
  for (const Edge::Kind kind : {Edge::Kind::kOnly, Edge::Kind::kFetchRing, Edge::Kind::kDatagrams}) {
    for (uint32_t child = 1; child < ranks; ++child) {
      for (uint32_t parent = 0; parent < child; ++parent) {
        const bool are_neighbours = parent + 1 == child || (parent == 0 && child + 1 == ranks);
        const bool exchange = std::ranges::binary_search(CubePeersOf(child, ranks), parent);
        if ((kind == Edge::Kind::kOnly && !exchange) || (kind == Edge::Kind::kFetchRing && !are_neighbours))
          continue;
        Edge edge{.kind = kind,
                  .child = static_cast<int>(child),
                  .parent = static_cast<int>(parent),
                  .ranks = {},
                  .up = {},
                  .down = {}};
        AddPorts(edge);
        edges_.push_back(std::move(edge));
      }
    }
  }
}

HostPathConfig System::UnconnectedPathOf(int node) const {
  const auto ranks = static_cast<uint32_t>(hosts());
  return {.rank = RankAt(node),
          .world_size = ranks,
          .algorithm = Algorithm::kRing,
          .agrees_by_exchange = false,
          .message_bytes = kPathMtu,
          .staging_bytes = uint64_t{kPathMtu} * ranks,
          .inline_bytes = kPathMtu - kControlBytes};
}

HostPathConfig System::PathOf(int node) const {
  const auto ranks = static_cast<uint32_t>(hosts());
  // What a ring AllReduce needs: all blocks but one.
  uint64_t staging = uint64_t{kPathMtu} * ranks;
  for (const ControlHeader& header : config_.calls) staging = std::max(staging, CallBytes(header));
  HostPathConfig path{.rank = static_cast<uint32_t>(node),
                      .world_size = ranks,
                      .algorithm = config_.algorithm,
                      .message_bytes = kPathMtu,
                      .staging_bytes = staging,
                      .inline_bytes = kPathMtu - kControlBytes};
  if (!by_multicast()) return path;
  path.staging_bytes = uint64_t{8} * ranks;
  path.chunk_bytes = kPathMtu;
  path.empty_reads = 0;  // nothing is answered again here
  path.tokens = std::max(1u, config_.tokens);
  path.staging_chunks = 2 * path.tokens;
  for (const ControlHeader& header : config_.calls) {
    const auto chunks = static_cast<uint32_t>(CallBytes(header) / kPathMtu);
    if (config_.tokens == 0) path.staging_chunks = std::max(path.staging_chunks, chunks);
  }
  return path;
}

roce::QueuePair System::PeerQueuePair(int node, PortId port) const {
  const Edge& edge = EdgeAt(node, port);
  const int peer = edge.child == node ? edge.parent : edge.child;
  roce::QueuePair qp({.local_ip = AddressOf(node),
                      .local_qpn = QpnAt(node, peer),
                      .send_depth = kHostQueueDepth,
                      .recv_depth = kHostQueueDepth,
                      .max_inline_bytes = 0,
                      .policy = roce::RxeLike()});
  const Psn psn(config_.first_psn);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kInit}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRtr,
                        .remote_ip = AddressOf(peer),
                        .remote_qpn = QpnAt(peer, node),
                        .path_mtu = kPathMtu,
                        .rq_psn = psn,
                        .max_dest_rd_atomic = 0,
                        .min_rnr_timer = 14}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRts,
                        .sq_psn = psn,
                        .timeout = sim::HostConfig{}.timeout,
                        .retry_cnt = 7,
                        .rnr_retry = 7,
                        .max_rd_atomic = 0}) == roce::ModifyResult::kOk);
  return qp;
}

}  // namespace epic::check
