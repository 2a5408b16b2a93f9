// A file of SQLite's, and statements of it: of the store's sources alone.
#pragma once

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"

namespace epic::manager {

// Of a result of SQLite's.
inline StatusCode CodeOf(int result) {
  switch (result & 0xff) {
    case SQLITE_FULL:
      return StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return StatusCode::kDataLoss;
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return StatusCode::kPermissionDenied;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return StatusCode::kFailedPrecondition;
    default:
      return StatusCode::kInternal;
  }
}

// A statement, until it goes.
class Statement {
 public:
  Statement(sqlite3* database, const char* text) {
    result_ = sqlite3_prepare_v2(database, text, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // True if there is a row; ended() says whether it went well where there is none.
  bool Step() {
    if (statement_ != nullptr) result_ = sqlite3_step(statement_);
    return result_ == SQLITE_ROW;
  }
  bool ended() const { return result_ == SQLITE_DONE; }
  int result() const { return result_; }
  void Reset() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  // What is bound is there until the next Reset.
  void Bind(int at, int64_t number) { sqlite3_bind_int64(statement_, at, number); }
  void Bind(int at, const std::string& bytes) {
    // Of nothing SQLite would make NULL.
    sqlite3_bind_blob64(statement_, at, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
  }
  int64_t Number(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string Bytes(int column) const {
    const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return bytes == nullptr
               ? std::string()
               : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int result_ = SQLITE_OK;
};

// A file of SQLite's, while this lives. Errors are in SQLite's words, with the file and the system's words.
class Database {
 public:
  explicit Database(std::string file) : file_(std::move(file)) {}
  ~Database() { Close(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status Open(int flags) {
    const int result = sqlite3_open_v2(file_.c_str(), &database_, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
    if (result != SQLITE_OK) return Trouble(result);
    // It is nobody else's to read; so are its log and its journal, which get what it has.
    if ((flags & SQLITE_OPEN_CREATE) != 0) static_cast<void>(chmod(file_.c_str(), 0600) == 0);
    sqlite3_extended_result_codes(database_, 1);
    return absl::OkStatus();
  }
  // What its log has is written into the file.
  void Close() { sqlite3_close(std::exchange(database_, nullptr)); }
  sqlite3* get() const { return database_; }
  const std::string& file() const { return file_; }

  Status Do(const char* text) {
    const int result = sqlite3_exec(database_, text, nullptr, nullptr, nullptr);
    return result == SQLITE_OK ? absl::OkStatus() : Trouble(result);
  }
  StatusOr<int64_t> Ask(const char* text) {
    Statement statement(database_, text);
    if (!statement.Step()) return Trouble(statement.result());
    return statement.Number(0);
  }
  // In SQLite's words, and the system's if it has some.
  Status Trouble(int result) const {
    const int error = database_ == nullptr ? 0 : sqlite3_system_errno(database_);
    return MakeStatus(CodeOf(result),
                      fmt::format("store {}: {}{}", file_,
                                  database_ == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(database_),
                                  error == 0 ? "" : fmt::format(" ({})", std::strerror(error))));
  }
  Status Damaged(const std::string& how) const {
    return MakeStatus(StatusCode::kDataLoss, fmt::format("store {}: damaged: {}", file_, how));
  }

 private:
  const std::string file_;
  sqlite3* database_ = nullptr;
};

}  // namespace epic::manager
