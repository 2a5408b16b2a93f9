// What a datagram of a Broadcast by multicast costs the rank that receives it, by one thread that makes no
// system call. Arguments: bytes of a chunk; 1 if frames, receives and result stay in the processor's cache, 0
// if the call has 64 MiB and as many receives as the library posts.
//
// "Library" begins with a completion: who sent it, the checks, the bit of its chunk, the copy into place, the
// next receive. "Frame" begins with a frame that has come alone: it is parsed, its ICRC checked, and
// softnic's adapter copies it into its receive, before the library has it. "SuperFrame": the same, of
// super-frames.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "commlib/core/host_multicast.h"
#include "commlib/verbs/datagram_qp.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"
#include "roce/super_frame.h"
#include "softnic/core/nic.h"

namespace epic::softnic {
namespace {

constexpr Ipv4 kGroup{0xefc00001}, kIp{0x0a000001}, kSenderIp{0x0a000002};
constexpr Qpn kQpn{16}, kSenderQpn{17};
constexpr uint32_t kPd = 1, kQkey = 5, kRanks = 4, kSender = 1, kBatch = 16;
constexpr uint64_t kColdBytes = 64 << 20, kWarmBytes = 128 << 10;
constexpr uint32_t kWarmReceives = 32;

struct Shape {
  uint32_t chunk_bytes;
  bool is_warm;

  uint64_t bytes() const { return is_warm ? kWarmBytes : kColdBytes; }
  uint32_t chunks() const { return static_cast<uint32_t>(bytes() / chunk_bytes); }
  HostMulticastConfig Config() const {
    HostMulticastConfig config{.rank = 0, .world_size = kRanks, .chunk_bytes = chunk_bytes};
    config.read_bytes = chunk_bytes;
    if (is_warm) config.staging_chunks = kWarmReceives;
    return config;
  }
};

uint64_t KeyOf(const verbs::DatagramSource& source) { return uint64_t{Raw(source.ip)} << 32 | source.qpn; }

// The rank that receives, as the library has it behind verbs.
class Library {
 public:
  explicit Library(const Shape& shape)
      : multicast_(shape.Config(), 0), memory_(multicast_.memory_bytes()), result_(shape.bytes()) {
    rank_of_source_.emplace(KeyOf({.ip = kSenderIp, .qpn = Raw(kSenderQpn)}), kSender);
    Begin();
  }

  std::span<uint8_t> memory() { return memory_; }
  uint64_t invocation() const { return 7; }

  // The call, from its beginning.
  void Begin() {
    HostCall call{.recv = result_.data()};
    call.header = {.collective = Collective::kBroadcast, .type = DataType::kByte};
    call.header.invocation = invocation();
    call.header.root = kSender;
    call.header.count = result_.size();
    multicast_.Begin(call);
  }
  bool NextReceive(MulticastWork* work) {
    while (multicast_.NextReceive(work)) {
      if (work->kind == MulticastWork::Kind::kDatagramRecv) return true;
    }
    return false;
  }
  void Take(const ibv_wc& completion) {
    std::optional<uint32_t> from;
    const auto source = verbs::SourceOf(completion, &memory_[multicast_.ReceivePlace(completion.wr_id)]);
    if (source) {
      const auto found = rank_of_source_.find(KeyOf(*source));
      if (found != rank_of_source_.end()) from = found->second;
    }
    multicast_.OnDatagram(from, ntohl(completion.imm_data), completion.byte_len - kGrhBytes, memory_);
  }
  uint64_t came() const { return multicast_.counts().came; }

 private:
  HostMulticast multicast_;
  std::vector<uint8_t> memory_, result_;
  std::unordered_map<uint64_t, uint32_t> rank_of_source_;
};

ibv_wc CompletionOf(uint64_t number, uint32_t bytes, uint32_t imm) {
  ibv_wc wc{};
  wc.wr_id = number;
  wc.byte_len = bytes;
  wc.imm_data = htonl(imm);
  wc.src_qp = Raw(kSenderQpn);
  wc.wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH;
  return wc;
}

// The adapter that the rank's queue pair is of.
class Host {
 public:
  explicit Host(const Shape& shape) : library_(shape) {
    const std::span<uint8_t> memory = library_.memory();
    key_ = *nic_.memory().Register(kPd, memory.data(), 0, memory.size(), {.local_write = true});
    nic_.CreateQp({.type = QpType::kUd,
                   .qpn = kQpn,
                   .pd = kPd,
                   .send_cq = cq_,
                   .recv_cq = cq_,
                   .send_depth = 16,
                   .recv_depth = shape.Config().staging_chunks});
    using roce::ModifyResult;
    EPIC_CHECK(nic_.ModifyUd(kQpn, roce::QpState::kInit, kQkey, {}) == ModifyResult::kOk);
    EPIC_CHECK(nic_.ModifyUd(kQpn, roce::QpState::kRtr, {}, {}) == ModifyResult::kOk);
    EPIC_CHECK(nic_.AttachMulticast(kQpn, kGroup));
    PostReceives();
  }

