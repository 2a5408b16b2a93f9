// The engine in memory, one core: frames in, frames out, no system call. Arguments: payload bytes, degree.
// "core" counts the engine alone on parsed packets; "frames" also parses with ICRC check and serialises with
// ICRC, which is what the daemon does per packet.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/check.h"
#include "incengine/core/engine.h"
#include "protocol/control.h"
#include "roce/frame.h"

namespace epic::engine {
namespace {

constexpr Ipv4 kSwitch{0x0a00ff01};
constexpr uint32_t kWindow = 64;

Ipv4 HostIp(size_t child) { return Ipv4{static_cast<uint32_t>(0x0a000001 + child)}; }
Qpn SwitchQpn(size_t child) { return Qpn{static_cast<uint32_t>(0x100 + child)}; }

GroupConfig StarConfig(uint32_t mtu, size_t degree) {
  GroupConfig config{.group_id = 1,
                     .generation = 1,
                     .name = "bench",
                     .world_size = static_cast<uint32_t>(degree),
                     .path_mtu = mtu,
                     .message_packets = 8,
                     .window_messages = kWindow / 8,
                     .slots = 2 * kWindow};
  for (size_t c = 0; c < degree; ++c) {
    config.children.push_back({.local_qpn = SwitchQpn(c),
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

roce::Packet FromHost(size_t child, Psn psn) {
  roce::Packet p;
  p.src_ip = HostIp(child);
  p.dst_ip = kSwitch;
  p.udp_src_port = 0xc000;
  p.bth.dest_qp = SwitchQpn(child);
  p.bth.psn = psn;
  return p;
}

// A window of packets from every child, as frames, in the order in which a switch would see them.
class Load {
 public:
  Load(uint32_t mtu, size_t degree) : degree_(degree), payload_(mtu), frame_bytes_(roce::MaxFrameBytes(mtu)) {
    frames_.resize(kWindow * degree * frame_bytes_);
    sizes_.resize(kWindow * degree);
  }
  void Build(Index first, int64_t data_packets) {
    for (uint32_t i = 0; i < kWindow; ++i) {
      for (size_t c = 0; c < degree_; ++c) {
        const int64_t at = first + i - 1;  // index 0 is the control packet
        roce::Packet p = FromHost(c, Psn(static_cast<uint32_t>(first + i)));
        const bool last = at % 8 == 7 || at == data_packets - 1;
        p.bth.opcode = at % 8 == 0 ? roce::Opcode::kRcSendFirst
                       : last      ? roce::Opcode::kRcSendLast
                                   : roce::Opcode::kRcSendMiddle;
        p.bth.ack_req = last;
        p.payload = payload_;
        const size_t n = i * degree_ + c;
        sizes_[n] = roce::WriteFrame({}, p, std::span(frames_).subspan(n * frame_bytes_, frame_bytes_));
      }
    }
  }
  std::span<const uint8_t> Frame(size_t n) const {
    return std::span(frames_).subspan(n * frame_bytes_, sizes_[n]);
  }
  size_t size() const { return sizes_.size(); }

 private:
  size_t degree_;
  std::vector<uint8_t> payload_;
  size_t frame_bytes_;
  std::vector<uint8_t> frames_;
  std::vector<size_t> sizes_;
};

void Acknowledge(Engine& engine, size_t degree, Psn psn, Sink& sink) {
  for (size_t c = 0; c < degree; ++c) {
    roce::Packet ack = FromHost(c, psn);
    ack.bth.opcode = roce::Opcode::kRcAck;
    ack.aeth.syndrome = roce::kSyndromeAck;
    engine.OnPacket(0, static_cast<PortId>(c), ack, sink);
  }
}

void RunEngine(benchmark::State& state, bool frames) {
  const auto mtu = static_cast<uint32_t>(state.range(0));
  const auto degree = static_cast<size_t>(state.range(1));
  Engine engine(kSwitch, degree, 16 << 20);
  EPIC_CHECK(engine.Install(StarConfig(mtu, degree)).ok());
  Sink sink(frames, mtu);
  ControlHeader header{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat32};
  const int64_t data_packets = static_cast<int64_t>(kMaxBytes / mtu / kWindow * kWindow);
  header.count = static_cast<uint64_t>(data_packets) * mtu / 4;
  Load load(mtu, degree);
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
      for (size_t c = 0; c < degree; ++c) {
        roce::Packet p = FromHost(c, Psn(static_cast<uint32_t>(next)));
        p.bth.opcode = roce::Opcode::kRcSendOnlyImm;
        p.payload = control;
        engine.OnPacket(0, static_cast<PortId>(c), p, sink);
      }
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
      engine.OnPacket(0, static_cast<PortId>(n % degree), packet, sink);
    }
    next += kWindow;
    sent_data += kWindow;
    Acknowledge(engine, degree, Psn(static_cast<uint32_t>(next - 1)), sink);
  }
  const auto packets = static_cast<double>(state.iterations()) * kWindow * static_cast<double>(degree);
  state.counters["packets"] = benchmark::Counter(packets, benchmark::Counter::kIsRate);
  state.counters["bits"] = benchmark::Counter(packets * mtu * 8, benchmark::Counter::kIsRate);
  EPIC_CHECK(engine.groups().at(1).results_end == next);
}

void BM_EngineCore(benchmark::State& state) { RunEngine(state, false); }
void BM_EngineFrames(benchmark::State& state) { RunEngine(state, true); }

BENCHMARK(BM_EngineCore)
    ->ArgsProduct({{1024, 4096}, {2, 4, 8}})
    ->ArgNames({"payload", "degree"})
    ->Iterations(2000);
BENCHMARK(BM_EngineFrames)
    ->ArgsProduct({{1024, 4096}, {2, 4, 8}})
    ->ArgNames({"payload", "degree"})
    ->Iterations(2000);

}  // namespace
}  // namespace epic::engine
