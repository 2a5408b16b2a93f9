#include "incmanager/store/etcd_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/printable.h"

namespace epic::manager {
namespace {

constexpr std::string_view kFormatKey = "/epic/format", kRowPrefix = "/epic/row/", kFormat = "1";
// What the leader has written last, as a number that no two of its transactions have.
constexpr std::string_view kTurnKey = "/epic/turn";
constexpr std::string_view kPrefixEnd = "/epic0";  // the first key behind all that begin with kEtcdPrefix
constexpr size_t kDigestBytes = 8;
constexpr int64_t kRowsPerPage = 64;
// Below what etcd takes of a request by default: 1.5 MiB, and 128 operations.
constexpr BatchBounds kBounds{.bytes = 1 << 20, .rows = 96};
constexpr std::chrono::milliseconds kAgain(100);

std::string KeyOf(const RowKey& row) { return fmt::format("{}{}/", kRowPrefix, Name(row.kind)) + row.key; }

// Nothing if it is none of a row.
std::optional<RowKey> RowOfKey(std::string_view key) {
  for (const RowKind kind : kRowKinds) {
    const std::string prefix = KeyOf({kind, ""});
    if (key.starts_with(prefix)) return RowKey{kind, std::string(key.substr(prefix.size()))};
  }
  return std::nullopt;
}

std::string ValueOf(const RowKey& row, std::string_view value) {
  std::string bytes;
  const uint64_t digest = DigestOf(row, value);
  for (size_t i = 0; i < kDigestBytes; ++i) bytes += static_cast<char>(digest >> 8 * i & 0xff);
  return bytes.append(value);
}

Status Damaged(const std::string& etcd, std::string_view key, const std::string& what) {
  return MakeStatus(StatusCode::kDataLoss,
                    fmt::format("store etcd:{}: key {} {}", etcd, Printable(std::string(key)), what));
}

struct Read {
  Contents rows;
  std::optional<std::string> format;
};

// Of a key that is there.
Status Take(const std::string& etcd, const etcdserverpb::KeyValue& pair, Read* read) {
  if (pair.key() == kLeaderKey || pair.key() == kTurnKey) return absl::OkStatus();
  if (pair.key() == kFormatKey) {
    read->format = pair.value();
    return absl::OkStatus();
  }
  const std::optional<RowKey> row = RowOfKey(pair.key());
  if (!row) return Damaged(etcd, pair.key(), "is no manager's");
  if (pair.value().size() < kDigestBytes) return Damaged(etcd, pair.key(), "is not what was written");
  std::string value = pair.value().substr(kDigestBytes);
  if (ValueOf(*row, value) != pair.value()) return Damaged(etcd, pair.key(), "is not what was written");
  read->rows[*row] = std::move(value);
  return absl::OkStatus();
}

StatusOr<Read> ReadAll(EtcdClient* etcd) {
  Read read;
  etcdserverpb::RangeRequest page;
  page.set_key(std::string(kEtcdPrefix));
  page.set_range_end(std::string(kPrefixEnd));
  page.set_limit(kRowsPerPage);
  Status damage;
  for (bool more = true; more;) {
    etcdserverpb::RangeResponse reply;
    if (Status status = etcd->Range(page, &reply); !status.ok()) return status;
    for (const etcdserverpb::KeyValue& pair : reply.kvs()) {
      if (Status status = Take(etcd->ToString(), pair, &read); damage.ok()) damage = status;
    }
    more = reply.more() && !reply.kvs().empty();
    if (!more) break;
    // All of it as it was when the first page was read.
    if (page.revision() == 0) page.set_revision(reply.header().revision());
    page.set_key(reply.kvs(reply.kvs_size() - 1).key() + '\0');
  }
  // What a later version has written may be no row to this one.
  if (read.format && *read.format != kFormat) {
    return MakeStatus(
        StatusCode::kFailedPrecondition,
        fmt::format("store etcd:{}: it has format {}, and this version of incmanager knows format {}",
                    etcd->ToString(), Printable(*read.format), kFormat));
  }
  if (!damage.ok()) return damage;
  if (!read.format && !read.rows.empty())
    return Damaged(etcd->ToString(), kFormatKey, "is gone, and rows are there");
  return read;
}

class EtcdStore : public Store {
 public:
  EtcdStore(std::shared_ptr<EtcdClient> etcd, std::shared_ptr<EtcdLead> lead)
      : etcd_(std::move(etcd)), lead_(std::move(lead)) {}

  BatchBounds bounds() const override { return kBounds; }
  std::string Place() const override { return fmt::format("etcd:{}", etcd_->ToString()); }
  bool Holds() const override { return lead_->Holds(); }
  std::optional<uint64_t> Epoch() const override { return static_cast<uint64_t>(lead_->revision()); }
  void Close() override { lead_->Resign(); }

