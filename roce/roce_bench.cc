// What the wire layer costs per packet: `roce_bench`. The argument is the payload in bytes.
#include <benchmark/benchmark.h>

#include <vector>

#include "roce/frame.h"
#include "roce/frame_testing.h"

namespace epic::roce {
namespace {

std::vector<uint8_t> Payload(const benchmark::State& state) {
  std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * 131);
  return payload;
}

Packet Send(std::span<const uint8_t> payload) {
  Packet packet;
  packet.src_ip = Ipv4{0x0a000001};
  packet.dst_ip = Ipv4{0x0a000002};
  packet.bth.opcode = Opcode::kRcSendMiddle;
  packet.payload = payload;
  return packet;
}

void Report(benchmark::State& state, int64_t packets = 1) {
  state.SetItemsProcessed(state.iterations() * packets);
  state.SetBytesProcessed(state.iterations() * packets * state.range(0));
}

void BM_Icrc(benchmark::State& state) {
  const std::vector<uint8_t> payload = Payload(state);
  std::vector<uint8_t> frame(MaxFrameBytes(payload.size()));
  frame.resize(WriteFrame({}, Send(payload), frame));
  const std::span<const uint8_t> ip = std::span(frame).subspan(14);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(Icrc(ip));
  Report(state);
}
BENCHMARK(BM_Icrc)->Arg(256)->Arg(1024)->Arg(4096);

void BM_ParseFrame(benchmark::State& state) {
  const std::vector<uint8_t> payload = Payload(state);
  std::vector<uint8_t> frame(MaxFrameBytes(payload.size()));
  frame.resize(WriteFrame({}, Send(payload), frame));
  FrameAddress address;
  Packet packet;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(ParseFrame(frame, &address, &packet));
    benchmark::DoNotOptimize(packet);
  }
  Report(state);
}
BENCHMARK(BM_ParseFrame)->Arg(0)->Arg(1024)->Arg(4096);

// A frame as a switch or a host sends it, its payload left where it lies.
void BM_WritePieces(benchmark::State& state) {
  const std::vector<uint8_t> payload = Payload(state);
  const Packet packet = Send(payload);
  FramePieces pieces;
  for ([[maybe_unused]] auto _ : state) {
    WritePieces({}, packet, nullptr, &pieces);
    benchmark::DoNotOptimize(pieces);
  }
  Report(state);
}
BENCHMARK(BM_WritePieces)->Arg(0)->Arg(1024)->Arg(4096);

// One payload to eight children, each frame with its own headers; without and with a shared payload CRC.
constexpr int kChildren = 8;

void BM_Replicate(benchmark::State& state) {
  const std::vector<uint8_t> payload = Payload(state);
  Packet packet = Send(payload);
  FramePieces pieces;
  for ([[maybe_unused]] auto _ : state) {
    for (int child = 0; child < kChildren; ++child) {
      packet.bth.dest_qp = Qpn{static_cast<uint32_t>(child)};
      WritePieces({}, packet, nullptr, &pieces);
      benchmark::DoNotOptimize(pieces);
    }
  }
  Report(state, kChildren);
}
BENCHMARK(BM_Replicate)->Arg(1024)->Arg(4096);

void BM_ReplicateWithPayloadCrc(benchmark::State& state) {
  const std::vector<uint8_t> payload = Payload(state);
  Packet packet = Send(payload);
  FramePieces pieces;
  const CrcShift shift(payload.size());
  for ([[maybe_unused]] auto _ : state) {
    const PayloadCrc crc = {&shift, Crc32(0, payload)};
    for (int child = 0; child < kChildren; ++child) {
      packet.bth.dest_qp = Qpn{static_cast<uint32_t>(child)};
      WritePieces({}, packet, &crc, &pieces);
      benchmark::DoNotOptimize(pieces);
    }
  }
  Report(state, kChildren);
}
BENCHMARK(BM_ReplicateWithPayloadCrc)->Arg(1024)->Arg(4096);

void BM_MakeCrcShift(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    const CrcShift shift(4096);
    benchmark::DoNotOptimize(shift);
  }
}
BENCHMARK(BM_MakeCrcShift);

}  // namespace
}  // namespace epic::roce