  Library& library() { return library_; }
  void OnPacket(const roce::Packet& packet) { EPIC_CHECK(nic_.OnPacket(0, packet)); }
  // What has come goes to the library, whose receives are posted again.
  void Poll() {
    std::array<Work, kBatch> works;
    while (const size_t count = nic_.PollCq(cq_, works)) {
      for (const Work& work : std::span(works).first(count))
        library_.Take(CompletionOf(work.completion.wr_id, work.completion.bytes, work.completion.imm));
      PostReceives();
    }
  }

 private:
  void PostReceives() {
    MulticastWork work;
    while (library_.NextReceive(&work)) {
      roce::RecvWr wr{.wr_id = posted_++};
      wr.sges.count = 1;
      wr.sges.sge[0] = {.address = work.offset, .length = work.length, .lkey = key_};
      EPIC_CHECK(nic_.PostRecv(kQpn, wr) == roce::PostResult::kOk);
    }
  }

  Library library_;
  Nic nic_{kIp, kMaxPathMtu, roce::Policy{}};
  uint32_t cq_ = nic_.CreateCq(2048), key_ = 0;
  uint64_t posted_ = 0;
};

roce::Packet PacketOf(uint32_t chunk, uint64_t invocation, std::span<const uint8_t> payload) {
  roce::Packet packet;
  packet.src_ip = kSenderIp;
  packet.dst_ip = kGroup;
  packet.udp_src_port = 0xc011;
  packet.ttl = 1;
  packet.bth.opcode = roce::Opcode::kUdSendOnlyImm;
  packet.bth.dest_qp = roce::kMulticastQpn;
  packet.bth.psn = Psn(chunk);
  packet.deth = {.qkey = kQkey, .src_qp = kSenderQpn};
  packet.imm = static_cast<uint32_t>(invocation) << 16 | chunk;
  packet.payload = payload;
  return packet;
}

// All chunks of the call, a frame each, or as many as have room in each.
struct Frames {
  std::vector<uint8_t> bytes;
  std::vector<size_t> begins;  // and the end of the last
  size_t segment_bytes = 0;

