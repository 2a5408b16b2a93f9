// The engine in memory, one core: frames in, frames out, no system call. Arguments: payload bytes, degree,
// and of BM_EngineGroups groups, which have their packets by turns. "core" counts the engine alone on parsed
// packets; "frames" also parses with ICRC check and serialises with ICRC, which is what the daemon does per
// packet.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "incengine/core/engine.h"
#include "protocol/control.h"
#include "roce/frame.h"

namespace epic::engine {
namespace {

constexpr Ipv4 kSwitch{0x0a00ff01};
constexpr size_t kArenaBytes = 64 << 20;
// Frames that are read, one after the other, in an iteration: the same memory for any number of children.
constexpr size_t kFrames = 4096, kFramesOfGroups = 32768;
constexpr size_t kPackets = 512'000;  // in all iterations together, about

// What is measured. Each group is a star of `degree` hosts, of which group after group sends a window.
struct Shape {
  uint32_t mtu;
  size_t degree;
  size_t groups = 1;
  uint32_t window = 64;  // packets; a multiple of 8
  size_t frames = kFrames;

  size_t hosts() const { return degree * groups; }
  // Windows of every host in an iteration.
  size_t windows() const { return std::max<size_t>(frames / (window * hosts()), 1); }
  uint32_t packets() const { return static_cast<uint32_t>(windows()) * window; }
  int64_t iterations() const {
    return static_cast<int64_t>(std::max<size_t>(kPackets / (packets() * hosts()), 1));
  }
};

Ipv4 HostIp(size_t child) { return Ipv4{static_cast<uint32_t>(0x0a000001 + child)}; }
Qpn SwitchQpn(size_t group, size_t child) { return Qpn{static_cast<uint32_t>(0x100 + group * 64 + child)}; }

GroupConfig StarConfig(const Shape& shape, size_t group) {
  GroupConfig config{.group_id = group + 1,
                     .generation = 1,
                     .name = "bench",
                     .world_size = static_cast<uint32_t>(shape.degree),
                     .path_mtu = shape.mtu,
                     .message_packets = 8,
                     .window_messages = shape.window / 8,
                     .slots = 2 * shape.window};
  for (size_t c = 0; c < shape.degree; ++c) {
    config.children.push_back({.local_qpn = SwitchQpn(group, c),
                               .remote_ip = HostIp(c),
                               .remote_qpn = Qpn{0x11},
                               .port = static_cast<PortId>(c),
                               .is_host = true,
                               .ranks = {static_cast<uint32_t>(c)}});
  }
  return config;
}

// Counts what is sent, serialising it first if asked to.
class Sink final : public Effects {
 public:
  explicit Sink(bool serialise, uint32_t mtu)
      : serialise_(serialise), shift_(mtu), frame_(roce::MaxFrameBytes(mtu)) {}
  void Send(PortId, const OutPacket& out) override {
    ++sent;
    if (!serialise_) return;
    const roce::FrameAddress address{.dst = out.dst_mac, .src = {}, .ip_id = out.ip_id, .vlan = {}};
    if (out.packet.payload.size() != shift_.bytes()) {
      benchmark::DoNotOptimize(roce::WriteFrame(address, out.packet, frame_));
      return;
    }
    if (!out.same_payload) crc_ = roce::Crc32(0, out.packet.payload);
    benchmark::DoNotOptimize(roce::WriteFrameWithPayloadCrc(address, out.packet, {&shift_, crc_}, frame_));
  }
  void SetTimer(TimerId, Nanos) override {}
  void Drop(PortId, DropReason reason) override {
    if (reason != DropReason::kDuplicate) EPIC_CHECK(false);
  }

  uint64_t sent = 0;

 private:
  bool serialise_;
  roce::CrcShift shift_;
  uint32_t crc_ = 0;
  std::vector<uint8_t> frame_;
};

roce::Packet FromHost(size_t group, size_t child, Psn psn) {
  roce::Packet p;
  p.src_ip = HostIp(child);
  p.dst_ip = kSwitch;
  p.udp_src_port = 0xc000;
  p.bth.dest_qp = SwitchQpn(group, child);
  p.bth.psn = psn;
  return p;
}

// Windows of packets from every child of every group, as frames, in the order in which a switch would see
// them: an index of all children of all groups, then the next one.
class Load {
 public:
  explicit Load(const Shape& shape)
      : shape_(shape), payload_(shape.mtu), frame_bytes_(roce::MaxFrameBytes(shape.mtu)) {
    sizes_.resize(shape.packets() * shape.hosts());
    frames_.resize(sizes_.size() * frame_bytes_);
  }
  void Build(Index first, int64_t data_packets) {
    for (size_t n = 0; n < sizes_.size(); ++n) {
      const size_t i = n / shape_.hosts();
      const int64_t at = first + static_cast<int64_t>(i) - 1;  // index 0 is the control packet
      roce::Packet p =
          FromHost(GroupOf(n), ChildOf(n), Psn(static_cast<uint32_t>(first + static_cast<Index>(i))));
      const bool last = at % 8 == 7 || at == data_packets - 1;
      p.bth.opcode = at % 8 == 0 ? roce::Opcode::kRcSendFirst
                     : last      ? roce::Opcode::kRcSendLast
                                 : roce::Opcode::kRcSendMiddle;
      p.bth.ack_req = last;
      p.payload = payload_;
      sizes_[n] = roce::WriteFrame({}, p, std::span(frames_).subspan(n * frame_bytes_, frame_bytes_));
    }
  }
  size_t ChildOf(size_t n) const { return n % shape_.degree; }
  size_t GroupOf(size_t n) const { return n / shape_.degree % shape_.groups; }
  std::span<const uint8_t> Frame(size_t n) const {
    return std::span(frames_).subspan(n * frame_bytes_, sizes_[n]);
  }
  size_t size() const { return sizes_.size(); }

