// One rank that makes the calls of a list, checks every element and writes what happened as JSON lines. One
// process goes through any number of groups, so that a matrix of cases costs one process per rank:
//   {"pid": 17}
//   {"group": "g1", "path": "network", "calls": 60, "wrong": 0, "wrong_calls": []}
//   {"group": "g2", "path": "hosts", "calls": 3, "wrong": 0, "wrong_calls": [], "error": "mismatch",
//    "message": "..."}
// Exit status 0 if no element was wrong and every error was one that the list expects.
//
// The list is a JSON file, the same for all ranks:
//   [{"group": "g1", "mode": 2, "outstanding": 4, "error": "mismatch",
//     "calls": [{"collective": "reduce", "type": "half", "op": "sum", "count": 100, "root": 1, "in_place":
//     true,
//                "ranks": {"2": {"count": 101}}}]}]
// "ranks" overrides fields for one rank; "error" is the error that the group must end with on every rank. A
// group may have a "size", the ranks below which take part in it, a "path" (auto, network, hosts), and an
// "algorithm" (auto, doubling, ring, multicast).
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "bench/collective.h"
#include "epic/epic.h"

namespace epic::perf {
namespace {

using Json = nlohmann::json;

constexpr uint8_t kNothing = 0xee;

const std::map<std::string, PathChoice> kPaths = {
    {"auto", PathChoice::kAuto}, {"network", PathChoice::kNetwork}, {"hosts", PathChoice::kHosts}};
const std::map<std::string, HostAlgorithm> kAlgorithms = {{"auto", HostAlgorithm::kAuto},
                                                          {"doubling", HostAlgorithm::kDoubling},
                                                          {"ring", HostAlgorithm::kRing},
                                                          {"multicast", HostAlgorithm::kMulticast}};

void Say(const Json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

// A call with its buffers, from being made until it has been checked.
struct Pending {
  size_t number = 0;
  Job job;
  bool in_place = false;
  std::vector<uint8_t> send, recv;
  Buffers buffers;
  Request request;
};

class Rank {
 public:
  explicit Rank(const Options& options) : given_(options), options_(options) {}

  // All groups of the list, one after the other. True if everything was as it must be.
  bool Run(const Json& groups) {
    bool right = true;
    for (const Json& group : groups) right &= RunGroup(group);
    return right;
  }

 private:
  bool RunGroup(const Json& group) {
    options_ = given_;
    options_.group = group.at("group");
    options_.mode = group.value("mode", 0);
    options_.size = group.value("size", given_.size);
    if (options_.rank >= options_.size) return true;
    if (group.contains("path")) options_.path = kPaths.at(group["path"]);
    if (group.contains("algorithm")) options_.algorithm = kAlgorithms.at(group["algorithm"]);
    options_.quantise_int8 = group.value("quantise", "") == "int8";
    Communicator comm;
    calls_ = wrong_ = in_blocks_ = 0;
    wrong_calls_.clear();
    Error error = comm.Init(options_);
    const bool by_hosts = comm.Path().path == PathChoice::kHosts;
    DatagramCounts datagrams;
    if (error.ok()) {
      error = RunCalls(group, comm);
      datagrams = comm.Datagrams();
      const Error left = comm.Destroy();
      if (error.ok()) error = left;
    }
    Json line = {{"group", options_.group},
                 {"path", by_hosts ? "hosts" : "network"},
                 {"calls", calls_},
                 {"wrong", wrong_},
                 {"wrong_calls", wrong_calls_}};
    if (options_.quantise_int8) line["in_blocks"] = in_blocks_;
    if (datagrams.multicast) {
      line["datagrams"] = {{"expected", datagrams.expected}, {"came", datagrams.came},
                           {"read", datagrams.read},         {"stranger", datagrams.stranger},
                           {"stale", datagrams.stale},       {"alien", datagrams.alien},
                           {"length", datagrams.length},     {"again", datagrams.again}};
    }
    const std::string name = error.ok() ? "" : ErrorName(error.code());
    if (!error.ok()) {
      line["error"] = name;
      line["message"] = error.message();
    }
    Say(line);
    return wrong_ == 0 && name == group.value("error", "");
  }

  Error RunCalls(const Json& group, Communicator& comm) {
    const size_t outstanding = group.value("outstanding", size_t{1});
    std::deque<std::unique_ptr<Pending>> pending;
    Error error;
    size_t number = 0;
    for (const Json& call : group.at("calls")) {
      auto next = MakeCall(call, number++, comm);
      error = Start(next->job, next->buffers, comm, &next->request);
      if (!error.ok()) break;
      pending.push_back(std::move(next));
      if (pending.size() < outstanding) continue;
      error = FinishOne(&pending);
      if (!error.ok()) break;
    }
    while (!pending.empty()) {
      const Error e = FinishOne(&pending);
      if (error.ok()) error = e;
    }
    return error;
  }

  std::unique_ptr<Pending> MakeCall(Json call, size_t number, Communicator& comm) {
    const std::string self = std::to_string(options_.rank);
    if (call.contains("ranks") && call["ranks"].contains(self)) call.update(Json(call["ranks"][self]));
    auto pending = std::make_unique<Pending>();
    pending->number = number;
    Job& job = pending->job;
    job = {.kind = ParseKind(call.at("collective")).value(),
           .type = ParseType(call.value("type", "float")).value(),
           .op = ParseOp(call.value("op", "sum")).value(),
           .count = call.value("count", uint64_t{0}),
           .root = call.value("root", 0),
           .rank = options_.rank,
           .ranks = options_.size};
    const bool quantises = call.value("quantise", true);
    comm.SetQuantise(quantises);
    if (quantises) job.levels = LevelsOf(job, comm.Quantised());
    in_blocks_ += job.levels > 0 ? 1 : 0;
    pending->in_place = call.value("in_place", false);
    // Never empty, so that there is an address even for a call without elements.
    pending->recv.assign(job.total_bytes() + 8, kNothing);
    if (pending->in_place) {
      pending->buffers = InPlace(job, pending->recv.data());
    } else {
      pending->send.assign(job.total_bytes() + 8, kNothing);
      pending->buffers = {.send = pending->send.data(), .recv = pending->recv.data()};
    }
    Fill(job, static_cast<uint32_t>(number), pending->buffers.send);
    return pending;
  }

  // Waits for the oldest call and checks it: its result, and that nothing else of its buffer was touched.
  Error FinishOne(std::deque<std::unique_ptr<Pending>>* pending) {
    const std::unique_ptr<Pending> call = std::move(pending->front());
    pending->pop_front();
    if (Error e = call->request.Wait(); !e.ok()) return e;
    uint64_t wrong = Wrong(call->job, static_cast<uint32_t>(call->number), call->buffers.recv);
    const size_t end = call->in_place ? call->job.total_bytes() : call->job.recv_bytes();
    wrong += CountTouched(std::span(call->recv).subspan(end), kNothing);
    ++calls_;
    wrong_ += wrong;
    if (wrong > 0 && wrong_calls_.size() < 10) wrong_calls_.push_back(call->number);
    return {};
  }

  const Options given_;
  Options options_;  // of the group that runs
  uint64_t calls_ = 0, wrong_ = 0, in_blocks_ = 0;
  std::vector<size_t> wrong_calls_;
};

int Main(int argc, char** argv) {
  Options options;
  std::string path;
  int timeout_s = 60;
  CommandLine line("One rank of a test: the calls of a list, checked element by element, told as JSON lines");
  line.Add("--calls", &path, "The list, a JSON file").Required().ExistingFile();
  line.Add("--rank", &options.rank).Required();
  line.Add("--size", &options.size).Required();
  line.Add("--manager", &options.manager);
  line.Add("--timeout-s", &timeout_s, "Deadline of a call, and of joining");
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  options.timeout = options.join_timeout = std::chrono::seconds(timeout_s);
  Say({{"pid", getpid()}});
  std::ifstream file(path);
  try {
    return Rank(options).Run(Json::parse(file)) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "calls_rank: {}: {}\n", path, error.what());
    return 2;
  }
}

}  // namespace
}  // namespace epic::perf

int main(int argc, char** argv) { return epic::perf::Main(argc, argv); }
