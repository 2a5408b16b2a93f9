// One rank that is in many groups at once: it joins PREFIX0, PREFIX1, ... one after the other, then makes an
// AllReduce in each, all of them outstanding, and holds the groups until it is told to leave them. Writes
// JSON lines:
//   {"pid": 17}
//   {"groups": 1000, "by_network": 1000, "wrong": 0}   once every sum is there; then it awaits SIGUSR1
//   {"left": 1000}
//   {"error": "no resource", "message": "...", "group": "g7"}   instead, and exit status 1
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "epic/epic.h"

namespace {

struct Flags {
  epic::Options join;
  std::string prefix;
  int groups = 1;
  size_t count = 256;
};

void Say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

int Fail(const epic::Error& error, const std::string& group) {
  std::string message = error.message();
  std::ranges::replace(message, '"', '\'');
  Say(fmt::format("{{\"error\": \"{}\", \"message\": \"{}\", \"group\": \"{}\"}}",
                  epic::ErrorName(error.code()), message, group));
  return 1;
}

int Run(const Flags& flags) {
  // Before there is another thread that the signal could end, and before anybody knows the process.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Say(fmt::format("{{\"pid\": {}}}", getpid()));
  const auto name = [&flags](size_t group) { return flags.prefix + std::to_string(group); };
  std::vector<epic::Communicator> groups(static_cast<size_t>(flags.groups));
  int by_network = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    epic::Options join = flags.join;
    join.group = name(g);
    if (const epic::Error error = groups[g].Init(join); !error.ok()) return Fail(error, name(g));
    by_network += groups[g].Path().path == epic::PathChoice::kNetwork ? 1 : 0;
  }
  // Sums differ from group to group and from element to element.
  std::vector<std::vector<uint32_t>> data(groups.size());
  std::vector<epic::Request> requests(groups.size());
  const auto share = [&flags](size_t g, size_t i, int rank) {
    return static_cast<uint32_t>((g * flags.count + i) * 7 + static_cast<size_t>(rank));
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < flags.count; ++i) data[g].push_back(share(g, i, flags.join.rank));
    const epic::Error error =
        epic::AllReduceAsync(data[g].data(), data[g].data(), flags.count, epic::Datatype::kUint32,
                             epic::RedOp::kSum, groups[g], &requests[g]);
    if (!error.ok()) return Fail(error, name(g));
  }
  uint64_t wrong = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (const epic::Error error = requests[g].Wait(); !error.ok()) return Fail(error, name(g));
    for (size_t i = 0; i < flags.count; ++i) {
      uint32_t sum = 0;
      for (int rank = 0; rank < flags.join.size; ++rank) sum += share(g, i, rank);
      wrong += data[g][i] != sum ? 1 : 0;
    }
  }
  Say(fmt::format("{{\"groups\": {}, \"by_network\": {}, \"wrong\": {}}}", groups.size(), by_network, wrong));
  int signum = 0;
  sigwait(&signals, &signum);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (const epic::Error error = groups[g].Destroy(); !error.ok()) return Fail(error, name(g));
  }
  Say(fmt::format("{{\"left\": {}}}", groups.size()));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  epic::CommandLine line("One rank of a test: in many groups at once, told as JSON lines");
  line.Add("--prefix", &flags.prefix, "of the groups' names, which are numbered from 0 on").Required();
  line.Add("--rank", &flags.join.rank).Required();
  line.Add("--size", &flags.join.size).Required();
  line.Add("--groups", &flags.groups).Required();
  line.Add("--count", &flags.count, "elements of 4 bytes of each AllReduce");
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  return Run(flags);
}
