// What epic-perf prints: nccl-tests' columns, or one JSON object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/collective.h"

namespace epic::perf {

// One of the two halves of a row.
struct Measured {
  double time_us = 0;  // of one call, on the slowest rank
  // Of the calls of rank 0, one by one: so many percent took no longer. 0 where several are outstanding.
  double p50_us = 0, p99_9_us = 0;
  int64_t wrong = -1;  // elements, summed over ranks and verified runs; -1: not verified
  // Bytes of all timed calls at each rank's network device, by rank; empty: not counted.
  std::vector<uint64_t> sent, received;
  // Of each timed call at rank 0, µs, in order; empty: not kept, or several were outstanding.
  std::vector<double> each_us;
};

struct Row {
  Kind kind = Kind::kAllReduce;
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string type;   // "float"
  std::string redop;  // "sum"
  int root = -1;      // -1: it has none
  PathTaken path;     // that calls like these take
  Measured out_of_place;
  Measured in_place;
};

// The least of the times that at least `percent` of them do not exceed; 0 if there are none.
double Percentile(std::vector<double> times, double percent);

// GB/s (10^9).
double AlgorithmBandwidth(const Row& row, const Measured& half);
// What each link of a ring would have to carry (BusFactor).
double BusBandwidth(const Row& row, const Measured& half, int ranks);

class Report {
 public:
  // `collective` names what is run, for people.
  Report(std::string collective, std::string group, int ranks, int path_mtu, bool json)
      : collective_(std::move(collective)),
        group_(std::move(group)),
        ranks_(ranks),
        path_mtu_(path_mtu),
        json_(json) {}

  // The table as text, piece by piece; empty with JSON, which Footer prints as a whole.
  std::string Header() const;
  // Before the rows of one of several collectives.
  std::string Section(Kind kind) const;
  std::string Add(const Row& row);
  // Calls like those of the row, which has no figures, are refused for that reason.
  std::string Skip(const Row& row, std::string reason);
  bool has_rows() const { return !rows_.empty(); }
  std::string Footer() const;
  // What the switches had to send again or refuse, for the footer; without it nothing is said of that.
  void SetTrouble(std::vector<TroubleCount> trouble) { trouble_ = std::move(trouble); }
  // How the group quantises, and what has saturated at this rank, or how exact its results in blocks were,
  // for the footer.
  void SetQuantisation(const Quantisation& quantised, const Accuracy& accuracy) {
    quantised_ = quantised;
    accuracy_ = accuracy;
  }
  // Of all calls of this rank, warm-up included.
  void SetSharing(const Sharing& sharing) { sharing_ = sharing; }
  void SetDatagrams(const DatagramCounts& datagrams) { datagrams_ = datagrams; }

 private:
  std::string JsonText() const;
  int64_t Wrong() const;
  double AverageBusBandwidth() const;
  std::string TroubleText() const;
  std::string QuantisationText() const;
  std::string SharingText() const;
  std::string DatagramsText() const;

  std::string collective_;
  std::string group_;
  int ranks_;
  int path_mtu_;
  bool json_;
  std::vector<Row> rows_;
  std::vector<std::pair<Row, std::string>> skipped_;  // and why
  std::optional<std::vector<TroubleCount>> trouble_;
  std::optional<Quantisation> quantised_;
  Accuracy accuracy_;
  std::optional<Sharing> sharing_;
  std::optional<DatagramCounts> datagrams_;
};

}  // namespace epic::perf