 private:
  const Shape shape_;
  std::vector<uint8_t> payload_;
  size_t frame_bytes_;
  std::vector<uint8_t> frames_;
  std::vector<size_t> sizes_;
};

// Calls visit(group, child) for all of them.
template <typename Visit>
void ForHosts(const Shape& shape, const Visit& visit) {
  for (size_t g = 0; g < shape.groups; ++g) {
    for (size_t c = 0; c < shape.degree; ++c) visit(g, c);
  }
}

void Acknowledge(Engine& engine, const Shape& shape, Psn psn, Sink& sink) {
  ForHosts(shape, [&](size_t g, size_t c) {
    roce::Packet ack = FromHost(g, c, psn);
    ack.bth.opcode = roce::Opcode::kRcAck;
    ack.aeth.syndrome = roce::kSyndromeAck;
    engine.OnPacket(0, static_cast<PortId>(c), ack, sink);
  });
}

void RunEngine(benchmark::State& state, const Shape& shape, bool frames) {
  const uint32_t mtu = shape.mtu;
  Engine engine(kSwitch, shape.degree, kArenaBytes);
  for (size_t g = 0; g < shape.groups; ++g) EPIC_CHECK(engine.Install(StarConfig(shape, g)).ok());
  Sink sink(frames, mtu);
  ControlHeader header{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat32};
  const int64_t data_packets = static_cast<int64_t>(kMaxBytes / mtu / shape.packets() * shape.packets());
  const size_t window_frames = shape.window * shape.hosts();
  header.count = static_cast<uint64_t>(data_packets) * mtu / 4;
  Load load(shape);
  Index next = 0;
  std::array<uint8_t, kControlBytes> control;
  int64_t invocation = 0;
  int64_t sent_data = data_packets;
  for (auto _ : state) {
    state.PauseTiming();
    if (sent_data == data_packets) {  // the next invocation
      if (next > 0) break;            // PSNs of a gibibyte are enough
      header.invocation = static_cast<uint64_t>(invocation++);
      Encode(header, control);
      ForHosts(shape, [&](size_t g, size_t c) {
        roce::Packet p = FromHost(g, c, Psn(static_cast<uint32_t>(next)));
        p.bth.opcode = roce::Opcode::kRcSendOnlyImm;
        p.payload = control;
        engine.OnPacket(0, static_cast<PortId>(c), p, sink);
      });
      ++next;
      sent_data = 0;
    }
    load.Build(next, data_packets);
    std::vector<roce::Packet> parsed(frames ? 0 : load.size());
    roce::FrameAddress address;
    for (size_t n = 0; n < parsed.size(); ++n) roce::ParseFrame(load.Frame(n), &address, &parsed[n], false);
    state.ResumeTiming();
    for (size_t n = 0; n < load.size(); ++n) {
      roce::Packet packet;
      if (frames) {
        EPIC_CHECK(roce::ParseFrame(load.Frame(n), &address, &packet) == roce::ParseResult::kOk);
      } else {
        packet = parsed[n];
      }
      engine.OnPacket(0, static_cast<PortId>(load.ChildOf(n)), packet, sink);
      if ((n + 1) % window_frames != 0) continue;
      next += shape.window;
      Acknowledge(engine, shape, Psn(static_cast<uint32_t>(next - 1)), sink);
    }
    sent_data += shape.packets();
  }
  const auto packets = static_cast<double>(state.iterations()) * static_cast<double>(load.size());
  state.counters["packets"] = benchmark::Counter(packets, benchmark::Counter::kIsRate);
  state.counters["bits"] = benchmark::Counter(packets * mtu * 8, benchmark::Counter::kIsRate);
  for (const auto& [id, ctx] : engine.groups()) EPIC_CHECK(ctx.results_end == next);
}

// Adds BM_Engine... of a shape; `arguments` as Google Benchmark writes them.
void Add(const char* name, const std::string& arguments, const Shape& shape, bool frames) {
  benchmark::RegisterBenchmark((name + arguments).c_str(), [shape, frames](benchmark::State& state) {
    RunEngine(state, shape, frames);
  })->Iterations(shape.iterations());
}

void AddStar(uint32_t payload, size_t degree, bool frames) {
  Add(frames ? "BM_EngineFrames" : "BM_EngineCore", fmt::format("/payload:{}/degree:{}", payload, degree),
      {payload, degree}, frames);
}

void AddAll() {
  for (const bool frames : {false, true}) {
    for (const uint32_t payload : {1024, 4096}) {
      for (const size_t degree : {2, 4, 8}) AddStar(payload, degree, frames);
    }
  }
  for (const size_t degree : {16, 32, 64}) AddStar(4096, degree, true);
  for (const uint32_t payload : {256, 512, 2048}) AddStar(payload, 4, true);
  // Windows of 8 packets, so that a thousand groups fit into the arena.
  for (const size_t groups : {1, 10, 100, 1000})
    Add("BM_EngineGroups", fmt::format("/groups:{}", groups), {1024, 4, groups, 8, kFramesOfGroups}, true);
}

}  // namespace
}  // namespace epic::engine

int main(int argc, char** argv) {
  epic::engine::AddAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
