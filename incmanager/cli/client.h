// The client commands: each asks the manager and prints, as a table or as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/modes.h"

namespace epic::manager {

// The program's exit codes.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRefused =
    1;  // by the manager, with the reason on stderr; or output that cannot be written
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;  // no manager answers

struct ClientOptions {
  std::string manager = "127.0.0.1:7400";
  bool json = false;
};

struct CreateOptions {
  std::string name;
  uint32_t size = 0;
  std::vector<std::string> hosts;
  int mode = NumberOf(kDefaultMode);
  std::map<std::string, int> switch_modes;
  bool reproducible = false;
  uint32_t path_mtu = 0;
  uint32_t message_packets = 0;
  uint32_t window_messages = 0;
  std::optional<uint32_t> inline_bytes;
  uint64_t max_bytes = 0;
  float quantise = 0;
  bool quantise_int8 = false;
  std::optional<double> priority_limit;  // of calls in a pool; else none
  std::optional<uint32_t> start_psn;
  std::vector<std::string> types, operations;  // that each switch must have
  std::string path = "auto";                   // or "network", "hosts"
  std::string policy, prefer;                  // empty: the manager's default
  double rate_gbps = 0;
  std::string tenant;
  std::optional<double> duty;  // of policy temporal, like these two; else all the time
  std::string job, phase;
};

// A limit that is taken away. Of a rate it is infinity.
inline constexpr uint64_t kNoLimit = UINT64_MAX;

// What is empty stays as the tenant has it; of a new one it is no limit, and no guarantee.
struct TenantOptions {
  std::string name;
  std::optional<uint64_t> limit_bytes, limit_groups;
  std::optional<double> limit_gbps;
  std::optional<uint64_t> guarantee_bytes;
};

struct EventsOptions {
  std::string group, switch_name;  // about which; at most one of them
  uint32_t last = 100;             // of these the newest so many; 0: all
  bool follow = false;             // and then what happens, until the process ends
};

// Each returns an exit code.
int ShowTopology(const ClientOptions& options);
int ListSwitches(const ClientOptions& options);
int ListHosts(const ClientOptions& options);
int ShowTables(const ClientOptions& options, const std::string& switch_name);
int ListGroups(const ClientOptions& options);
int ShowGroup(const ClientOptions& options, const std::string& name);
// Whom it waits for, or how it ended.
int Why(const ClientOptions& options, const std::string& name);
int CreateGroup(const ClientOptions& options, const CreateOptions& create);
// Of create what decides on a tree is looked at: not name, size, reproducible, inline bytes and start PSN.
// kExitRefused also if the group would fail.
int Explain(const ClientOptions& options, const CreateOptions& create);
int DestroyGroup(const ClientOptions& options, const std::string& name, bool force);
int ShowEvents(const ClientOptions& options, const EventsOptions& events);
// Sets it first, if it is not empty.
int DefaultPolicy(const ClientOptions& options, const std::string& policy);
// Asks for what the tenant has, and sends all of it: of two at the same time one may undo what the other set.
int SetTenant(const ClientOptions& options, const TenantOptions& tenant);
// Makes a switch this manager's, though it has contexts of another one.
int Adopt(const ClientOptions& options, const std::string& switch_name);
int RemoveTenant(const ClientOptions& options, const std::string& name);
int ListTenants(const ClientOptions& options);

}  // namespace epic::manager
