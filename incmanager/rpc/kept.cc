#include "incmanager/rpc/kept.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <random>
#include <utility>

#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/convert_policy.h"
#include "proto/store.pb.h"

namespace epic::manager {
namespace {

constexpr char kCluster[] = "cluster";
constexpr char kPolicy[] = "policy";
// More than the starts that neither a backup nor the store that it replaces knows of.
constexpr uint64_t kRestoredLater = 1'000'000;
constexpr int kIdBits = 32;  // of a group's id, below the epoch
constexpr int64_t kNanosPerMicro = 1000;

Status Wrong(const RowKey& row, const std::string& how) {
  return MakeStatus(StatusCode::kDataLoss,
                    fmt::format("the store's row {} {} cannot be read: {}", Name(row.kind), row.key, how));
}

RowChange Put(RowKind kind, std::string key, const google::protobuf::Message& value) {
  return {{kind, std::move(key)}, value.SerializeAsString()};
}

// The message of a row of this kind and key; null if there is none.
std::unique_ptr<google::protobuf::Message> MessageOf(const RowKey& row) {
  switch (row.kind) {
    case RowKind::kMeta:
      if (row.key == kCluster) return std::make_unique<proto::StoredCluster>();
      if (row.key == kPolicy) return std::make_unique<proto::StoredPolicy>();
      return nullptr;
    case RowKind::kReserved:
      return std::make_unique<proto::StoredReservation>();
    case RowKind::kLives:
      return std::make_unique<proto::StoredLives>();
    case RowKind::kTenant:
      return std::make_unique<proto::StoredTenant>();
    case RowKind::kEvent:
      return std::make_unique<proto::StoredEvent>();
    case RowKind::kSwitch:
      return std::make_unique<proto::StoredSwitch>();
    case RowKind::kGroup:
      return std::make_unique<proto::StoredGroup>();
    case RowKind::kEnded:
      return std::make_unique<proto::StoredEnd>();
  }
  return nullptr;
}

class Reader {
 public:
  explicit Reader(const Moment& at) : at_(at) {}

  Status Read(const RowKey& row, const std::string& value) {
    const auto message = MessageOf(row);
    if (message == nullptr) return Wrong(row, "no version of the manager has written such a row");
    if (!message->ParseFromString(value)) return Wrong(row, "it is no message");
    switch (row.kind) {
      case RowKind::kMeta:
        return row.key == kCluster ? ReadCluster(row, static_cast<const proto::StoredCluster&>(*message))
                                   : ReadPolicy(row, static_cast<const proto::StoredPolicy&>(*message));
      case RowKind::kReserved:
        return ReadReservation(row, static_cast<const proto::StoredReservation&>(*message));
      case RowKind::kLives:
        lives_[row.key] = static_cast<const proto::StoredLives&>(*message).lives();
        return absl::OkStatus();
      case RowKind::kTenant:
        return ReadTenant(row, static_cast<const proto::StoredTenant&>(*message));
      case RowKind::kEvent:
        return ReadEvent(row, static_cast<const proto::StoredEvent&>(*message));
      case RowKind::kSwitch:
        kept_.switches.insert(row.key);
        return absl::OkStatus();
      case RowKind::kGroup:
        return ReadGroup(row, static_cast<const proto::StoredGroup&>(*message));
      case RowKind::kEnded:
        return ReadEnd(row, static_cast<const proto::StoredEnd&>(*message));
    }
    return absl::OkStatus();
  }

  Kept Take() {
    // One that was destroyed has none.
    for (KeptReservation& reservation : kept_.groups.reserved) {
      const auto lives = lives_.find(reservation.spec.name);
      if (lives != lives_.end()) reservation.lives = lives->second;
    }
    std::ranges::stable_sort(kept_.ended, {}, &GroupEnd::at);
    return std::move(kept_);
  }

