#include "incengine/daemon/options.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <set>

#include "base/command_line.h"
#include "base/path_mtu.h"
#include "protocol/context_memory.h"

namespace epic::daemon {
namespace {

constexpr size_t kMaxPorts = 256;
constexpr uint32_t kMaxCores = 16;
// What packets of 4096 bytes of payload take, as on other ports (docs/DEPLOY.md, "MTU").
constexpr uint32_t kDefaultDpdkMtu = 4200;

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
  has.priorities = true;
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

// Of "swp1=net_memif0,socket=..." the name stays among the interfaces, and the rest is its device.
std::string TakeDevices(std::vector<std::string>* ports, std::optional<io::DpdkOptions>* dpdk) {
  for (std::string& port : *ports) {
    const size_t equals = port.find('=');
    if (equals == std::string::npos) continue;
    if (!*dpdk) return fmt::format("--port {}: a device instead of an interface takes --io dpdk", port);
    if (equals == 0 || equals + 1 == port.size())
      return fmt::format("--port {}: is not NAME=DEVICE, as swp1=net_memif0,socket=/run/epic/swp1.sock",
                         port);
    (*dpdk)->devices.push_back({.name = port.substr(0, equals), .device = port.substr(equals + 1)});
    port.resize(equals);
  }
  if (*dpdk && (*dpdk)->devices.empty()) return "--io dpdk: no --port has a device, as swp1=0000:3b:00.0";
  return {};
}

// A group in mode V with the windows that a manager gives.
constexpr size_t kLeastBesidePool = 10 << 10;

// As users say them.
struct PoolOptions {
  std::optional<uint64_t> bytes;   // none: no pool
  std::string addressing, policy;  // empty: as the engine has it by itself
  uint32_t age_ms = 0;
};

// Of each core the same part, as of the rest of its memory.
std::string ParsePool(const PoolOptions& asked, uint32_t cores, engine::SwitchConfig* config) {
  if (!asked.bytes) {
    if (asked.addressing.empty() && asked.policy.empty() && asked.age_ms == 0) return {};
    return "--pool-addressing, --pool-policy and --pool-age take --pool";
  }
  engine::PoolConfig pool{.bytes = *asked.bytes, .buffer_bytes = 2 * config->max_payload};
  if (asked.addressing == Name(engine::PoolAddressing::kHash))
    pool.addressing = engine::PoolAddressing::kHash;
  for (const engine::PoolPolicy policy : engine::kPoolPolicies) {
    if (asked.policy == Name(policy)) pool.policy = policy;
  }
  pool.age = static_cast<Nanos>(asked.age_ms) * kMillisecond;
  engine::PoolConfig of_core = pool;
  of_core.bytes /= cores;
  const std::string which = cores == 1 ? "" : fmt::format(", of each of {} cores", cores);
  if (const Status valid = Validate(of_core, config->arena_bytes / cores); !valid.ok())
    return fmt::format("--{}{}", std::string(valid.message()), which);
  const size_t left = config->arena_bytes / cores - RoundUpToArena(of_core.bytes);
  if (left < kLeastBesidePool) {
    return fmt::format(
        "--pool: {} bytes leave {} of the {} of --sram; a group takes some {} of its own beside it{}",
        of_core.bytes, left, config->arena_bytes / cores, kLeastBesidePool, which);
  }
  config->pool = pool;
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
  std::string address, mac, forwarding = "learning", types, operations, io_kind = "kernel", eal_arguments;
  uint32_t dpdk_mtu = kDefaultDpdkMtu;
  bool poll = false;
  uint64_t sram = 16 << 20, spin_us = 200, ring_mb = 4, trace_limit = 64 << 20;
  PoolOptions pool;
  options->log_level = "info";
  line.Add("--name", &options->name, "the switch's name in the topology").Required();
  line.Add("--address", &address, "its IPv4 address: RoCE endpoint, ARP, ping").Required();
  line.Add("--mac", &mac, "its MAC address (default: 02:e1: and the bytes of the address)");
  line.Add("--port", &options->ports.interfaces,
           "an interface that is a port; repeated, in the order of the port numbers. With --io dpdk also "
           "NAME=DEVICE: swp1=0000:3b:00.0, swp1=net_memif0,socket=/run/epic/swp1.sock")
      .Required()
      .OneValueEach();
  line.Add("--io", &io_kind, "what ports may be: kernel (its interfaces) or dpdk (devices of DPDK as well)")
      .OneOf({"kernel", "dpdk"})
      .ShowDefault();
  line.Add("--dpdk-args", &eal_arguments, "arguments for DPDK's own start (EAL), for example \"-m 512\"")
      .TypeName("ARGS");
  line.Add("--dpdk-mtu", &dpdk_mtu, "the MTU of DPDK's ports, where their devices carry so much")
      .From(uint32_t{256}, uint32_t{9600}, "bytes")
      .ShowDefault();
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
  line.Add("--pool", &pool.bytes,
           "of --sram, for groups in mode V, which share it: for example 4M (default: none, and no mode V)")
      .Bytes();
  line.Add("--pool-addressing", &pool.addressing,
           "which place of the pool a packet may have: any, or the one that a hash of group and packet names "
           "(default: any)")
      .OneOf({"any", "hash"});
  line.Add("--pool-policy", &pool.policy,
           "which packet has a place that two groups want: of higher priority, the first, the last, or by a "
           "throw (default: priority)")
      .OneOf({"priority", "fcfs", "always", "coin"});
  line.Add("--pool-age", &pool.age_ms,
           "with policy priority: a place that is older loses to any other group, in milliseconds; 0: never")
      .From(uint32_t{0}, uint32_t{3'600'000}, "milliseconds")
      .ShowDefault();
  line.Add("--forwarding", &forwarding,
           "ordinary traffic: static (by the manager's entries only) or learning (as a bridge does)")
      .OneOf({"static", "learning"})
      .ShowDefault();
  line.Add("--spin-us", &spin_us, "poll for so long after traffic before sleeping, in microseconds")
      .From(uint64_t{0}, uint64_t{100000}, "microseconds")
      .ShowDefault();
  line.AddFlag("--poll", &poll, "never sleep: each thread of the data path takes a core of its own");
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
  if (io_kind == "dpdk") options->dpdk = {.eal_arguments = eal_arguments, .mtu = dpdk_mtu};
  if (wrong.empty() && !options->dpdk && !eal_arguments.empty()) wrong = "--dpdk-args takes --io dpdk";
  if (wrong.empty()) wrong = TakeDevices(&options->ports.interfaces, &options->dpdk);
  if (wrong.empty() && options->dpdk && options->cores > 1)
    wrong = "--cores: ports by DPDK have one core so far";
  if (wrong.empty()) wrong = CheckPorts(options->ports.interfaces);
  if (wrong.empty()) wrong = ParseAbilities(types, operations, &options->config.abilities);
  if (!wrong.empty()) {
    std::cerr << "incengine: " << wrong << "\n";
    return ParseOutcome::kUsageError;
  }
  options->config.port_count = options->ports.interfaces.size();
  options->config.arena_bytes = sram;
  if (wrong = ParsePool(pool, options->cores, &options->config); !wrong.empty()) {
    std::cerr << "incengine: " << wrong << "\n";
    return ParseOutcome::kUsageError;
  }
  options->config.forwarding =
      forwarding == "static" ? engine::ForwardingMode::kStatic : engine::ForwardingMode::kLearning;
  options->spin_ns = poll ? kNeverSleeps : static_cast<Nanos>(spin_us) * kMicrosecond;
  options->ports.ring_bytes = ring_mb << 20;
  options->trace_limit = trace_limit;
  return ParseOutcome::kRun;
}

}  // namespace epic::daemon
