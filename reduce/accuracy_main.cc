// epic-accuracy: how exact an AllReduce of quantised numbers is by switches and between hosts. Prints a
// table, or a JSON object for scripts/reproduce.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "reduce/accuracy.h"

namespace {

void PrintCells(const epic::Accuracy& a) {
  fmt::print(" {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", a.one_switch, a.two_levels, a.ring_exact,
             a.ring, a.doubling);
}

// JSON has no infinity.
std::string Decibels(double sqnr) { return std::isfinite(sqnr) ? fmt::format("{:.2f}", sqnr) : "null"; }

void PrintMembers(const epic::Accuracy& a) {
  fmt::print("\"one_switch\": {}, \"two_levels\": {}, \"ring_exact\": {}, \"ring\": {}, \"doubling\": {}}}",
             Decibels(a.one_switch), Decibels(a.two_levels), Decibels(a.ring_exact), Decibels(a.ring),
             Decibels(a.doubling));
}

std::string NamesOfDistributions() {
  std::string names;
  for (const epic::Distribution d : epic::kDistributions)
    names += (names.empty() ? "" : ", ") + std::string(NameOf(d));
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> distributions;
  std::vector<int> ranks = {8};
  std::vector<uint64_t> blocks = {32, 62, 128, 256, 512};
  std::vector<int> bits = {8, 4};
  uint64_t elements = 62 * 1024;
  uint64_t seed = 1;
  bool json = false;
  for (const epic::Distribution d : epic::kDistributions) distributions.emplace_back(NameOf(d));
  epic::CommandLine line{
      "The signal-to-quantisation-noise ratio, in dB, of an AllReduce of random numbers as blocks of whole "
      "numbers "
      "with a scale in BF16: by one switch, by switches with two ranks each below one, around a ring whose "
      "ranks "
      "add their own numbers as they are, around one whose ranks combine two blocks, and by recursive "
      "doubling. "
      "62 INT8 are the blocks of EPIC. Prints a table, the same on every machine."};
  line.Add("--distribution", &distributions, NamesOfDistributions() + "; several with commas, all by default")
      .Delimiter(',')
      .TypeName("NAMES");
  line.Add("--ranks", &ranks, "2 to 64; several with commas")
      .Delimiter(',')
      .From(2, 64, "ranks")
      .ShowDefault();
  line.Add("--block", &blocks, "elements of a block; several with commas")
      .Delimiter(',')
      .From(uint64_t{1}, uint64_t{1 << 20}, "elements")
      .ShowDefault();
  line.Add("--bits", &bits, "of a whole number, 2 to 8; several with commas")
      .Delimiter(',')
      .From(2, 8, "bits")
      .ShowDefault();
  line.Add("--elements", &elements, "of each rank")
      .From(uint64_t{1}, uint64_t{1 << 24}, "elements")
      .ShowDefault();
  line.Add("--seed", &seed, "of the numbers").ShowDefault();
  line.AddFlag("--json", &json, "a JSON object");
  if (const auto exit_code = line.Parse(argc, argv, 2)) return *exit_code;

  for (const std::string& name : distributions) {
    if (epic::DistributionNamed(name)) continue;
    fmt::print(stderr, "epic-accuracy: --distribution {}: not one of {}\n", name, NamesOfDistributions());
    return 2;
  }
  if (!json)
    fmt::print(
        "| distribution | ranks | block | bits | one switch | two levels | ring, own part exact | ring | "
        "doubling |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  const char* before = "{\"rows\": [";
  for (const std::string& name : distributions) {
    for (const int n : ranks) {
      const epic::Operands operands = DrawOperands(*epic::DistributionNamed(name), n, elements, seed);
      for (const int b : bits) {
        for (const uint64_t block : blocks) {
          const epic::Accuracy accuracy =
              epic::MeasureAccuracy(operands, epic::BlockForm{.elements = block, .bits = b});
          if (json) {
            fmt::print("{}{{\"distribution\": \"{}\", \"ranks\": {}, \"block\": {}, \"bits\": {}, ", before,
                       name, n, block, b);
            PrintMembers(accuracy);
          } else {
            fmt::print("| {} | {} | {} | {} |", name, n, block, b);
            PrintCells(accuracy);
          }
          before = ", ";
        }
      }
    }
  }
  if (json) fmt::print("]}}\n");
  return 0;
}
