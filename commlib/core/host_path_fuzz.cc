// What peers send to a rank between the hosts, in any order with all that may happen to it: never a crash, no
// byte outside what was posted, nothing given out or changed after a failure, and no call that ends well
// unless every header that came for it agreed, and every byte of one by multicast has come or been read.
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "commlib/core/host_path.h"
#include "reduce/reduce.h"

namespace epic {
namespace {

constexpr uint64_t kInlineBytes = 128;
constexpr uint32_t kExchangeBytes = kControlBytes + kInlineBytes;
constexpr uint32_t kChunkBytes = 16;
// So many that kAuto takes multicast where there are datagrams, for calls of some of these sizes; what is
// posted is a slice of one, or a call that is whole (0).
constexpr uint32_t kChoosingRanks = 8;
constexpr std::array<uint64_t, 6> kWholeBytes = {0, (1 << 16) - 1, 1 << 16, 1 << 20, 1 << 23, 1 << 30};
static_assert(kChoosingRanks * 8 * 64 < kWholeBytes[1], "no slice is longer");
// What the byte at a place of a result is that another rank gives.
constexpr uint8_t ByteAt(uint64_t place) { return static_cast<uint8_t>(place * 7 + 3); }

class Fuzz {
 public:
  explicit Fuzz(FuzzInput* in) : in_(*in), config_(MakeConfig()), path_(config_) {
    peers_ = PeersOf(config_.rank, config_.world_size);
    if (config_.chunk_bytes == 0) return;
    for (const uint32_t end : FetchRingOf(config_.rank, config_.world_size)) peers_.push_back(end);
  }

  void Run() {
    while (!in_.empty()) {
      Act();
      TakeFinished();
      EPIC_CHECK(path_.posted() == Outstanding());
      if (path_.failed()) {
        if (!failure_) failure_ = path_.failure();
        EPIC_CHECK(path_.failure() == *failure_ && *failure_ != Outcome::kDisorder);
      }
    }
    path_.Abort();
    Drain();
    EPIC_CHECK(finished_ == headers_.size() && path_.idle());
  }

 private:
  HostPathConfig MakeConfig() {
    uint32_t n = 2 + in_.Next() % 7;
    const uint8_t how = in_.Next();
    Algorithm algorithm = how < 0xc0 ? static_cast<Algorithm>(how % 3) : Algorithm::kMulticast;
    if ((how & 0xe2) == 0xe2) {
      algorithm = Algorithm::kAuto;
      n = kChoosingRanks;
    }
    return {.rank = in_.Next() % n,
            .world_size = n,
            .algorithm = algorithm,
            .agrees_by_exchange = how / 4 % 8 != 0,
            .message_bytes = 24,
            .staging_bytes = 128,
            .inline_bytes = kInlineBytes,
            .chunk_bytes = how < 0xc0 ? 0 : kChunkBytes,
            .staging_chunks = 8,
            .tokens = 1 + how % 2u};
  }

  void Act() {
    const uint8_t what = in_.Next();
    const uint32_t peer = peers_[what / 16 % peers_.size()];
    switch (what % 16) {
      case 0:
        return Post();
      case 1:
        return path_.SetConnected(peer);
      case 2:
        return path_.SetReady(peer);
      case 3:
        for (const uint32_t p : peers_) path_.SetConnected(p), path_.SetReady(p);
        return;
      case 4:
        return Acknowledge(peer);
      case 5:
      case 6:
        return Deliver(peer, true);
      case 7:
        return Deliver(peer, false);
      case 8:
        if (what > 250) path_.Abort();
        return;
      case 9:
        if (!config_.agrees_by_exchange && path_.MayAgree(static_cast<OpId>(finished_)) &&
            finished_ < headers_.size() && agreed_ <= finished_) {
          path_.Agreed(static_cast<OpId>(finished_));
          agreed_ = finished_ + 1;
        }
        return;
      case 10:
        if (config_.chunk_bytes > 0) return what < 128 ? Datagram() : Acknowledge(kDatagrams);
        return GiveOut();
      default:
        return GiveOut();
    }
  }

