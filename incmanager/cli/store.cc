#include "incmanager/cli/store.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "incmanager/cli/client.h"
#include "incmanager/cli/output.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/store/etcd_client.h"
#include "incmanager/store/etcd_store.h"
#include "incmanager/store/sqlite_store.h"

namespace epic::manager {
namespace {

int Refuse(const Status& status) {
  fmt::print(stderr, "incmanager: {}\n", std::string(status.message().data(), status.message().size()));
  return kExitRefused;
}

StatusOr<Contents> ContentsOf(const std::string& folder) {
  if (folder.starts_with(kEtcd)) {
    StatusOr<std::vector<std::string>> servers = EtcdServers(folder);
    if (!servers.ok()) return servers.status();
    EtcdClient etcd(*std::move(servers));
    return ReadEtcd(&etcd);
  }
  const StatusOr<std::unique_ptr<Store>> store = OpenStore(folder, false);
  if (!store.ok()) return store.status();
  return (*store)->Load();
}

// Of copies.
Status RefuseEtcd(const std::string& folder) {
  if (!folder.starts_with(kEtcd)) return absl::OkStatus();
  return MakeStatus(
      StatusCode::kUnimplemented,
      fmt::format("store {}: etcd copies itself (etcdctl snapshot save, etcdctl snapshot restore)", folder));
}

// "cluster 3f..., epoch 7: 2 rows of meta, 3 rows of reserved".
std::string InWords(const Contents& contents, const Kept& kept) {
  std::map<RowKind, uint64_t> counts;
  for (const auto& [row, value] : contents) ++counts[row.kind];
  std::string words;
  for (const auto& [kind, count] : counts)
    words += fmt::format("{}{} of {}", words.empty() ? ": " : ", ", Counted(count, "row"), Name(kind));
  if (kept.cluster.empty()) return "nothing is in it yet";
  return fmt::format("cluster {}, epoch {}{}", ClusterName(kept.cluster), kept.epoch, words);
}

}  // namespace

int CheckStore(const std::string& folder) {
  const StatusOr<Contents> contents = ContentsOf(folder);
  if (!contents.ok()) return Refuse(contents.status());
  const StatusOr<Kept> kept = ReadKept(*contents, {});
  if (!kept.ok()) return Refuse(kept.status());
  Write(fmt::format("store {} is whole: {}\n", folder, InWords(*contents, *kept)));
  return kExitOk;
}

int DumpStore(const std::string& folder) {
  const StatusOr<Contents> contents = ContentsOf(folder);
  if (!contents.ok()) return Refuse(contents.status());
  std::string rows;
  for (const auto& [row, value] : *contents) {
    const StatusOr<std::string> line = JsonOf(row, value);
    if (!line.ok()) return Refuse(line.status());
    rows += *line + "\n";
  }
  Write(rows);
  return kExitOk;
}

int BackUpStoreTo(const std::string& folder, const std::string& file) {
  if (const Status status = RefuseEtcd(folder); !status.ok()) return Refuse(status);
  if (const Status status = BackUpStore(folder, file); !status.ok()) return Refuse(status);
  Write(fmt::format("store {} is in {}\n", folder, file));
  return kExitOk;
}

int RestoreStoreFrom(const std::string& folder, const std::string& file) {
  if (const Status status = RefuseEtcd(folder); !status.ok()) return Refuse(status);
  const StatusOr<Contents> contents = ReadBackup(file);
  if (!contents.ok()) return Refuse(contents.status());
  Contents restored;
  Status unread;
  const auto replace = [&](const StatusOr<Contents>& replaced) -> StatusOr<Contents> {
    StatusOr<Contents> rows = RestoredFrom(*contents, replaced.ok() ? *replaced : Contents());
    if (rows.ok()) restored = *rows;
    unread = replaced.ok() ? ReadKept(*replaced, {}).status() : replaced.status();
    return rows;
  };
  std::string before;
  if (const Status status = PutStore(folder, replace, &before); !status.ok()) return Refuse(status);
  const StatusOr<Kept> kept = ReadKept(restored, {});
  std::string words = fmt::format("store {} is that of {}: {}", folder, file, InWords(restored, *kept));
  if (!before.empty()) words += fmt::format("; what was there is in {}", before);
  if (!unread.ok()) {
    words += fmt::format(
        "\nhow far numbers had come here is not known ({}): if this backup has been restored before, "
        "start the engines and ranks anew",
        std::string(unread.message()));
  }
  Write(words + "\n");
  return kExitOk;
}

}  // namespace epic::manager