 private:
  // By a clock that has been set back it would be yet to come.
  Nanos When(int64_t unix_us) const {
    return at_.now - std::max<int64_t>(at_.unix_us - unix_us, 0) * kNanosPerMicro;
  }
  Status ReadGroup(const RowKey& row, const proto::StoredGroup& stored) {
    if (GroupKey(stored.id()) != row) return Wrong(row, "its id is another");
    kept_.running.push_back(stored);
    return absl::OkStatus();
  }
  Status ReadEnd(const RowKey& row, const proto::StoredEnd& stored) {
    kept_.ended.push_back({.name = row.key,
                           .id = stored.id(),
                           .generation = stored.generation(),
                           .world_size = stored.world_size(),
                           .joined = stored.joined(),
                           .mode = static_cast<Mode>(stored.mode()),
                           .at = When(stored.unix_us()),
                           .how = stored.how(),
                           .failure = {},
                           .untold = {stored.untold().begin(), stored.untold().end()}});
    if (stored.has_failure()) {
      const proto::Failure& failure = stored.failure();
      kept_.ended.back().failure = {static_cast<ErrorCode>(failure.code()), failure.message(), failure.rank(),
                                    failure.switch_name()};
    }
    return absl::OkStatus();
  }
  Status ReadCluster(const RowKey& row, const proto::StoredCluster& cluster) {
    if (cluster.id().size() != kClusterBytes) return Wrong(row, "an id has 16 bytes");
    if (cluster.epoch() >> kIdBits != 0) return Wrong(row, "an epoch is below 2^32");
    kept_.cluster = cluster.id();
    kept_.epoch = cluster.epoch();
    return absl::OkStatus();
  }
  Status ReadPolicy(const RowKey& row, const proto::StoredPolicy& policy) {
    const auto named = PolicyNamed(policy.policy());
    if (!named) return Wrong(row, "there is no such policy");
    kept_.groups.default_policy = *named;
    return absl::OkStatus();
  }
  Status ReadReservation(const RowKey& row, const proto::StoredReservation& stored) {
    GroupSpec spec = FromProto(stored.group());
    if (!spec.wrong.empty()) return Wrong(row, spec.wrong);
    if (spec.name != row.key) return Wrong(row, "it has another name");
    kept_.groups.reserved.push_back({.spec = std::move(spec)});
    return absl::OkStatus();
  }
  Status ReadTenant(const RowKey& row, const proto::StoredTenant& stored) {
    const StatusOr<Tenant> tenant = FromProto(stored.tenant());
    if (!tenant.ok()) return Wrong(row, std::string(tenant.status().message()));
    if (tenant->name != row.key) return Wrong(row, "it has another name");
    kept_.groups.tenants.push_back(*tenant);
    return absl::OkStatus();
  }
  Status ReadEvent(const RowKey& row, const proto::StoredEvent& stored) {
    uint64_t number = 0;
    const char* const end = row.key.data() + row.key.size();
    if (std::from_chars(row.key.data(), end, number).ptr != end || EventKey(number) != row)
      return Wrong(row, "an event's key is its number");
    kept_.events.push_back({.number = number,
                            .at = When(stored.unix_us()),
                            .times = stored.times(),
                            .about = stored.about(),
                            .text = stored.text(),
                            .ending = stored.ending()});
    return absl::OkStatus();
  }