  // Of any rank or of none, of any chunk and length; its bytes are those that belong there.
  void Datagram() {
    auto& recvs = links_[kDatagrams].recvs;
    if (recvs.empty() || headers_.empty()) return;
    const HostPath::Request request = recvs.front();
    recvs.pop_front();
    const size_t op = std::min(finished_, headers_.size() - 1);
    const ControlHeader& h = headers_[op];
    const uint64_t part_bytes = h.count * ElementBytes(h.type);
    const uint64_t chunks = std::max<uint64_t>(1, (part_bytes + kChunkBytes - 1) / kChunkBytes);
    const uint32_t number = in_.Next();
    const uint64_t part = number / chunks, chunk = number % chunks;
    const uint8_t how = in_.Next();
    uint32_t from = h.collective == Collective::kBroadcast ? h.root : static_cast<uint32_t>(part);
    if (how % 8 == 1) from = how / 8 % config_.world_size;
    uint32_t bytes = kChunkBytes;
    if (chunk + 1 == chunks) bytes = static_cast<uint32_t>(part_bytes - chunk * kChunkBytes);
    if (how % 8 == 2) bytes = how / 8 % (kChunkBytes + 1);
    const auto invocation = static_cast<uint32_t>(op) + (how % 8 == 3 ? how / 8 : 0);
    for (uint32_t i = 0; i < kChunkBytes; ++i)
      request.address[kGrhBytes + i] = ByteAt(part * part_bytes + chunk * kChunkBytes + i);
    path_.OnDatagram(request.wr_id, how % 8 == 4 ? std::nullopt : std::optional(from), bytes,
                     invocation << 16 | number);
  }

  // On the fetch ring, of about this call; one in 16 with any octet besides.
  void Message(const HostPath::Request& request) {
    std::memset(request.address, 0, request.length);
    request.address[0] = in_.Next() % 5;
    request.address[2] = in_.Next() % 10;
    const uint8_t how = in_.Next();
    request.address[4] = static_cast<uint8_t>(finished_ + how % 16 / 15);
    if (how / 16 == 15) request.address[in_.Next() % request.length] = in_.Next();
  }

  void Post() {
    if (headers_.size() > 8) return;
    const uint32_t n = config_.world_size;
    ControlHeader h{.collective = static_cast<Collective>(1 + in_.Next() % 6)};
    if (h.collective != Collective::kBarrier) {
      h.type = kCallerTypes[in_.Next() % kCallerTypes.size()].type;
      if (h.collective == Collective::kReduce || h.collective == Collective::kBroadcast)
        h.root = in_.Next() % n;
      if (Reduces(h.collective)) h.op = kReduceOps[in_.Next() % kReduceOps.size()].op;
      if (Reduces(h.collective) && !CanReduce(h.op, h.type)) return;
      if (HasPartPerRank(h.collective)) h.parts = n;
      const uint64_t most = path_.MostBytes(h) / ElementBytes(h.type) / h.parts;
      h.count = std::min<uint64_t>(in_.Next() % 64, most);
    }
    // Of their own, so that a byte beyond them is seen.
    auto& send = buffers_.emplace_back(SendBytes(h, config_.rank));
    auto& recv = buffers_.emplace_back(RecvBytes(h, config_.rank));
    uint64_t whole = 0;
    if (config_.algorithm == Algorithm::kAuto && config_.chunk_bytes > 0 && h.count > 0)
      whole = kWholeBytes[in_.Next() % kWholeBytes.size()];
    path_.Post({.header = h, .send = send.data(), .recv = recv.data(), .call_bytes = whole});
    headers_.push_back(h);
    algorithms_.push_back(ChooseAlgorithm(h.collective, whole != 0 ? whole : CallBytes(h), n,
                                          config_.algorithm, config_.chunk_bytes > 0));
  }

  void GiveOut() {
    HostPath::Request request;
    const bool had_failed = path_.failed();  // it may fail by what it finds behind this one
    if (!path_.NextRequest(&request)) return;
    if (request.verb == HostVerb::kQkey) return path_.OnQkeySet();
    EPIC_CHECK(!had_failed && (request.length > 0 || request.verb == HostVerb::kRead));
    auto& link = links_[request.peer];
    (request.is_recv ? link.recvs : link.sends).push_back(request);
    // Reads what a NIC would read.
    if (!request.is_recv && request.verb == HostVerb::kSend)
      sum_ += request.address[0] + request.address[request.length - 1];
  }

  void Acknowledge(uint32_t peer) {
    auto& sends = links_[peer].sends;
    if (sends.empty()) return;
    const HostPath::Request request = sends.front();
    sends.pop_front();
    if (request.verb == HostVerb::kRead && request.length > 0) {
      const std::vector<uint8_t>& result = buffers_[2 * static_cast<size_t>(request.op) + 1];
      EPIC_CHECK(request.address >= result.data() &&
                 request.address + request.length <= result.data() + result.size());
      for (uint32_t i = 0; i < request.length; ++i)
        request.address[i] = ByteAt(static_cast<uint64_t>(request.address - result.data()) + i);
    }
    path_.OnComplete(peer, request.wr_id, 0, std::nullopt);
  }

