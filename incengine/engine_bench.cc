// The engine in memory, one core: frames in, frames out, no system call. Arguments: payload bytes, degree,
// and of BM_EngineGroups groups, which have their packets by turns. "core" counts the engine alone on parsed
// packets; "frames" is Switch::OnFrame, by which the daemon's ports hand on each frame that comes alone:
// source guard, hellos, counters, parsing with ICRC check, the engine, and each frame that leaves in pieces
// with its ICRC, which is where a port takes over.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "incengine/core/switch.h"
#include "protocol/control.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"

namespace epic::engine {
namespace {

constexpr Ipv4 kSwitch{0x0a00ff01};
constexpr roce::MacAddress kSwitchMac = {2, 0, 0, 0, 0xff, 1};
constexpr size_t kArenaBytes = 64 << 20;
// Frames that are read, one after the other, in an iteration: the same memory for any number of children.
constexpr size_t kFrames = 4096, kFramesOfGroups = 32768;
// Packets in all iterations together, about; for callgrind, which takes fifty times as long,
// EPIC_BENCH_PACKETS says fewer.
size_t AllPackets() {
  const char* fewer = std::getenv("EPIC_BENCH_PACKETS");
  return fewer ? std::strtoul(fewer, nullptr, 10) : 512'000;
}

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
    return static_cast<int64_t>(std::max<size_t>(AllPackets() / (packets() * hosts()), 1));
  }
};

Ipv4 HostIp(size_t child) { return Ipv4{static_cast<uint32_t>(0x0a000001 + child)}; }
roce::MacAddress HostMac(size_t child) { return {2, 0, 0, 0, 0, static_cast<uint8_t>(child)}; }
Qpn SwitchQpn(size_t group, size_t child) { return Qpn{static_cast<uint32_t>(0x100 + group * 64 + child)}; }

GroupConfig StarConfig(const Shape& shape, size_t group) {
  GroupConfig config{{.group_id = group + 1,
                      .generation = 1,
                      .name = "bench",
                      .world_size = static_cast<uint32_t>(shape.degree),
                      .path_mtu = shape.mtu,
                      .message_packets = 8,
                      .window_messages = shape.window / 8,
                      .slots = 2 * shape.window}};
  for (size_t c = 0; c < shape.degree; ++c) {
    config.children.push_back({.local_qpn = SwitchQpn(group, c),
                               .remote_ip = HostIp(c),
                               .remote_qpn = Qpn{0x11},
                               .remote_mac = HostMac(c),
                               .port = static_cast<PortId>(c),
                               .is_host = true,
                               .ranks = {static_cast<uint32_t>(c)}});
  }
  return config;
}

// Of the engine alone.
class Packets final : public Effects {
 public:
  void Send(PortId, const OutPacket& out) override { benchmark::DoNotOptimize(out.packet.payload.data()); }
  void SetTimer(TimerId, Nanos) override {}
  void Drop(PortId, DropReason) override { EPIC_CHECK(false); }
};

// Of the switch: where a port would take what leaves.
class Frames final : public FrameSink {
 public:
  void Send(PortId, std::span<const uint8_t>) override { EPIC_CHECK(false); }
  void SendPacket(PortId, const roce::FramePieces& packet, bool) override {
    benchmark::DoNotOptimize(&packet);
    benchmark::ClobberMemory();
  }
  void SetTimer(TimerId, Nanos) override {}
};

// As the manager sets one up for hosts: each is known at its port, and nobody else may send there.
Switch StarSwitch(const Shape& shape) {
  Switch made({.address = kSwitch,
               .mac = kSwitchMac,
               .port_count = shape.degree,
               .arena_bytes = kArenaBytes,
               .forwarding = ForwardingMode::kStatic,
               .hello = {"bench", "1", std::vector<std::string>(shape.degree, "port")}});
  ForwardingTable table;
  for (size_t c = 0; c < shape.degree; ++c)
    table.entries.push_back({HostMac(c), HostIp(c), static_cast<PortId>(c), /*source_guard=*/true});
  EPIC_CHECK(made.forwarding().SetTable(table).ok());
  for (size_t g = 0; g < shape.groups; ++g) EPIC_CHECK(made.engine().Install(StarConfig(shape, g)).ok());
  return made;
}

roce::Packet FromHost(size_t group, size_t child, Psn psn) {
  roce::Packet p;
  p.src_ip = HostIp(child);
  p.dst_ip = kSwitch;
  p.udp_src_port = 0xc000;
  p.bth.dest_qp = SwitchQpn(group, child);
  p.bth.psn = psn;
  return p;
}

roce::Packet AckFromHost(size_t group, size_t child, Psn psn) {
  roce::Packet ack = FromHost(group, child, psn);
  ack.bth.opcode = roce::Opcode::kRcAck;
  ack.aeth.syndrome = roce::kSyndromeAck;
  return ack;
}