  const Moment at_;
  Kept kept_;
  std::map<std::string, uint32_t> lives_;
};

}  // namespace

proto::CreateGroupRequest RequestOf(const GroupSpec& spec) {
  proto::CreateGroupRequest out;
  out.set_name(spec.name);
  out.set_world_size(spec.world_size);
  for (const std::string& host : spec.hosts) out.add_hosts(host);
  out.set_mode(static_cast<proto::Mode>(spec.mode));
  for (const auto& [name, mode] : spec.switch_modes)
    (*out.mutable_switch_modes())[name] = static_cast<proto::Mode>(mode);
  out.set_reproducible(spec.reproducible);
  out.set_path_mtu(spec.path_mtu);
  out.set_message_packets(spec.message_packets);
  out.set_window_messages(spec.window_messages);
  if (spec.start_psn) out.set_start_psn(*spec.start_psn);
  if (spec.inline_bytes) out.set_inline_bytes(*spec.inline_bytes);
  NameTypes(spec.needs, &out);
  NameOperations(spec.needs, &out);
  out.set_max_bytes(spec.max_bytes);
  out.set_quantise(spec.scale);
  out.set_quantise_int8(spec.int8);
  if (spec.priority_limit != 0) out.set_priority_limit(ValueOf(spec.priority_limit));
  out.set_path(static_cast<proto::Path>(spec.path));
  if (spec.policy != Policy::kUnspecified) out.set_policy(Name(spec.policy));
  if (spec.prefer != Prefer::kUnspecified) out.set_prefer(Name(spec.prefer));
  out.set_rate_gbps(GbpsOf(spec.rate_kbps));
  out.set_tenant(spec.tenant);
  if (spec.duty != 0) out.set_duty(static_cast<double>(spec.duty) / kWholeTime);
  out.set_job(spec.job);
  out.set_phase(spec.phase);
  return out;
}

StatusOr<Kept> ReadKept(const Contents& contents, const Moment& at) {
  Reader reader(at);
  for (const auto& [row, value] : contents) {
    if (Status status = reader.Read(row, value); !status.ok()) return status;
  }
  Kept kept = reader.Take();
  if (kept.cluster.empty() && !contents.empty())
    return MakeStatus(StatusCode::kDataLoss, "the store has rows, but no cluster");
  return kept;
}

StatusOr<Kept> BeginEpoch(Store* store, const Moment& at) {
  const StatusOr<Contents> contents = store->Load();
  if (!contents.ok()) return contents.status();
  StatusOr<Kept> kept = ReadKept(*contents, at);
  if (!kept.ok()) return kept.status();
  if (kept->cluster.empty()) {
    std::random_device random;
    while (kept->cluster.size() < kClusterBytes) kept->cluster += static_cast<char>(random() & 0xff);
  }
  const uint64_t epoch = store->Epoch().value_or(kept->epoch + 1);
  if (epoch <= kept->epoch || epoch >> kIdBits != 0) {
    return MakeStatus(
        StatusCode::kFailedPrecondition,
        fmt::format("store {}: its managers had come to epoch {}, and this one would be {}: it was made "
                    "anew, or put back to what it was before",
                    store->Place(), kept->epoch, epoch));
  }
  kept->epoch = epoch;
  kept->groups.first_id = epoch << kIdBits | 1;
  if (Status status = store->Apply({RowOf(kept->cluster, kept->epoch)}); !status.ok()) return status;
  return kept;
}

std::string ClusterName(const std::string& cluster) {
  std::string name;
  for (const char c : cluster) name += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return name;
}

StatusOr<Contents> RestoredFrom(const Contents& contents, const Contents& replaced) {
  const StatusOr<Kept> kept = ReadKept(contents, {});
  if (!kept.ok()) return kept.status();
  // Engines know no cluster, so that also another one's numbers count.
  const StatusOr<Kept> other = ReadKept(replaced, {});
  const uint64_t epoch = std::max(kept->epoch, other.ok() ? other->epoch : 0) + kRestoredLater;
  if ((epoch + kRestoredLater) >> kIdBits != 0) {
    return MakeStatus(
        StatusCode::kFailedPrecondition,
        fmt::format("there are no epochs left beyond {}: begin with a new store", epoch - kRestoredLater));
  }
  Contents restored = contents;
  const RowChange cluster = RowOf(kept->cluster, epoch);
  if (!kept->cluster.empty()) restored[cluster.row] = *cluster.value;
  return restored;
}

RowChange RowOf(const std::string& cluster, uint64_t epoch) {
  proto::StoredCluster out;
  out.set_id(cluster);
  out.set_epoch(epoch);
  return Put(RowKind::kMeta, kCluster, out);
}

RowChange RowOf(Policy policy) {
  proto::StoredPolicy out;
  out.set_policy(Name(policy));
  return Put(RowKind::kMeta, kPolicy, out);
}

RowChange RowOf(const GroupSpec& spec) {
  proto::StoredReservation out;
  *out.mutable_group() = RequestOf(spec);
  return Put(RowKind::kReserved, spec.name, out);
}

RowChange RowOfLives(const std::string& group, uint32_t lives) {
  proto::StoredLives out;
  out.set_lives(lives);
  return Put(RowKind::kLives, group, out);
}

RowChange RowOf(const Tenant& tenant) {
  proto::StoredTenant out;
  *out.mutable_tenant() = ToProto(tenant);
  return Put(RowKind::kTenant, tenant.name, out);
}

RowChange RowOf(const Event& event, const Moment& at) {
  proto::StoredEvent out;
  out.set_unix_us(at.unix_us - (at.now - event.at) / kNanosPerMicro);
  out.set_times(event.times);
  out.set_about(event.about);
  out.set_text(event.text);
  out.set_ending(event.ending);
  // What is no UTF-8 could not be read again.
  if (!proto::StoredEvent().ParseFromString(out.SerializeAsString())) {
    for (std::string* const text : {out.mutable_about(), out.mutable_text()})
      std::ranges::replace_if(
          *text, [](char c) { return static_cast<uint8_t>(c) >= 0x80; }, '?');
  }
  return Put(RowKind::kEvent, EventKey(event.number).key, out);
}

RowChange RowOfSwitch(const std::string& name) { return Put(RowKind::kSwitch, name, proto::StoredSwitch()); }

RowKey GroupKey(uint64_t id) { return {RowKind::kGroup, fmt::format("{:020}", id)}; }

RowChange RowOf(const proto::StoredGroup& group) {
  return Put(RowKind::kGroup, GroupKey(group.id()).key, group);
}

RowChange RowOf(const GroupEnd& end, const Moment& at) {
  proto::StoredEnd out;
  out.set_id(end.id);
  out.set_generation(end.generation);
  out.set_world_size(end.world_size);
  out.set_joined(end.joined);
  out.set_mode(static_cast<proto::Mode>(end.mode));
  out.set_unix_us(at.unix_us - (at.now - end.at) / kNanosPerMicro);
  out.set_how(end.how);
  if (!end.failure.ok()) *out.mutable_failure() = ToProto(end.failure);
  for (const uint64_t nonce : end.untold) out.add_untold(nonce);
  return Put(RowKind::kEnded, end.name, out);
}

RowKey EventKey(uint64_t number) { return {RowKind::kEvent, fmt::format("{:020}", number)}; }

StatusOr<std::string> JsonOf(const RowKey& row, const std::string& value) {
  Reader reader({});
  if (Status status = reader.Read(row, value); !status.ok()) return status;
  const auto message = MessageOf(row);
  message->ParseFromString(value);
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json, key;
  if (!google::protobuf::util::MessageToJsonString(*message, &json, options).ok())
    return Wrong(row, "it cannot be printed");
  for (const char c : row.key) key += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  return fmt::format(R"({{"kind":"{}","key":"{}","value":{}}})", Name(row.kind), key, json);
}

}  // namespace epic::manager
