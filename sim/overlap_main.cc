// epic-overlap: ReduceScatter of one group and AllGather of another on the same hosts and links, in virtual
// time, each alone and both at once (EPIC paper, Figure 14). Prints the table in bench/results/overlap.md.
#include <fmt/format.h>

#include <vector>

#include "base/command_line.h"
#include "sim/overlap.h"

namespace {

using epic::sim::MeasureOverlap;
using epic::sim::Overlap;
using epic::sim::OverlapConfig;

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

}  // namespace

int main(int argc, char** argv) {
  std::vector<uint64_t> sizes = {64 << 10, 512 << 10, 4 << 20};
  int calls = 8;
  int ranks = 8;
  epic::CommandLine line{
      "ReduceScatter of one group and AllGather of another on the same hosts, links of 100 Gbit/s and 1 us, "
      "each alone and both at once, in virtual time. Prints a table."};
  line.Add("--bytes", &sizes, "of all parts of a call together; one row for each").Delimiter(',');
  line.Add("--calls", &calls, "of each group, without a pause between them").From(1, 1000);
  line.Add("--ranks", &ranks, "on one switch").From(2, 64);
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;

  fmt::print(
      "| mode | ranks | calls x bytes | ReduceScatter, us | AllGather, us | both at once, us | of the sum "
      "| one after the other, Gbit/s | at once, Gbit/s |\n|---|---|---|---:|---:|---:|---:|---:|---:|\n");
  for (const epic::Mode mode : epic::AllModes()) {
    for (const uint64_t bytes : sizes) {
      const OverlapConfig config{
          .mode = mode, .tree = epic::sim::Star(ranks), .bytes = bytes, .calls = calls};
      const Overlap result = MeasureOverlap(config);
      if (!result.right) {
        fmt::print(stderr, "epic-overlap: mode {}, {} bytes: not finished, or a wrong result\n",
                   epic::NumberOf(mode), bytes);
        return 1;
      }
      PrintRow(config, result);
    }
  }
  return 0;
}
