#include "incmanager/store/sqlite_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "incmanager/store/sqlite_database.h"
#include "incmanager/store/store_folder.h"

namespace epic::manager {
namespace {

constexpr int64_t kApplicationId = 0x45504943;  // "EPIC"
constexpr int64_t kSchemaFormat = 1;

constexpr char kSchema[] =
    "CREATE TABLE kept(kind INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, digest INTEGER NOT "
    "NULL, "
    "PRIMARY KEY(kind, key)) WITHOUT ROWID";

// As SQLite has numbers.
int64_t SignedDigestOf(const RowKey& row, std::string_view value) {
  return static_cast<int64_t>(DigestOf(row, value));
}

// That it is a store, of this format. Changes nothing.
Status CheckKind(Database* database) {
  const StatusOr<int64_t> application = database->Ask("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const StatusOr<int64_t> format = database->Ask("PRAGMA user_version");
  if (!format.ok()) return format.status();
  if (*application != kApplicationId) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("store {}: this file is no store of a manager", database->file()));
  }
  if (*format == kSchemaFormat) return absl::OkStatus();
  return MakeStatus(
      StatusCode::kFailedPrecondition,
      fmt::format("store {}: it has format {}, and this version of incmanager knows format {}{}",
                  database->file(), *format, kSchemaFormat,
                  *format > kSchemaFormat ? "; a later one has written it" : ""));
}

// An empty database, of no kind.
bool HasNothing(Database* database) {
  const StatusOr<int64_t> application = database->Ask("PRAGMA application_id");
  const StatusOr<int64_t> tables = database->Ask("SELECT count(*) FROM sqlite_master");
  return application.ok() && *application == 0 && tables.ok() && *tables == 0;
}

// By SQLite's own check of all pages.
Status CheckPages(Database* database) {
  Statement check(database->get(), "PRAGMA quick_check(1)");
  if (!check.Step()) return database->Trouble(check.result());
  if (const std::string found = check.Bytes(0); found != "ok") return database->Damaged(found);
  return absl::OkStatus();
}

StatusOr<Contents> ReadRows(Database* database) {
  Contents rows;
  Statement select(database->get(), "SELECT kind, key, value, digest FROM kept");
  while (select.Step()) {
    const std::optional<RowKind> kind = RowKindOf(select.Number(0));
    if (!kind) return database->Damaged(fmt::format("a row of kind {}, which is none", select.Number(0)));
    const RowKey row{*kind, select.Bytes(1)};
    std::string value = select.Bytes(2);
    if (SignedDigestOf(row, value) != select.Number(3))
      return database->Damaged(fmt::format("row {} {} is not what was written", Name(row.kind), row.key));
    rows[row] = std::move(value);
  }
  if (!select.ended()) return database->Trouble(select.result());
  return rows;
}

Status Make(Database* database) {
  return database->Do(fmt::format("BEGIN; PRAGMA application_id={}; PRAGMA user_version={}; {}; COMMIT",
                                  kApplicationId, kSchemaFormat, kSchema)
                          .c_str());
}

Status ApplyTo(Database* database, const Batch& batch) {
  Statement put(database->get(), "INSERT OR REPLACE INTO kept VALUES(?1, ?2, ?3, ?4)");
  Statement drop(database->get(), "DELETE FROM kept WHERE kind = ?1 AND key = ?2");
  if (Status status = database->Do("BEGIN IMMEDIATE"); !status.ok()) return status;
  Status status;
  for (const RowChange& change : batch) {
    Statement& statement = change.value ? put : drop;
    statement.Reset();
    statement.Bind(1, static_cast<int64_t>(change.row.kind));
    statement.Bind(2, change.row.key);
    if (change.value) {
      statement.Bind(3, *change.value);
      statement.Bind(4, SignedDigestOf(change.row, *change.value));
    }
    statement.Step();
    if (statement.ended()) continue;
    status = database->Trouble(statement.result());
    break;
  }
  put.Reset();
  drop.Reset();
  if (status.ok()) status = database->Do("COMMIT");
  // After some errors SQLite has taken it back itself.
  if (!status.ok() && sqlite3_get_autocommit(database->get()) == 0)
    static_cast<void>(database->Do("ROLLBACK"));
  return status;
}

class SqliteStore : public Store {
 public:
  explicit SqliteStore(StoreFolder folder) : folder_(std::move(folder)), database_(folder_.File()) {}