  std::span<const uint8_t> At(size_t i) const {
    return std::span(bytes).subspan(begins[i], begins[i + 1] - begins[i]);
  }
  size_t size() const { return begins.size() - 1; }
};

Frames Alone(const Shape& shape, uint64_t invocation) {
  const std::vector<uint8_t> payload(shape.chunk_bytes, 0x5a);
  Frames frames;
  for (uint32_t chunk = 0; chunk < shape.chunks(); ++chunk) {
    const roce::Packet packet = PacketOf(chunk, invocation, payload);
    const size_t begin = frames.bytes.size();
    frames.begins.push_back(begin);
    frames.bytes.resize(begin + roce::FrameBytes(packet, false));
    roce::WriteFrame({.ip_id = static_cast<uint16_t>(chunk)}, packet, std::span(frames.bytes).subspan(begin));
  }
  frames.begins.push_back(frames.bytes.size());
  return frames;
}

Frames Joined(const Shape& shape, uint64_t invocation) {
  const Frames alone = Alone(shape, invocation);
  Frames frames{.segment_bytes = alone.At(0).size() - roce::kSuperFrameHeadBytes};
  const size_t most =
      std::min(roce::kMaxSuperFramePackets,
               (roce::kMaxSuperFrameBytes - roce::kSuperFrameHeadBytes) / frames.segment_bytes);
  for (size_t i = 0; i < alone.size(); ++i) {
    const bool begins = i % most == 0;
    if (begins) frames.begins.push_back(frames.bytes.size());
    const auto part = alone.At(i).subspan(begins ? 0 : roce::kSuperFrameHeadBytes);
    frames.bytes.insert(frames.bytes.end(), part.begin(), part.end());
  }
  frames.begins.push_back(frames.bytes.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    const std::span<uint8_t> frame =
        std::span(frames.bytes).subspan(frames.begins[i], frames.begins[i + 1] - frames.begins[i]);
    roce::MakeSuperFrameHead(frame.size() - roce::kSuperFrameHeadBytes,
                             frame.first(roce::kSuperFrameHeadBytes));
  }
  return frames;
}

// Calls follow one another: `begin` begins one, `take` takes what comes i-th in it and says how many chunks
// that was.
template <typename Begin, typename Take>
void Run(benchmark::State& state, Library& library, size_t count, const Begin& begin, const Take& take) {
  size_t next = 0;
  uint64_t chunks = 0;
  for ([[maybe_unused]] auto _ : state) {
    if (next == count) {
      begin();
      next = 0;
    }
    chunks += take(next++);
  }
  EPIC_CHECK(library.came() == chunks);
  state.SetBytesProcessed(static_cast<int64_t>(chunks) * state.range(0));
  state.counters["chunk"] = benchmark::Counter(static_cast<double>(chunks),
                                               benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

Shape ShapeOf(const benchmark::State& state) {
  return {.chunk_bytes = static_cast<uint32_t>(state.range(0)), .is_warm = state.range(1) != 0};
}

void BM_Library(benchmark::State& state) {
  const Shape shape = ShapeOf(state);
  Library library(shape);
  // A header as softnic writes it lies in front of each.
  HostMulticast places(shape.Config(), 0);
  for (uint32_t i = 0; i < shape.Config().staging_chunks; ++i) {
    uint8_t* const ip = &library.memory()[places.ReceivePlace(i) + 20];
    ip[0] = 0x45;
    for (int b = 0; b < 4; ++b) ip[12 + b] = static_cast<uint8_t>(Raw(kSenderIp) >> (24 - 8 * b));
  }
  MulticastWork work;
  while (library.NextReceive(&work)) {
  }
  uint64_t number = 0;
  const uint32_t high = static_cast<uint32_t>(library.invocation()) << 16;
  Run(
      state, library, shape.chunks(), [&] { library.Begin(); },
      [&](size_t chunk) {
        library.Take(
            CompletionOf(number++, kGrhBytes + shape.chunk_bytes, high | static_cast<uint32_t>(chunk)));
        EPIC_CHECK(library.NextReceive(&work));
        return 1;
      });
}

void BM_Frame(benchmark::State& state) {
  const Shape shape = ShapeOf(state);
  Host host(shape);
  const Frames frames = Alone(shape, host.library().invocation());
  Run(
      state, host.library(), frames.size() / kBatch, [&] { host.library().Begin(); },
      [&](size_t batch) {
        for (size_t i = batch * kBatch; i < (batch + 1) * kBatch; ++i) {
          roce::FrameAddress address;
          roce::Packet packet;
          EPIC_CHECK(roce::ParseFrame(frames.At(i), &address, &packet) == roce::ParseResult::kOk);
          host.OnPacket(packet);
        }
        host.Poll();
        return kBatch;
      });
}

void BM_SuperFrame(benchmark::State& state) {
  const Shape shape = ShapeOf(state);
  Host host(shape);
  const Frames frames = Joined(shape, host.library().invocation());
  Run(
      state, host.library(), frames.size(), [&] { host.library().Begin(); },
      [&](size_t i) {
        roce::SuperFrameView view;
        EPIC_CHECK(roce::SuperFrameView::Of(frames.At(i), frames.segment_bytes, &view) ==
                   roce::ParseResult::kOk);
        for (size_t k = 0; k < view.packets(); ++k) {
          roce::FrameAddress address;
          roce::Packet packet;
          EPIC_CHECK(view.Parse(k, &address, &packet) == roce::ParseResult::kOk);
          host.OnPacket(packet);
          // There may be fewer receives than packets.
          if (k % kBatch == kBatch - 1) host.Poll();
        }
        host.Poll();
        return view.packets();
      });
}

void Shapes(benchmark::internal::Benchmark* all) {
  all->ArgNames({"chunk", "warm"})->ArgsProduct({{4096, 1024}, {1, 0}});
}
BENCHMARK(BM_Library)->Apply(Shapes);
BENCHMARK(BM_Frame)->Apply(Shapes);
BENCHMARK(BM_SuperFrame)->Apply(Shapes);

}  // namespace
}  // namespace epic::softnic
