// epic-multicast: Broadcasts and AllGathers in virtual time, by multicast, around the ring of hosts, down a
// tree of them or by the network. Prints one JSON object; scripts/reproduce runs it.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "base/command_line.h"
#include "protocol/modes.h"
#include "sim/multicast_run.h"

namespace {

constexpr const char* kName = "epic-multicast";

// Nothing if there is no such way; else it is in the configuration.
bool SetWay(const std::string& way, epic::sim::MulticastRunConfig* config) {
  config->tree = epic::sim::HostTreeNamed(way);
  if (config->tree) return true;
  if (way == "multicast" || way == "ring") {
    config->algorithm = way == "ring" ? epic::Algorithm::kRing : epic::Algorithm::kMulticast;
    return true;
  }
  std::string number = way;
  if (!epic::OwnMemoryModeToNumber(number).empty()) return false;
  config->mode = epic::ModeOfNumber(std::stoi(number));
  return config->mode.has_value();
}

}  // namespace

int main(int argc, char** argv) {
  epic::sim::MulticastRunConfig config;
  std::string way = "multicast";
  std::string collective = "allgather";
  double gigabits = 56;
  double loss = 0;
  epic::CommandLine line{
      "Broadcasts or AllGathers of one group in virtual time, behind a short one. Prints time, bytes and "
      "what "
      "became of datagrams as a JSON object. Exit status: 0 all right, 1 a wrong result, 2 usage.",
      kName};
  line.Add("--hosts", &config.hosts, "with a rank each").From(2, 512, "hosts").ShowDefault();
  line.Add("--leaves", &config.leaves, "that share the hosts; 1: one switch alone")
      .From(1, 64, "switches")
      .ShowDefault();
  line.Add("--spines", &config.spines, "above all leaves").From(1, 64, "switches").ShowDefault();
  line.Add("--collective", &collective, "allgather or broadcast").ShowDefault();
  line.Add("--way", &way,
           "multicast, ring; a Broadcast down a tree of hosts: binomial, 4-nomial, binary-heap; or by the "
           "network: " +
               epic::ModeChoice())
      .ShowDefault();
  line.Add("--segment", &config.segment_bytes,
           "of a message down a tree, which is passed on when it has come")
      .From(1, 1 << 30, "bytes")
      .ShowDefault();
  line.Add("--bytes", &config.bytes, "of each part").ShowDefault();
  line.Add("--calls", &config.calls, "one behind the other").From(1, 100'000, "calls").ShowDefault();
  line.Add("--path-mtu", &config.path_mtu, "payload of a packet, bytes").ShowDefault();
  line.Add("--staging", &config.staging_chunks, "receives for datagrams")
      .From(1, 65536, "receives")
      .ShowDefault();
  line.Add("--tokens", &config.tokens, "of a call").From(1, 4, "tokens").ShowDefault();
  line.Add("--addresses", &config.addresses, "a block of each part goes to each, over a spine of its own")
      .From(1, 16, "addresses")
      .ShowDefault();
  line.AddFlag("--agree-by-switches", &config.agrees_by_switches,
               "and not by messages from host to host: that all have made the call");
  line.Add("--link-delay-ns", &config.link_delay_ns, "of a link")
      .From(0, 1'000'000, "nanoseconds")
      .ShowDefault();
  line.Add("--gbit", &gigabits, "of each direction of a link, Gbit/s")
      .From(0.001, 1000.0, "Gbit/s")
      .ShowDefault();
  line.Add("--slow-ns", &config.slow_ns, "that a datagram takes of one rank's process")
      .From(0, 1'000'000, "nanoseconds")
      .ShowDefault();
  line.Add("--loss", &loss, "share of packets that each link loses").From(0.0, 1.0, "of all").ShowDefault();
  line.Add("--burst", &config.burst, "packets lost in a row").From(1, 1000, "packets").ShowDefault();
  line.AddFlag("--lose-all", &config.loses_all, "not only datagrams, but packets of connections, too");
  line.Add("--seed", &config.seed, "of losses").ShowDefault();
  if (const auto exit_code = line.Parse(argc, argv, 2)) return *exit_code;
  const bool is_broadcast = collective == "broadcast";
  if ((!is_broadcast && collective != "allgather") || !SetWay(way, &config)) {
    fmt::print(stderr, "{}: no such collective, or way\n", kName);
    return 2;
  }
  config.collective = is_broadcast ? epic::Collective::kBroadcast : epic::Collective::kAllGather;
  config.bits_per_second = static_cast<int64_t>(gigabits * 1e9);
  config.loss_ppb = std::llround(loss * 1e9);
  if (const epic::Status valid = Validate(config); !valid.ok()) {
    fmt::print(stderr, "{}: {}\n", kName, std::string(valid.message()));
    return 2;
  }
  const epic::sim::MulticastRun run = RunMulticast(config);
  if (!run.right) {
    fmt::print(stderr, "{}: not finished, or a wrong result\n", kName);
    return 1;
  }
  fmt::print("{{\"picoseconds\": {}, \"before\": {}, \"behind\": {}, \"links\": {}, \"host_links\": {}, ",
             run.time, run.before, run.behind, run.links, run.host_links);
  fmt::print("\"lost\": {}, \"unposted\": {}, \"expected\": {}, \"came\": {}, \"read\": {}}}\n", run.lost,
             run.unposted, run.expected, run.came, run.read);
  return 0;
}
