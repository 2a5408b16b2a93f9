// epic-goodput: AllReduces on one switch in virtual time, by the switch or around the ring of hosts. Prints
// one JSON object; scripts/reproduce runs it.
#include <fmt/format.h>

#include <cstdio>

#include "base/command_line.h"
#include "base/path_mtu.h"
#include "protocol/modes.h"
#include "sim/goodput.h"

int main(int argc, char** argv) {
  epic::sim::GoodputConfig config;
  int mode = epic::NumberOf(config.mode);
  double gigabits = 100;
  epic::CommandLine line{
      "AllReduces of FP32 of groups side by side on the hosts of one switch, in virtual time without losses; "
      "prints time and bytes as a JSON object. Exit status: 0 all right, 1 a wrong result, 2 usage.",
      "epic-goodput"};
  line.Add("--hosts", &config.hosts, "on the switch").From(2, 64, "hosts").ShowDefault();
  line.Add("--groups", &config.groups, "with a rank on every host each; their calls share the bytes")
      .From(1, 64, "groups")
      .ShowDefault();
  line.Add("--bytes", &config.bytes, "of a rank, all groups together").ShowDefault();
  line.AddFlag("--by-hosts", &config.by_hosts, "around the ring of hosts, not by the switch; of one group");
  line.Add("--mode", &mode, "of the switch: " + epic::ModeChoice())
      .Changed([](std::string& text) { return epic::OwnMemoryModeToNumber(text); })
      .ShowDefault();
  line.Add("--path-mtu", &config.path_mtu,
           std::string("payload of a packet, bytes: ") + epic::kPathMtusInWords)
      .ShowDefault();
  line.Add("--message-packets", &config.message_packets, "of a group: M")
      .From(1, 1024, "packets")
      .ShowDefault();
  line.Add("--window", &config.window_messages, "of a group: W").From(1, 256, "messages").ShowDefault();
  line.Add("--most-outstanding", &config.host_most_outstanding, "packets that a NIC sends ahead")
      .From(1, 65536, "packets")
      .ShowDefault();
  line.Add("--link-delay-ns", &config.link_delay_ns, "of a link")
      .From(0, 1'000'000, "nanoseconds")
      .ShowDefault();
  line.Add("--gbit", &gigabits, "of each direction of a link, Gbit/s")
      .From(0.001, 1000.0, "Gbit/s")
      .ShowDefault();
  if (const auto exit_code = line.Parse(argc, argv, 2)) return *exit_code;
  const auto mode_of_number = epic::ModeOfNumber(mode);
  if (!mode_of_number || (config.by_hosts && config.groups != 1)) {
    fmt::print(stderr, "epic-goodput: {}\n",
               mode_of_number ? "--by-hosts is of one group" : "there is no such mode");
    return 2;
  }
  config.mode = *mode_of_number;
  config.bits_per_second = static_cast<int64_t>(gigabits * 1e9);
  const epic::sim::Goodput result = MeasureGoodput(config);
  if (!result.right) {
    fmt::print(stderr, "epic-goodput: not finished, or a wrong result\n");
    return 1;
  }
  fmt::print("{{\"bytes\": {}, \"picoseconds\": {}, \"up\": {}, \"down\": {}}}\n", config.bytes, result.time,
             result.up, result.down);
  return 0;
}