  Status Open(bool makes) {
    std::error_code error;
    const auto size = std::filesystem::file_size(database_.file(), error);
    const bool is_there = !error && size != 0;
    if (!is_there && folder_.was_held()) {
      return MakeStatus(
          StatusCode::kDataLoss,
          fmt::format("store {}: it is {}, though a manager has had one here: restore a backup, or "
                      "remove {}/holder to begin anew",
                      database_.file(), error ? "gone" : "empty", folder_.path()));
    }
    if (!is_there && !makes)
      return MakeStatus(StatusCode::kNotFound, fmt::format("store {}: there is none", folder_.path()));
    if (Status status = database_.Open(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE); !status.ok())
      return status;
    if (Status status = database_.Do("PRAGMA locking_mode=EXCLUSIVE"); !status.ok()) return status;
    // What a first start leaves that ended before it had made anything.
    const bool is_made = is_there && (folder_.was_held() || !HasNothing(&database_));
    if (is_made) {
      if (Status status = CheckKind(&database_); !status.ok()) return status;
      if (Status status = CheckPages(&database_); !status.ok()) return status;
    }
    if (Status status = is_made ? absl::OkStatus() : Make(&database_); !status.ok()) return status;
    if (Status status = database_.Do("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"); !status.ok())
      return status;
    if (const StatusOr<Contents> rows = Load(); !rows.ok()) return rows.status();
    folder_.SayWhoHolds();
    return absl::OkStatus();
  }

  StatusOr<Contents> Load() override { return ReadRows(&database_); }
  Status Apply(const Batch& batch) override {
    if (SizeOf(batch) > kMostBytes) {
      return MakeStatus(StatusCode::kInvalidArgument,
                        fmt::format("store {}: a batch of {} bytes is larger than {}", folder_.path(),
                                    SizeOf(batch), kMostBytes));
    }
    return ApplyTo(&database_, batch);
  }
  void Close() override { database_.Close(); }
  std::string Place() const override { return folder_.path(); }
  Database* database() { return &database_; }

 private:
  const StoreFolder folder_;
  Database database_;
};

StatusOr<std::unique_ptr<SqliteStore>> OpenFolder(const std::string& path, bool makes) {
  // Who only looks leaves nothing behind where there is no store.
  if (!makes && !std::filesystem::exists(path + "/holder"))
    return MakeStatus(StatusCode::kNotFound, fmt::format("store {}: there is none", path));
  StatusOr<StoreFolder> folder = StoreFolder::Hold(path);
  if (!folder.ok()) return folder.status();
  auto store = std::make_unique<SqliteStore>(*std::move(folder));
  if (Status status = store->Open(makes); !status.ok()) return status;
  return store;
}

Status CopyTo(const std::string& file, Database* from) {
  Database copy(file);
  if (Status status = copy.Open(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE); !status.ok()) return status;
  sqlite3_backup* const backup = sqlite3_backup_init(copy.get(), "main", from->get(), "main");
  if (backup == nullptr) return copy.Trouble(sqlite3_errcode(copy.get()));
  sqlite3_backup_step(backup, -1);
  if (const int result = sqlite3_backup_finish(backup); result != SQLITE_OK) return copy.Trouble(result);
  // One file, without a log beside it.
  return copy.Do("PRAGMA synchronous=FULL; PRAGMA journal_mode=DELETE");
}

// What of a file was said to be written is on the disk then, and its name in its folder.
Status Synchronise(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0 && fsync(file) == 0) {
    close(file);
    return absl::OkStatus();
  }
  const int error = errno;
  if (file >= 0) close(file);
  return MakeStatus(StatusCode::kInternal, fmt::format("{}: {}", path, std::strerror(error)));
}

Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return MakeStatus(StatusCode::kInternal, fmt::format("{}: {}", to, std::strerror(errno)));
}

