#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.h"

namespace epic::perf {
namespace {

std::string TimeText(double us) {
  if (us >= 10000) return fmt::format("{:.0f}", us);
  return us >= 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.2f}", us);
}

// As EPIC_PATH has it.
const char* NameOf(PathChoice path) { return path == PathChoice::kHosts ? "hosts" : "network"; }

std::string HalfText(const Row& row, const Measured& half, int ranks) {
  const std::string wrong = half.wrong < 0 ? "N/A" : std::to_string(half.wrong);
  return fmt::format("  {:>7}  {:6.2f}  {:6.2f}  {:>5}", TimeText(half.time_us),
                     AlgorithmBandwidth(row, half), BusBandwidth(row, half, ranks), wrong);
}

nlohmann::json HalfJson(const Row& row, const Measured& half, int ranks) {
  nlohmann::json json = {{"time_us", half.time_us},
                         {"algbw", AlgorithmBandwidth(row, half)},
                         {"busbw", BusBandwidth(row, half, ranks)}};
  if (half.p50_us > 0) {
    json["p50_us"] = half.p50_us;
    json["p99_9_us"] = half.p99_9_us;
  }
  json["wrong"] = half.wrong < 0 ? nlohmann::json() : nlohmann::json(half.wrong);
  if (!half.each_us.empty()) json["each_us"] = half.each_us;
  if (!half.sent.empty()) {
    json["sent_bytes"] = half.sent;
    json["received_bytes"] = half.received;
  }
  return json;
}

}  // namespace

double Percentile(std::vector<double> times, double percent) {
  if (times.empty()) return 0;
  // 99.9 is a little more than 99.9 in binary.
  const double wanted = std::ceil(static_cast<double>(times.size()) * percent / 100 - 1e-9);
  const auto at = static_cast<size_t>(std::max(wanted, 1.0)) - 1;
  std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(at));
  return times[at];
}

double AlgorithmBandwidth(const Row& row, const Measured& half) {
  return half.time_us > 0 ? static_cast<double>(row.bytes) / half.time_us / 1000 : 0;
}

double BusBandwidth(const Row& row, const Measured& half, int ranks) {
  return AlgorithmBandwidth(row, half) * BusFactor(row.kind, ranks);
}

std::string Report::Header() const {
  if (json_) return {};
  std::string text = fmt::format("# epic-perf: {} over {}, group {}, path MTU {}\n#\n", collective_,
                                 Counted(static_cast<uint64_t>(ranks_), "rank"), group_, path_mtu_);
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place\n", "", "",
      "", "", "");
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}  {:>7}  {:>6}  {:>6} {:>6}  {:>7}\n",
      "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
      "#wrong", "path");
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}  {:>7}  {:>6}  {:>6} {:>6}\n", "(B)",
      "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  return text;
}

std::string Report::Section(Kind kind) const { return json_ ? "" : fmt::format("# {}\n", Name(kind)); }

std::string Report::Add(const Row& row) {
  rows_.push_back(row);
  if (json_) return {};
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:>7}\n", row.bytes, row.count, row.type,
                     row.redop, row.root, HalfText(row, row.out_of_place, ranks_),
                     HalfText(row, row.in_place, ranks_), NameOf(row.path.path));
}

std::string Report::Skip(const Row& row, std::string reason) {
  std::string line = fmt::format("# left out: {} {} {}: {}\n", Name(row.kind), row.type, row.redop, reason);
  skipped_.emplace_back(row, std::move(reason));
  return json_ ? std::string() : line;
}

std::string Report::Footer() const {
  if (json_) return JsonText();
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n{}{}{}{}#\n", Wrong(),
                     Wrong() == 0 ? "OK" : "FAILED", AverageBusBandwidth(), QuantisationText(), SharingText(),
                     DatagramsText(), TroubleText());
}

std::string Report::DatagramsText() const {
  if (!datagrams_) return {};
  const DatagramCounts& d = *datagrams_;
  const uint64_t dropped = d.stranger + d.stale + d.alien + d.length + d.again;
  return fmt::format(
      "# Datagrams            : {} of {} came, {} read from the neighbour, {} dropped (rank 0)\n", d.came,
      d.expected, d.read, dropped);
}

std::string Report::SharingText() const {
  if (!sharing_) return {};
  const uint64_t calls = sharing_->granted + sharing_->busy;
  return fmt::format("# Memory shared        : {} of {} calls found it taken, and went by the hosts\n",
                     sharing_->busy, calls);
}

