#include "incengine/daemon/options.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <set>

#include "base/command_line.h"
#include "base/path_mtu.h"

namespace epic::daemon {
namespace {

constexpr size_t kMaxPorts = 256;
constexpr uint32_t kMaxCores = 16;

// Parsers: they change *out or return what is wrong.
std::string ParseIpv4(const std::string& text, Ipv4* out) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return fmt::format("{} is no IPv4 address", text);
  *out = Ipv4{ntohl(address.s_addr)};
  return {};
}

std::string ParseMac(const std::string& text, roce::MacAddress* out) {
  int end = 0;
  roce::MacAddress mac;
  const int fields = std::sscanf(text.c_str(), "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1],
                                 &mac[2], &mac[3], &mac[4], &mac[5], &end);
  if (fields != 6 || text.size() != 17 || end != 17) return fmt::format("{} is no MAC address", text);
  if ((mac[0] & 1) != 0) return fmt::format("{} is a group address", text);
  *out = mac;
  return {};
}

// A locally administered address that differs wherever the IP address does.
roce::MacAddress MacFor(Ipv4 address) {
  const uint32_t ip = Raw(address);
  return {0x02,
          0xe1,
          static_cast<uint8_t>(ip >> 24),
          static_cast<uint8_t>(ip >> 16),
          static_cast<uint8_t>(ip >> 8),
          static_cast<uint8_t>(ip)};
}

// Of two lists of names; an empty one stands for all.
std::string ParseAbilities(const std::string& types, const std::string& operations, Abilities* out) {
  Abilities has;
  has.turns = true;
  for (const TypeInfo& row : kDataTypes) {
    if (types.empty()) has.Add(row.type);
  }
  for (const OpInfo& row : kReduceOps) {
    if (operations.empty()) has.Add(row.op);
  }
  if (!types.empty()) {
    if (const std::string wrong = AddTypes(types, &has); !wrong.empty()) return "--types: " + wrong;
  }
  if (!operations.empty()) {
    if (const std::string wrong = AddOps(operations, &has); !wrong.empty()) return "--operations: " + wrong;
  }
  *out = has;
  return {};
}

std::string CheckPorts(const std::vector<std::string>& ports) {
  if (ports.size() > kMaxPorts) return fmt::format("--port: more than {} ports", kMaxPorts);
  std::set<std::string> seen;
  for (const std::string& port : ports) {
    if (!seen.insert(port).second) return fmt::format("--port: {} is there twice", port);
  }
  return {};
}

}  // namespace

ParseOutcome ParseOptions(int argc, char** argv, Options* options) {
  CommandLine line(
      "incengine: a switch that forwards Ethernet frames and sums RoCE collectives on their way.\n"
      "Needs CAP_NET_RAW; the interfaces must be up, with the offloads tso, gso and gro off at both ends,\n"
      "and tx as well, but on veths between switches, or a switch and a softnic host.\n");
  std::string address, mac, forwarding = "learning", types, operations;
  uint64_t sram = 16 << 20, spin_us = 200, ring_mb = 4, trace_limit = 64 << 20;
  options->log_level = "info";
  line.Add("--name", &options->name, "the switch's name in the topology").Required();
  line.Add("--address", &address, "its IPv4 address: RoCE endpoint, ARP, ping").Required();
  line.Add("--mac", &mac, "its MAC address (default: 02:e1: and the bytes of the address)");
  line.Add("--port", &options->ports.interfaces,
           "an interface that is a port; repeated, in the order of the port numbers")
      .Required()
      .OneValueEach();
  line.Add("--control", &options->control_path, "path of the Unix socket on which the agent controls it")
      .Required();
  line.Add("--cores", &options->cores,
           "threads of the data path; a group is on one of them, and --sram is divided among them")
      .From(uint32_t{1}, kMaxCores, "threads")
      .ShowDefault();
  line.Add("--sram", &sram, "buffer memory for all groups, for example 16M")
      .Bytes()
      .From(uint64_t{4096}, uint64_t{64} << 30, "bytes; 16M is 16777216")
      .ShowDefault();
  line.Add("--forwarding", &forwarding,
           "ordinary traffic: static (by the manager's entries only) or learning (as a bridge does)")
      .OneOf({"static", "learning"})
      .ShowDefault();
  line.Add("--spin-us", &spin_us, "poll for so long after traffic before sleeping, in microseconds")
      .From(uint64_t{0}, uint64_t{100000}, "microseconds")
      .ShowDefault();
  line.Add("--autogroup-nice", &options->autogroup_nice,
           "beside other sessions of this machine, where the kernel schedules by session: -20 (most of the "
           "processors) to 19, 0: as it is; below 0 takes CAP_SYS_NICE")
      .From(-20, 19, "a nice value")
      .ShowDefault();
  line.Add("--ring-mb", &ring_mb, "receive ring of each port and core in MiB; this memory cannot be swapped")
      .From(uint64_t{1}, uint64_t{1024}, "MiB")
      .ShowDefault();
  line.Add("--types", &types,
           "the element types that groups may have here, for example float32,int32 (default: all)");
  line.Add("--operations", &operations,
           "the operations, for example sum,max (default: all); calls that need others are refused, and "
           "the manager plans with what there is");
  line.Add("--max-payload", &options->config.max_payload,
           "bytes of payload that a packet of a group may have here at most; the manager plans with it")
      .OneOf(kPathMtus)
      .ShowDefault();
  line.AddFlag("--single-frames", &options->ports.single_frames,
               "each packet in a frame of its own: no super-frames, in or out");
  line.AddFlag("--check-config", &options->check_config,
               "say what super-frames the ports carry, and what is set wrongly, and exit: 0 if nothing is");
  line.Add("--log-level", &options->log_level, "what is logged to stderr")
      .OneOf({"trace", "debug", "info", "warn", "error", "off"})
      .ShowDefault();
  line.Add("--trace", &options->trace_path,
           "write what crosses the boundary of the engine to this file, for epic-conform; of core 1 and on, "
           "to files beside it, as trace.1.ndjson")
      .TypeName("FILE");
  line.Add("--trace-limit", &trace_limit, "cut each trace after so many bytes, for example 64M")
      .Bytes()
      .From(uint64_t{4096}, uint64_t{1} << 40, "bytes; 64M is 67108864")
      .ShowDefault();
  line.Version("incengine " EPIC_VERSION);
  if (const auto exit_code = line.Parse(argc, argv))
    return *exit_code == 0 ? ParseOutcome::kExitOk : ParseOutcome::kUsageError;

  std::string wrong = ParseIpv4(address, &options->config.address);
  options->config.mac = MacFor(options->config.address);
  if (wrong.empty() && !mac.empty()) wrong = ParseMac(mac, &options->config.mac);
  if (wrong.empty()) wrong = CheckPorts(options->ports.interfaces);
  if (wrong.empty()) wrong = ParseAbilities(types, operations, &options->config.abilities);
  if (!wrong.empty()) {
    std::cerr << "incengine: " << wrong << "\n";
    return ParseOutcome::kUsageError;
  }
  options->config.port_count = options->ports.interfaces.size();
  options->config.arena_bytes = sram;
  options->config.forwarding =
      forwarding == "static" ? engine::ForwardingMode::kStatic : engine::ForwardingMode::kLearning;
  options->spin_ns = static_cast<Nanos>(spin_us) * kMicrosecond;
  options->ports.ring_bytes = ring_mb << 20;
  options->trace_limit = trace_limit;
  return ParseOutcome::kRun;
}

}  // namespace epic::daemon
