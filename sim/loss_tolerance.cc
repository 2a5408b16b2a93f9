// epic-loss-tolerance: goodput of AllReduce in each mode on lossy links, in virtual time. The same
// code as in the daemon and the host library; eight hosts on one switch, as in the EPIC paper's tables 31
// and 32. The same arguments print the same lines on every machine.
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/path_mtu.h"
#include "protocol/modes.h"
#include "sim/world.h"

namespace {

using epic::kMicrosecond;
using epic::kSecond;
using epic::Nanos;
using epic::engine::Mode;
using epic::sim::Fate;
using epic::sim::LinkPacket;
using epic::sim::World;

constexpr int kRanks = 8;

struct Options {
  uint64_t loss_ppm = 0;
  int lossy_links = kRanks;
  std::vector<int> modes = {2, 3};
  std::vector<uint64_t> seeds = {1, 2, 3};
  size_t bytes = 16 << 20;
  uint32_t path_mtu = 4096;
  uint32_t message_packets = 8;
  uint32_t window_messages = 8;
  Nanos prompt_us = 100;
  int host_timeout = 7;
};

struct Result {
  bool right = false;
  Nanos took = 0;
  int64_t packets = 0;
  int64_t lost = 0;
  uint64_t rnr_naks = 0;
  uint64_t naks = 0;
  uint64_t repeats = 0;
};

std::vector<uint8_t> Input(int rank, size_t words) {
  std::vector<uint8_t> bytes(words * 4);
  for (size_t i = 0; i < words; ++i) {
    const auto word = static_cast<uint32_t>(i * 2654435761u) << rank;
    std::memcpy(bytes.data() + i * 4, &word, 4);
  }
  return bytes;
}

Result Run(Mode mode, const Options& options, uint64_t seed) {
  World world({.mode = mode,
               .tree = epic::sim::Star(kRanks),
               .path_mtu = options.path_mtu,
               .message_packets = options.message_packets,
               .window_messages = options.window_messages,
               .link_delay_ns = kMicrosecond,
               .bits_per_second = 100'000'000'000,
               .prompt_ns = options.prompt_us * kMicrosecond,
               .host_timeout = static_cast<uint8_t>(options.host_timeout),
               .arena_bytes = 16 << 20},
              seed);
  Result result;
  // Both directions of the first links, every kind of packet: data, ACKs and NAKs.
  world.SetFaultRule([&](const LinkPacket& p) {
    const int rank = std::max(p.from, p.to) - world.node_of_rank(0);
    if (rank >= options.lossy_links || !world.choices().Chance(options.loss_ppm)) return Fate::kDeliver;
    ++result.lost;
    return Fate::kDrop;
  });
  const size_t words = options.bytes / 4;
  std::vector<std::vector<uint8_t>> send;
  std::vector<std::vector<uint8_t>> recv;
  for (int r = 0; r < kRanks; ++r) {
    send.push_back(Input(r, words));
    recv.emplace_back(words * 4);
  }
  for (int r = 0; r < kRanks; ++r) {
    world.host(r).AllReduce(epic::DataType::kInt32, send[static_cast<size_t>(r)],
                            recv[static_cast<size_t>(r)]);
  }
  const auto done = [&] {
    for (int r = 0; r < kRanks; ++r) {
      if (!world.host(r).all_done()) return false;
    }
    return true;
  };
  result.right = world.RunUntil(done, 1000 * kSecond);
  std::vector<uint8_t> want(words * 4);
  for (size_t i = 0; i < words; ++i) {
    const auto word = static_cast<uint32_t>(i * 2654435761u) * ((1u << kRanks) - 1);
    std::memcpy(want.data() + i * 4, &word, 4);
  }
  for (const auto& got : recv) result.right = result.right && got == want;
  result.took = world.now();
  result.packets = world.packets();
  const auto& context = world.context(0);
  for (const auto& child : context.children) {
    result.rnr_naks += child.counters.rnr_naks_sent;
    result.naks += child.counters.naks_sent;
  }
  result.repeats = context.counters.repeats;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  epic::CommandLine line{
      "Goodput of AllReduce (bytes of one rank over the time until the last rank is done) of 8 ranks on one "
      "switch, links of 100 Gbit/s and 1 us, in virtual time. Prints CSV."};
  line.Add("--modes", &options.modes, "default 2,3; there are " + epic::ModeChoice())
      .Delimiter(',')
      .Changed(epic::OwnMemoryModeToNumber);
  line.Add("--loss-ppm", &options.loss_ppm, "packets lost per million, each direction of a lossy link")
      .From(0, 500'000);
  line.Add("--lossy-links", &options.lossy_links, "how many of the 8 links lose packets").From(0, kRanks);
  line.Add("--seeds", &options.seeds, "one run for each").Delimiter(',');
  line.Add("--bytes", &options.bytes, "of each rank's vector, a multiple of 4")
      .From(size_t{4}, size_t{1} << 28);
  line.Add("--mtu", &options.path_mtu, "path MTU").OneOf(epic::kPathMtus);
  line.Add("--message-packets", &options.message_packets, "M").From(1, 64);
  line.Add("--window", &options.window_messages, "W").From(1, 64);
  line.Add("--prompt-us", &options.prompt_us, "prompt and resend interval of the switch, microseconds")
      .From(1, 1'000'000);
  line.Add("--host-timeout", &options.host_timeout, "of the hosts' NICs: 4.096 us * 2^this").From(1, 31);
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  options.bytes -= options.bytes % 4;

  fmt::print("mode,loss_ppm,lossy_links,seed,gbit_per_s,microseconds,packets,lost,naks,rnr_naks,repeats\n");
  for (const int number : options.modes) {
    const auto mode = static_cast<Mode>(number);
    for (const uint64_t seed : options.seeds) {
      const Result r = Run(mode, options, seed);
      if (!r.right) {
        fmt::print(stderr, "epic-loss-tolerance: mode {}, seed {}: not finished, or a wrong result\n", number,
                   seed);
        return 1;
      }
      fmt::print("{},{},{},{},{:.2f},{:.1f},{},{},{},{},{}\n", number, options.loss_ppm, options.lossy_links,
                 seed, static_cast<double>(options.bytes) * 8.0 / static_cast<double>(r.took),
                 static_cast<double>(r.took) / 1e3, r.packets, r.lost, r.naks, r.rnr_naks, r.repeats);
    }
  }
  return 0;
}