// Of a file that nobody else has.
StatusOr<Contents> ReadWhole(Database* database) {
  if (Status status = CheckKind(database); !status.ok()) return status;
  if (Status status = CheckPages(database); !status.ok()) return status;
  return ReadRows(database);
}

// A store's file, its log and its journal.
constexpr const char* kParts[] = {"", "-wal", "-journal"};

// What is in the folder's store, by a copy: SQLite writes to a file with a log when it reads it.
StatusOr<Contents> ReadReplaced(const StoreFolder& folder) {
  if (!std::filesystem::exists(folder.File()))
    return MakeStatus(StatusCode::kNotFound, fmt::format("store {}: there is none", folder.path()));
  const std::string copy = folder.File() + ".read";
  std::error_code error;
  for (const char* const part : kParts) {
    std::filesystem::remove(copy + part, error);
    if (std::filesystem::exists(folder.File() + part))
      std::filesystem::copy_file(folder.File() + part, copy + part, error);
    if (error) return MakeStatus(StatusCode::kInternal, fmt::format("{}: {}", copy, error.message()));
  }
  StatusOr<Contents> rows;
  {
    Database database(copy);
    Status status = database.Open(SQLITE_OPEN_READWRITE);
    // Alone; nothing of it is shared memory then.
    if (status.ok()) status = database.Do("PRAGMA locking_mode=EXCLUSIVE");
    rows = status.ok() ? ReadWhole(&database) : StatusOr<Contents>(status);
  }
  for (const char* const part : kParts) std::filesystem::remove(copy + part, error);
  return rows;
}

}  // namespace

StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& folder, bool makes) {
  StatusOr<std::unique_ptr<SqliteStore>> store = OpenFolder(folder, makes);
  if (!store.ok()) return store.status();
  return std::unique_ptr<Store>(*std::move(store));
}

Status BackUpStore(const std::string& folder, const std::string& file) {
  const StatusOr<std::unique_ptr<SqliteStore>> store = OpenFolder(folder, false);
  if (!store.ok()) return store.status();
  if (std::filesystem::exists(file))
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("{}: there is a file already", file));
  Status status = CopyTo(file, (*store)->database());
  if (!status.ok()) std::remove(file.c_str());
  return status;
}

StatusOr<Contents> ReadBackup(const std::string& file) {
  if (!std::filesystem::exists(file))
    return MakeStatus(StatusCode::kNotFound, fmt::format("{}: there is no such file", file));
  Database database(file);
  if (Status status = database.Open(SQLITE_OPEN_READONLY); !status.ok()) return status;
  return ReadWhole(&database);
}

Status PutStore(const std::string& path, const Replacing& rows, std::string* before) {
  before->clear();
  const StatusOr<StoreFolder> folder = StoreFolder::Hold(path);
  if (!folder.ok()) return folder.status();
  const StatusOr<Contents> contents = rows(ReadReplaced(*folder));
  if (!contents.ok()) return contents.status();
  const std::string made = folder->File() + ".new";
  std::remove(made.c_str());
  {
    Database database(made);
    if (Status status = database.Open(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE); !status.ok())
      return status;
    if (Status status = database.Do("PRAGMA synchronous=FULL"); !status.ok()) return status;
    if (Status status = Make(&database); !status.ok()) return status;
    Batch batch;
    for (const auto& [row, value] : *contents) batch.push_back({row, value});
    if (Status status = ApplyTo(&database, batch); !status.ok()) return status;
  }
  // Its log belongs to it, and to no other file. First the file: whoever starts in between says that it is gone.
  for (const char* const part : kParts) {
    if (!std::filesystem::exists(folder->File() + part)) continue;
    for (int number = 1; before->empty() || std::filesystem::exists(*before + part); ++number)
      *before = fmt::format("{}.before-{}", folder->File(), number);
    if (Status status = Rename(folder->File() + part, *before + part); !status.ok()) return status;
  }
  if (Status status = Rename(made, folder->File()); !status.ok()) return status;
  folder->SayWhoHolds();
  return Synchronise(folder->path());
}

}  // namespace epic::manager