  // A message of the peer: as it should be, but for what the input edits, or of any bytes.
  void Deliver(uint32_t peer, bool is_valid) {
    auto& link = links_[peer];
    if (link.recvs.empty()) return;
    const HostPath::Request request = link.recvs.front();
    link.recvs.pop_front();
    uint32_t bytes = request.length, imm = static_cast<uint32_t>(request.wr_id >> 1);
    std::optional<size_t> exchange;
    if (IsOfFetchRing(peer)) {
      Message(request);
    } else if (request.length == kExchangeBytes) {
      const size_t op = OpOf(link.exchanges++);
      // Of a call that this rank has not made yet it may be anything.
      ControlHeader h = op < headers_.size() ? Sent(op) : ControlHeader{.invocation = op};
      bytes = kControlBytes;
      if (is_valid && IsInlined(h)) bytes += static_cast<uint32_t>(in_.Next() % 2 * CallBytes(h));
      std::array<uint8_t, kControlBytes> message;
      Encode(h, message);
      if (!is_valid) message[in_.Next() % 64] = in_.Next();
      std::memcpy(request.address, message.data(), message.size());
      exchange = op;
    }
    if (!is_valid) {
      const uint8_t how = in_.Next();
      if (how % 4 == 0) bytes = std::min<uint32_t>(in_.Next(), request.length);
      if (how % 4 == 1) imm += in_.Next();
      for (uint32_t i = how / 4; i < bytes && i < 8; ++i) request.address[bytes - 1 - i] = in_.Next();
    }
    // As it has come: one edit may have taken another one back.
    if (exchange) {
      came_[*exchange].push_back(
          DecodeControl(std::span<const uint8_t, kControlBytes>(request.address, kControlBytes)));
    }
    path_.OnComplete(peer, request.wr_id, bytes, imm);
  }

  // The call that has the exchange of that number; past the calls made if there is none.
  size_t OpOf(size_t exchange) const {
    if (config_.agrees_by_exchange) return exchange;
    size_t op = 0;
    while (op < headers_.size() && (!IsInlined(Sent(op)) || exchange-- > 0)) ++op;
    return op;
  }

  // As this rank sends it.
  ControlHeader Sent(size_t op) const {
    ControlHeader h = headers_[op];
    h.invocation = op;
    h.flags = AlgorithmFlags(algorithms_[op]);
    if (IsInlinedByHosts(h, config_.world_size, algorithms_[op], kInlineBytes)) h.flags |= kInlinedFlag;
    return h;
  }

  void TakeFinished() {
    while (const auto done = path_.NextFinished()) {
      EPIC_CHECK(done->op == static_cast<OpId>(finished_) && finished_ < headers_.size());
      if (done->outcome == Outcome::kOk) {
        for (const auto& header : came_[finished_]) {
          EPIC_CHECK(header && header->status == ControlStatus::kOk);
          EPIC_CHECK(FirstDifference(*header, Sent(finished_)) == ControlField::kNone);
        }
        CheckResult(finished_);
        const bool has_exchange = config_.agrees_by_exchange || IsInlined(Sent(finished_));
        EPIC_CHECK(has_exchange ? !came_[finished_].empty() : came_[finished_].empty());
        EPIC_CHECK(config_.agrees_by_exchange || agreed_ > finished_);
      } else {
        EPIC_CHECK(path_.failed() && done->outcome == path_.failure());
      }
      ++finished_;
    }
  }

  // Of a call by multicast: all that other ranks give.
  void CheckResult(size_t op) const {
    const ControlHeader& h = headers_[op];
    if (!IsByMulticast(h, algorithms_[op])) return;
    const std::vector<uint8_t>& result = buffers_[2 * op + 1];
    const uint64_t part_bytes = h.count * ElementBytes(h.type);
    if (h.collective == Collective::kBroadcast && h.root == config_.rank) return;
    for (uint64_t at = 0; at < result.size(); ++at) {
      const bool is_own = h.collective == Collective::kAllGather && at / part_bytes == config_.rank;
      EPIC_CHECK(is_own || result[at] == ByteAt(at));
    }
  }

  void Drain() {
    for (auto& [peer, link] : links_) {
      for (size_t i = link.recvs.size() + link.sends.size(); i > 0; --i) path_.OnFlushed();
    }
    EPIC_CHECK(path_.posted() == 0);
    path_.OnDrained();
    TakeFinished();
  }

  int64_t Outstanding() const {
    size_t all = 0;
    for (const auto& [peer, link] : links_) all += link.recvs.size() + link.sends.size();
    return static_cast<int64_t>(all);
  }

  struct Link {
    std::deque<HostPath::Request> recvs, sends;
    size_t exchanges = 0;
  };
  FuzzInput& in_;
  HostPathConfig config_;
  HostPath path_;
  std::vector<uint32_t> peers_;
  std::map<uint32_t, Link> links_;
  std::deque<std::vector<uint8_t>> buffers_;
  std::vector<ControlHeader> headers_;
  std::vector<Algorithm> algorithms_;  // by which they go
  std::map<size_t, std::vector<std::optional<ControlHeader>>> came_;
  size_t finished_ = 0, agreed_ = 0;
  std::optional<Outcome> failure_;
  uint64_t sum_ = 0;
};

}  // namespace
}  // namespace epic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::FuzzInput in(data, size);
  epic::Fuzz(&in).Run();
  return 0;
}