std::string Report::QuantisationText() const {
  if (!quantised_) return {};
  if (quantised_->int8) {
    const std::string levels = Counted(static_cast<uint64_t>(quantised_->levels), "level") + " of blocks";
    if (accuracy_.signal == 0) return fmt::format("# Blocks of int8       : none were checked\n");
    return fmt::format(
        "# Blocks of int8       : SQNR {:.2f} dB, largest error {:.3f} of the bound, {} (rank 0)\n",
        accuracy_.Sqnr(), accuracy_.worst, levels);
  }
  return fmt::format("# Saturated, times {}: {} of inputs, {} of results\n", quantised_->scale,
                     quantised_->saturated_inputs, quantised_->saturated_results);
}

std::string Report::TroubleText() const {
  if (!trouble_) return {};
  std::vector<std::string> words;
  for (const TroubleCount& one : *trouble_) {
    const bool same = !words.empty() && words.back().starts_with(one.switch_name + " ");
    const std::string words_of = fmt::format("{} {}", one.what, one.count);
    same ? words.back() += ", " + words_of : words.emplace_back(one.switch_name + " " + words_of);
  }
  return fmt::format("# Sent again, refused  : {}\n",
                     words.empty() ? "nothing" : fmt::format("{}", fmt::join(words, "; ")));
}

int64_t Report::Wrong() const {
  int64_t wrong = 0;
  for (const Row& row : rows_) {
    wrong += std::max<int64_t>(0, row.out_of_place.wrong) + std::max<int64_t>(0, row.in_place.wrong);
  }
  return wrong;
}

double Report::AverageBusBandwidth() const {
  double sum = 0;
  for (const Row& row : rows_) {
    sum += BusBandwidth(row, row.out_of_place, ranks_) + BusBandwidth(row, row.in_place, ranks_);
  }
  return rows_.empty() ? 0 : sum / (2 * static_cast<double>(rows_.size()));
}

std::string Report::JsonText() const {
  nlohmann::json json = {{"collective", collective_},
                         {"group", group_},
                         {"ranks", ranks_},
                         {"path_mtu", path_mtu_},
                         {"out_of_bounds", Wrong()},
                         {"avg_busbw", AverageBusBandwidth()},
                         {"results", nlohmann::json::array()}};
  if (quantised_ && quantised_->int8) {
    json["blocks"] = {{"levels", quantised_->levels}, {"plain_bytes", quantised_->plain_bytes}};
    if (accuracy_.signal != 0) {
      json["blocks"]["sqnr_db"] = accuracy_.Sqnr();
      json["blocks"]["worst"] = accuracy_.worst;
    }
  } else if (quantised_) {
    json["quantised"] = {{"scale", quantised_->scale},
                         {"saturated_inputs", quantised_->saturated_inputs},
                         {"saturated_results", quantised_->saturated_results}};
  }
  if (datagrams_) {
    json["datagrams"] = {{"expected", datagrams_->expected}, {"came", datagrams_->came},
                         {"read", datagrams_->read},         {"stranger", datagrams_->stranger},
                         {"stale", datagrams_->stale},       {"alien", datagrams_->alien},
                         {"length", datagrams_->length},     {"again", datagrams_->again}};
  }
  if (sharing_) json["sharing"] = {{"granted", sharing_->granted}, {"busy", sharing_->busy}};
  if (trouble_) {
    json["trouble"] = nlohmann::json::object();
    for (const TroubleCount& one : *trouble_) json["trouble"][one.switch_name][one.what] = one.count;
  }
  for (const Row& row : rows_) {
    json["results"].push_back({{"collective", Name(row.kind)},
                               {"size", row.bytes},
                               {"count", row.count},
                               {"type", row.type},
                               {"redop", row.redop},
                               {"root", row.root},
                               {"path", NameOf(row.path.path)},
                               {"out_of_place", HalfJson(row, row.out_of_place, ranks_)},
                               {"in_place", HalfJson(row, row.in_place, ranks_)}});
    if (!row.path.reason.empty()) json["results"].back()["path_reason"] = row.path.reason;
  }
  for (const auto& [row, reason] : skipped_) {
    json["left_out"].push_back(
        {{"collective", Name(row.kind)}, {"type", row.type}, {"redop", row.redop}, {"reason", reason}});
  }
  return json.dump(2) + "\n";
}

}  // namespace epic::perf