// What hosts send, as frames in the order in which a switch would see them: an index of all children of all
// groups, then the next one, and behind each window its acknowledgements, by all.
class Load {
 public:
  explicit Load(const Shape& shape) : shape_(shape), payload_(shape.mtu) {
    frames_.reserve(shape.packets() * shape.hosts() * roce::MaxFrameBytes(shape.mtu) +
                    shape.windows() * shape.hosts() * roce::MaxFrameBytes(0));
  }
  // In place of what there was: packets from `first` on, of a call of so many.
  void Build(Index first, int64_t data_packets) {
    frames_.clear();
    places_.clear();
    for (uint32_t i = 0; i < shape_.packets(); ++i) {
      const Psn psn(static_cast<uint32_t>(first + i));
      const int64_t at = first + static_cast<int64_t>(i) - 1;  // index 0 is the control packet
      const bool last = at % 8 == 7 || at == data_packets - 1;
      ForHosts([&](size_t g, size_t c) {
        roce::Packet p = FromHost(g, c, psn);
        p.bth.opcode = at % 8 == 0 ? roce::Opcode::kRcSendFirst
                       : last      ? roce::Opcode::kRcSendLast
                                   : roce::Opcode::kRcSendMiddle;
        p.bth.ack_req = last;
        p.payload = payload_;
        Add(c, p);
      });
      if ((i + 1) % shape_.window == 0) ForHosts([&](size_t g, size_t c) { Add(c, AckFromHost(g, c, psn)); });
    }
  }
  // In place of what there was: a control packet of every host.
  void BuildControl(Index index, std::span<const uint8_t> control) {
    frames_.clear();
    places_.clear();
    ForHosts([&](size_t g, size_t c) {
      roce::Packet p = FromHost(g, c, Psn(static_cast<uint32_t>(index)));
      p.bth.opcode = roce::Opcode::kRcSendOnlyImm;
      p.payload = control;
      Add(c, p);
    });
  }
  size_t size() const { return places_.size(); }
  PortId Port(size_t n) const { return places_[n].port; }
  std::span<const uint8_t> Frame(size_t n) const {
    return std::span(frames_).subspan(places_[n].offset, places_[n].bytes);
  }

 private:
  struct FramePlace {
    PortId port;
    size_t offset, bytes;
  };

  template <typename Visit>
  void ForHosts(const Visit& visit) {
    for (size_t g = 0; g < shape_.groups; ++g) {
      for (size_t c = 0; c < shape_.degree; ++c) visit(g, c);
    }
  }
  void Add(size_t child, const roce::Packet& packet) {
    const size_t offset = frames_.size();
    frames_.resize(offset + roce::FrameBytes(packet));
    const size_t bytes = roce::WriteFrame({.dst = kSwitchMac, .src = HostMac(child), .ip_id = 0, .vlan = {}},
                                          packet, std::span(frames_).subspan(offset));
    places_.push_back({static_cast<PortId>(child), offset, bytes});
  }

  const Shape shape_;
  std::vector<uint8_t> payload_;
  std::vector<uint8_t> frames_;
  std::vector<FramePlace> places_;
};

// Hands a load to a switch by its frames, or to its engine alone, parsed before.
class Feed {
 public:
  Feed(Switch& to, bool frames) : switch_(to), frames_(frames) {}
  void Prepare(const Load& load) {
    parsed_.assign(frames_ ? 0 : load.size(), {});
    roce::FrameAddress address;
    for (size_t n = 0; n < parsed_.size(); ++n)
      EPIC_CHECK(roce::ParseFrame(load.Frame(n), &address, &parsed_[n], false) == roce::ParseResult::kOk);
  }
  void Run(const Load& load) {
    if (frames_) {
      for (size_t n = 0; n < load.size(); ++n) switch_.OnFrame(0, load.Port(n), load.Frame(n), frame_sink_);
    } else {
      for (size_t n = 0; n < load.size(); ++n)
        switch_.engine().OnPacket(0, load.Port(n), parsed_[n], packet_sink_);
    }
    fed_ += load.size();
  }
  // Has all come to the engine, and none been dropped there?
  bool Right() const {
    const auto& drops = switch_.counters().engine_drops;
    return (!frames_ || switch_.counters().roce_packets == fed_) &&
           std::ranges::all_of(drops, [](uint64_t count) { return count == 0; });
  }

 private:
  Switch& switch_;
  const bool frames_;
  std::vector<roce::Packet> parsed_;
  Packets packet_sink_;
  Frames frame_sink_;
  uint64_t fed_ = 0;
};

void RunEngine(benchmark::State& state, const Shape& shape, bool frames) {
  const uint32_t mtu = shape.mtu;
  Switch star = StarSwitch(shape);
  Feed feed(star, frames);
  ControlHeader header{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat32};
  const int64_t data_packets = static_cast<int64_t>(kMaxBytes / mtu / shape.packets() * shape.packets());
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
      load.BuildControl(next, control);
      feed.Prepare(load);
      feed.Run(load);
      ++next;
      sent_data = 0;
    }
    load.Build(next, data_packets);
    feed.Prepare(load);
    state.ResumeTiming();
    feed.Run(load);
    next += shape.packets();
    sent_data += shape.packets();
  }
  // Of data; acknowledgements are in the time, and not in the rate.
  const auto packets =
      static_cast<double>(state.iterations()) * static_cast<double>(shape.packets() * shape.hosts());
  state.counters["packets"] = benchmark::Counter(packets, benchmark::Counter::kIsRate);
  state.counters["bits"] = benchmark::Counter(packets * mtu * 8, benchmark::Counter::kIsRate);
  EPIC_CHECK(feed.Right());
  for (const auto& [id, ctx] : star.engine().groups()) EPIC_CHECK(ctx.results_end == next);
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
