#include "commlib/parallel_plan.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "protocol/types.h"

namespace epic::internal {
namespace {

constexpr std::string_view kMark = "parallel: ";
// Of these HOST.md says that all ranks have them; the others are one rank's, and kAborted elsewhere.
constexpr std::array kEverybodys = {ErrorCode::kMismatch, ErrorCode::kRankLost,     ErrorCode::kSwitchLost,
                                    ErrorCode::kLinkLost, ErrorCode::kFallbackLost, ErrorCode::kNotFinite};

template <size_t n>
bool Put(const std::string& text, std::array<char, n>* out) {
  out->fill(0);
  if (text.size() >= n || text.find('\0') != std::string::npos) return false;
  std::ranges::copy(text, out->begin());
  return true;
}

template <size_t n>
std::string_view TextOf(const std::array<char, n>& text) {
  return {text.data(), static_cast<size_t>(std::ranges::find(text, 0) - text.begin())};
}

// "1 rank", "2 ranks"
std::string Ranks(size_t count) { return fmt::format("{} rank{}", count, count == 1 ? "" : "s"); }

size_t BitOf(int type, int op) { return static_cast<size_t>(type) * kOpsOfType + static_cast<size_t>(op); }
static_assert((kCallerTypes.size() + 1) * kOpsOfType <= 64 * std::tuple_size_v<Doable>);
static_assert(static_cast<size_t>(RedOp::kLogicalOr) < kOpsOfType);

}  // namespace

Error FindRankHost(const std::string& host, RankHost* out) {
  if (!host.empty()) {
    if (Put(host, &out->name) && Put(host, &out->id)) return {};
    return {ErrorCode::kInvalidArgument, fmt::format("host: {} is longer than 63 bytes", host)};
  }
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  Put(std::string(TextOf(name)).substr(0, 63), &out->name);
  // Names of hosts may be the same, as those of the namespaces of one machine are.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  const bool known = stat("/proc/self/ns/net", &network) == 0;
  const std::string id = fmt::format("{}/{}", boot, known ? network.st_ino : 0);
  Put(boot.empty() ? std::string(TextOf(out->name)) : id.substr(0, 63), &out->id);
  return {};
}

Error PlaceRank(std::span<const RankHost> all, int rank, ParallelPlace* place) {
  std::vector<std::vector<int>> hosts;
  for (size_t r = 0; r < all.size(); ++r) {
    const auto same = [&](const std::vector<int>& ranks) {
      return all[static_cast<size_t>(ranks.front())].id == all[r].id;
    };
    auto host = std::ranges::find_if(hosts, same);
    if (host == hosts.end()) host = hosts.insert(hosts.end(), std::vector<int>());
    if (static_cast<int>(r) == rank) {
      place->host = static_cast<int>(host - hosts.begin());
      place->local_rank = static_cast<int>(host->size());
    }
    host->push_back(static_cast<int>(r));
  }
  place->hosts = static_cast<int>(hosts.size());
  place->local_size = static_cast<int>(hosts[static_cast<size_t>(place->host)].size());
  const auto& first = hosts.front();
  for (const auto& host : hosts) {
    if (host.size() == first.size()) continue;
    const auto words = [&](const std::vector<int>& ranks) {
      const auto of = static_cast<size_t>(ranks.front());
      return fmt::format("the host of rank {} ({}) has {}", of, TextOf(all[of].name), Ranks(ranks.size()));
    };
    return {ErrorCode::kInvalidArgument,
            fmt::format("{}, {}: all hosts need the same number", words(first), words(host))};
  }
  return {};
}

Division Divide(size_t count, int local_size) {
  const auto n = static_cast<size_t>(local_size);
  return {.share = count / n, .rest = count % n};
}

std::string ReasonOf(const Error& error) {
  if (std::ranges::find(kEverybodys, error.code()) == kEverybodys.end()) return error.message();
  return fmt::format("{}{}: {}", kMark, ErrorName(error.code()), error.message());
}

// The manager puts in front of a reason who gave it.
Error ErrorOf(const Error& error) {
  const size_t mark = error.message().find(kMark);
  if (error.code() != ErrorCode::kAborted || mark == std::string::npos) return error;
  const std::string_view told = std::string_view(error.message()).substr(mark + kMark.size());
  for (const ErrorCode code : kEverybodys) {
    const std::string name = std::string(ErrorName(code)) + ": ";
    if (told.starts_with(name)) return {code, std::string(told.substr(name.size()))};
  }
  return error;
}

Error OfGroup(const std::string& group, const Error& error) {
  const Error told = ErrorOf(error);
  if (told.code() != error.code()) return told;
  return {error.code(), group + ": " + error.message()};
}

Doable DoableBy(const Communicator& comm) {
  Doable doable{};
  for (const TypeInfo& type : kCallerTypes) {
    for (int op = 1; op < static_cast<int>(kOpsOfType); ++op) {
      const auto t = static_cast<Datatype>(type.type);
      const PathTaken path = comm.PathOf(t, static_cast<RedOp>(op));
      const size_t bit = BitOf(static_cast<int>(type.type), op);
      if (path.path != PathChoice::kDefault) doable[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  }
  return doable;
}

bool Has(const Doable& doable, Datatype type, RedOp op) {
  const size_t bit = BitOf(static_cast<int>(type), static_cast<int>(op));
  return bit / 64 < doable.size() && (doable[bit / 64] >> (bit % 64) & 1) != 0;
}

}  // namespace epic::internal
