// epic-overlap: ReduceScatter of one group and AllGather of another on the same hosts and links, in virtual
// time, each alone and both at once (EPIC paper, Figure 14), by the network or between the hosts. Prints the
// table in bench/results/overlap.md, or a JSON object for scripts/reproduce.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "sim/overlap.h"

namespace {

using epic::sim::MeasureOverlap;
using epic::sim::Overlap;
using epic::sim::OverlapConfig;
using epic::sim::OverlapWay;

std::optional<OverlapWay> WayNamed(const std::string& name) {
  if (name == "network") return OverlapWay::kNetwork;
  if (name == "ring") return OverlapWay::kRing;
  if (name == "multicast") return OverlapWay::kMulticast;
  return std::nullopt;
}

double Micros(epic::Nanos time) { return static_cast<double>(time) / 1e3; }

void PrintRow(const OverlapConfig& config, const Overlap& result) {
  const epic::Nanos sum = result.reduce_scatter + result.all_gather;
  const double bits = static_cast<double>(config.bytes) * 8 * config.calls;
  fmt::print("| {} | {} | {} x {} | {:.0f} | {:.0f} | {:.0f} | {:.2f} | {:.0f} | {:.0f} |\n",
             epic::NumeralOf(config.mode), config.tree.rank_switch.size(), config.calls, config.bytes,
             Micros(result.reduce_scatter), Micros(result.all_gather), Micros(result.both),
             static_cast<double>(result.both) / static_cast<double>(sum), 2 * bits / static_cast<double>(sum),
             2 * bits / static_cast<double>(result.both));
}

void PrintJson(const OverlapConfig& config, const Overlap& result, bool first) {
  fmt::print(
      "{}{{\"mode\": \"{}\", \"bytes\": {}, \"reduce_scatter\": {}, \"all_gather\": {}, \"both\": {}}}",
      first ? "{\"rows\": [" : ", ", epic::NumeralOf(config.mode), config.bytes, result.reduce_scatter,
      result.all_gather, result.both);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<uint64_t> sizes = {64 << 10, 512 << 10, 4 << 20};
  int calls = 8;
  int ranks = 8;
  double gigabits = 100;
  OverlapConfig config;
  std::string reduce_scatter = "network";
  std::string all_gather = "network";
  bool json = false;
  epic::CommandLine line{
      "ReduceScatter of one group and AllGather of another on the same hosts, links of 1 us, "
      "each alone and both at once, in virtual time. Prints a table."};
  line.Add("--bytes", &sizes, "of all parts of a call together; one row for each").Delimiter(',');
  line.Add("--calls", &calls, "of each group, without a pause between them").From(1, 1000);
  line.Add("--ranks", &ranks, "on one switch").From(2, 64);
  line.Add("--reduce-scatter", &reduce_scatter, "network, or ring: of the hosts").ShowDefault();
  line.Add("--all-gather", &all_gather, "network, ring or multicast").ShowDefault();
  line.Add("--message-packets", &config.message_packets, "of the network's groups: M")
      .From(1, 1024, "packets")
      .ShowDefault();
  line.Add("--window", &config.window_messages, "of the network's groups: W")
      .From(1, 1024, "messages")
      .ShowDefault();
  line.Add("--outstanding", &config.most_outstanding,
           "that a NIC sends ahead of acknowledgements; 0: 128, as rdma_rxe")
      .From(0, 65536, "packets")
      .ShowDefault();
  line.Add("--staging", &config.staging_chunks, "of multicast: receives for datagrams")
      .From(4, 65536, "receives")
      .ShowDefault();
  line.Add("--gbit", &gigabits, "of each direction of a link, Gbit/s")
      .From(0.001, 1000.0, "Gbit/s")
      .ShowDefault();
  line.AddFlag("--json", &json, "a JSON object; times in nanoseconds");
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;

  const std::optional<OverlapWay> scatter_way = WayNamed(reduce_scatter);
  const std::optional<OverlapWay> gather_way = WayNamed(all_gather);
  if (!scatter_way || !gather_way || *scatter_way == OverlapWay::kMulticast) {
    fmt::print(stderr, "epic-overlap: no such way of a ReduceScatter, or of an AllGather\n");
    return 2;
  }
  config.reduce_scatter = *scatter_way;
  config.all_gather = *gather_way;
  config.bits_per_second = static_cast<int64_t>(gigabits * 1e9);
  config.tree = epic::sim::Star(ranks);
  config.calls = calls;
  const bool by_network = *scatter_way == OverlapWay::kNetwork || *gather_way == OverlapWay::kNetwork;

  if (!json)
    fmt::print(
        "| mode | ranks | calls x bytes | ReduceScatter, us | AllGather, us | both at once, us | of the sum "
        "| one after the other, Gbit/s | at once, Gbit/s |\n|---|---|---|---:|---:|---:|---:|---:|---:|\n");
  bool first = true;
  for (const epic::Mode mode : epic::ModesOfOwnMemory()) {
    if (!first && !by_network) break;
    for (const uint64_t bytes : sizes) {
      config.mode = mode;
      config.bytes = bytes;
      const Overlap result = MeasureOverlap(config);
      if (!result.right) {
        fmt::print(stderr, "epic-overlap: mode {}, {} bytes: not finished, or a wrong result\n",
                   epic::NumberOf(mode), bytes);
        return 1;
      }
      if (json) {
        PrintJson(config, result, first);
      } else {
        PrintRow(config, result);
      }
      first = false;
    }
  }
  if (json) fmt::print("]}}\n");
  return 0;
}