  StatusOr<Contents> Load() override {
    StatusOr<Read> read = ReadWhileHeld();
    if (!read.ok()) return read.status();
    return std::move(read->rows);
  }

  Status Apply(const Batch& batch) override {
    if (!kBounds.Has(SizeOf(batch), batch.size())) {
      return MakeStatus(
          StatusCode::kInvalidArgument,
          fmt::format("store {}: {} rows of {} bytes are too many for one transaction; it has {} "
                      "rows and {} bytes at most",
                      Place(), batch.size(), SizeOf(batch), kBounds.rows, kBounds.bytes));
    }
    // etcd takes each key once in a transaction.
    std::map<RowKey, const RowChange*> last;
    for (const RowChange& change : batch) last[change.row] = &change;
    etcdserverpb::TxnRequest request;
    for (const auto& [row, change] : last) {
      if (!change->value) {
        request.add_success()->mutable_request_delete_range()->set_key(KeyOf(row));
        continue;
      }
      Put(KeyOf(row), ValueOf(row, *change->value), &request);
    }
    return Do(&request);
  }

  // What makes the store one.
  Status Begin() {
    const StatusOr<Read> read = ReadWhileHeld();
    if (!read.ok()) return read.status();
    etcdserverpb::TxnRequest request;
    if (!read->format) Put(kFormatKey, std::string(kFormat), &request);
    return Do(&request);
  }

 private:
  static Status LostIt() { return MakeStatus(StatusCode::kAborted, "this manager leads no more"); }

  StatusOr<Read> ReadWhileHeld() {
    while (Holds()) {
      StatusOr<Read> read = ReadAll(etcd_.get());
      if (read.status().code() != StatusCode::kUnavailable) return read;
      std::this_thread::sleep_for(kAgain);
    }
    return LostIt();
  }

  static void Put(std::string_view key, const std::string& value, etcdserverpb::TxnRequest* request) {
    etcdserverpb::PutRequest* const put = request->add_success()->mutable_request_put();
    put->set_key(std::string(key));
    put->set_value(value);
  }

  // Until it is known what became of it. Another server may do a copy of it, and late: so each transaction
  // comes behind the last one that is known, and says which it is.
  Status Do(etcdserverpb::TxnRequest* request) {
    const std::string turn = std::to_string(++turns_);
    *request->add_compare() = lead_->Fence();
    if (!last_.empty()) {
      etcdserverpb::Compare& behind = *request->add_compare();
      behind.set_target(etcdserverpb::Compare::VALUE);
      behind.set_key(std::string(kTurnKey));
      behind.set_value(last_);
    }
    Put(kTurnKey, turn, request);
    for (const std::string_view key : {kLeaderKey, kTurnKey})
      request->add_failure()->mutable_request_range()->set_key(std::string(key));
    while (Holds()) {
      etcdserverpb::TxnResponse reply;
      Status status = etcd_->Txn(*request, &reply);
      if (status.ok() && (reply.succeeded() || IsDone(reply, turn))) {
        last_ = turn;
        return absl::OkStatus();
      }
      if (status.ok()) {
        lead_->Lose("etcd says so");
        return LostIt();
      }
      if (status.code() != StatusCode::kUnavailable) return status;
      std::this_thread::sleep_for(kAgain);
    }
    return LostIt();
  }

  // An earlier copy of it has been.
  bool IsDone(const etcdserverpb::TxnResponse& reply, const std::string& turn) const {
    if (reply.responses_size() != 2) return false;
    const auto& leader = reply.responses(0).response_range().kvs();
    const auto& last = reply.responses(1).response_range().kvs();
    return leader.size() == 1 && leader[0].create_revision() == lead_->revision() && last.size() == 1 &&
           last[0].value() == turn;
  }

  const std::shared_ptr<EtcdClient> etcd_;
  const std::shared_ptr<EtcdLead> lead_;
  uint64_t turns_ = 0;
  std::string last_;  // of kTurnKey; empty: nothing has been written yet
};

}  // namespace

StatusOr<Contents> ReadEtcd(EtcdClient* etcd) {
  StatusOr<Read> read = ReadAll(etcd);
  if (!read.ok()) return read.status();
  return std::move(read->rows);
}

StatusOr<std::unique_ptr<Store>> OpenEtcdStore(std::shared_ptr<EtcdClient> etcd,
                                               std::shared_ptr<EtcdLead> lead) {
  auto store = std::make_unique<EtcdStore>(std::move(etcd), std::move(lead));
  if (Status status = store->Begin(); !status.ok()) return status;
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace epic::manager
