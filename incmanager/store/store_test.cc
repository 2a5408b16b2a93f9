#include "incmanager/store/store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/seeds_testing.h"
#include "incmanager/store/etcd_store.h"
#include "incmanager/store/etcd_testing.h"
#include "incmanager/store/memory_store.h"
#include "incmanager/store/sqlite_store.h"
#include "incmanager/store/store_testing.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RandomBatch;
using testing::TemporaryFolder;

// Whatever they replace.
Replacing These(const Contents& rows) {
  return [rows](const StatusOr<Contents>&) { return rows; };
}

// What a store is, whichever it is. Reopen: as a manager that comes back.
class MemoryKind {
 public:
  Store* store() { return store_.get(); }
  void Reopen() { store_ = std::make_unique<MemoryStore>(*store_->Load()); }

 private:
  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>();
};

class SqliteKind {
 public:
  SqliteKind() { Open(); }
  Store* store() { return store_.get(); }
  void Reopen() {
    store_.reset();
    Open();
  }

 private:
  void Open() {
    auto opened = OpenStore(folder_.Of("store"), true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
};

class EtcdKind {
 public:
  EtcdKind() { Open(); }
  Store* store() { return store_.get(); }
  void Reopen() {
    store_.reset();
    Open();
  }

 private:
  void Open() {
    const auto etcd = std::make_shared<EtcdClient>(std::vector<std::string>{etcd_.address()});
    std::string leader;
    auto lead = EtcdLead::Try(etcd, "a", &leader, [](const std::string&) {});
    ASSERT_TRUE(lead.ok() && *lead != nullptr) << lead.status();
    auto opened = OpenEtcdStore(etcd, *std::move(lead));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  testing::FakeEtcd etcd_;
  std::unique_ptr<Store> store_;
};

template <typename Kind>
class AnyStore : public ::testing::Test {
 protected:
  Kind kind_;
};
using Kinds = ::testing::Types<MemoryKind, SqliteKind, EtcdKind>;
TYPED_TEST_SUITE(AnyStore, Kinds);

TYPED_TEST(AnyStore, HasWhatWasAppliedAlsoWhenItIsOpenedAgain) {
  const TestSeeds seeds = SeedsToRun(10);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
    std::mt19937_64 random(seed);
    Contents model = *this->kind_.store()->Load();
    for (int step = 0; step < 20; ++step) {
      const Batch batch = RandomBatch(&random);
      ASSERT_TRUE(this->kind_.store()->Apply(batch).ok());
      testing::ApplyTo(batch, &model);
      if (random() % 4 == 0) this->kind_.Reopen();
      const StatusOr<Contents> rows = this->kind_.store()->Load();
      ASSERT_TRUE(rows.ok()) << rows.status();
      ASSERT_EQ(*rows, model);
    }
  }
}

TYPED_TEST(AnyStore, TakesNothingOfABatchThatIsTooLarge) {
  Batch batch{{{RowKind::kTenant, "a"}, "1"},
              {{RowKind::kTenant, "b"}, std::string(this->kind_.store()->bounds().bytes, 'x')}};
  const Status status = this->kind_.store()->Apply(batch);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(this->kind_.store()->Load()->empty());
  batch.pop_back();
  EXPECT_TRUE(this->kind_.store()->Apply(batch).ok());
}

TYPED_TEST(AnyStore, KeysAndValuesAreAnyBytes) {
  const std::string bytes("\0a\xff'\"", 5);
  ASSERT_TRUE(
      this->kind_.store()->Apply({{{RowKind::kEvent, bytes}, bytes}, {{RowKind::kEvent, ""}, ""}}).ok());
  this->kind_.Reopen();
  EXPECT_EQ(*this->kind_.store()->Load(),
            (Contents{{{RowKind::kEvent, bytes}, bytes}, {{RowKind::kEvent, ""}, ""}}));
}

TEST(MemoryStore, KnowsWhatItHadBefore) {
  MemoryStore store;
  ASSERT_TRUE(store.Apply({{{RowKind::kMeta, "a"}, "1"}}).ok());
  store.FailWith(MakeStatus(StatusCode::kResourceExhausted, "full"));
  EXPECT_EQ(store.Apply({{{RowKind::kMeta, "b"}, "1"}}).message(), "full");
  store.FailWith(absl::OkStatus());
  ASSERT_TRUE(store.Apply({{{RowKind::kMeta, "a"}, {}}}).ok());
  EXPECT_EQ(store.count(), 2u);
  EXPECT_TRUE(store.After(0).empty());
  EXPECT_EQ(store.After(1).size(), 1u);
  EXPECT_TRUE(store.After(2).empty());
}

class SqliteStoreTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_.Of("store"); }
  std::string file() const { return path() + "/store.sqlite"; }
  std::unique_ptr<Store> Open() const {
    auto opened = OpenStore(path(), true);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  Status Refused() const { return OpenStore(path(), true).status(); }
  void Do(const std::string& text) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  static std::string BytesOf(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(name, std::ios::binary | std::ios::trunc) << bytes;
  }

  const TemporaryFolder folder_;
};

TEST_F(SqliteStoreTest, OneProcessAtATimeHoldsIt) {
  auto first = Open();
  const Status second = Refused();
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr(fmt::format("{}: it is held by process {} on ", path(), getpid())));
  EXPECT_THAT(std::string(BackUpStore(path(), folder_.Of("copy")).message()), HasSubstr("held by process"));
  std::string before;
  EXPECT_THAT(std::string(PutStore(path(), These({}), &before).message()), HasSubstr("held by process"));
  first.reset();
  EXPECT_NE(Open(), nullptr);
}

// As where power went while the first manager of all made it.
TEST_F(SqliteStoreTest, WhatAFirstStartHasBegunIsMade) {
  std::filesystem::create_directory(path());
  Do("PRAGMA journal_mode=WAL");
  ASSERT_GT(std::filesystem::file_size(file()), 0u);
  auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(store->Apply({{{RowKind::kTenant, "a"}, "1"}}).ok());
}

TEST_F(SqliteStoreTest, WhoOnlyLooksLeavesNothingBehind) {
  EXPECT_EQ(OpenStore(path(), false).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(OpenStore(folder_.path, false).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path));
  EXPECT_EQ(OpenStore(folder_.Of("no/folder"), true).status().code(), StatusCode::kNotFound);
}

TEST_F(SqliteStoreTest, WhatIsNoStoreIsRefusedAndStaysAsItIs) {
  ASSERT_TRUE(Open()->Apply({{{RowKind::kTenant, "a"}, "1"}}).ok());
  const std::string good = BytesOf(file());
  const auto expect = [&](const std::string& text, const std::string& word, StatusCode code) {
    if (!text.empty()) Do(text);
    const std::string there = BytesOf(file());
    const Status refused = Refused();
    EXPECT_EQ(refused.code(), code) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(word));
    EXPECT_EQ(BytesOf(file()), there);
    Write(file(), good);
  };
  expect("PRAGMA user_version=2", "format 2, and this version of incmanager knows format 1; a later one",
         StatusCode::kFailedPrecondition);
  expect("PRAGMA application_id=7", "no store of a manager", StatusCode::kFailedPrecondition);
  expect("UPDATE kept SET kind=99", "kind 99", StatusCode::kDataLoss);
  expect("UPDATE kept SET value=x'32'", "row tenant a is not what was written", StatusCode::kDataLoss);
  Write(file(), "that is no database, but a text that is long enough to be one, and then some more of it");
  expect("", "not a database", StatusCode::kDataLoss);
  Write(file(), "");
  expect("", "it is empty, though a manager has had one here", StatusCode::kDataLoss);
  std::filesystem::remove(file());
  EXPECT_THAT(std::string(Refused().message()), HasSubstr("it is gone, though"));
}

// A bit of the file is another than was written: that is refused, with the place, or it is a bit of nothing.
TEST_F(SqliteStoreTest, ADamagedFileIsNeverReadAsAnother) {
  Contents model;
  std::mt19937_64 filling(7);
  {
    const auto store = Open();
    for (int i = 0; i < 40; ++i) {
      const Batch batch = RandomBatch(&filling);
      ASSERT_TRUE(store->Apply(batch).ok());
      testing::ApplyTo(batch, &model);
    }
  }
  const std::string good = BytesOf(file());
  const TestSeeds seeds = SeedsToRun(200);
  uint64_t refused = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
    std::mt19937_64 random(seed);
    std::string bad = good;
    if (seed % 8 == 0) {
      bad.resize(1 + random() % (good.size() - 1));
    } else {
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    }
    for (const char* const part : {"-wal", "-shm", "-journal"}) std::filesystem::remove(file() + part);
    Write(file(), bad);
    const auto opened = OpenStore(path(), true);
    if (!opened.ok()) {
      ++refused;
      ASSERT_THAT(std::string(opened.status().message()), HasSubstr(file()));
      continue;
    }
    ASSERT_EQ(*(*opened)->Load(), model);
  }
  if (seeds.count >= 100) {
    EXPECT_GT(refused, seeds.count / 2);
  }
}

// Killed at any moment it has what it has said to have, or one batch more.
TEST_F(SqliteStoreTest, AfterAKillItHasWhatItHasSaid) {
  const TestSeeds seeds = SeedsToRun(8);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
    std::filesystem::remove_all(path());
    const size_t least = 1 + seed * 7 % 40;
    int said[2];
    ASSERT_EQ(pipe(said), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto opened = OpenStore(path(), true);
      std::mt19937_64 random(seed);
      while (opened.ok() && (*opened)->Apply(RandomBatch(&random)).ok() && write(said[1], "x", 1) == 1) {
      }
      _exit(1);
    }
    close(said[1]);
    size_t kept = 0;
    char byte = 0;
    while (kept < least && read(said[0], &byte, 1) == 1) ++kept;
    kill(child, SIGKILL);
    while (read(said[0], &byte, 1) == 1) ++kept;
    close(said[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_GE(kept, least);
    const StatusOr<Contents> rows = Open()->Load();
    ASSERT_TRUE(rows.ok()) << rows.status();
    Contents model;
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < kept; ++i) testing::ApplyTo(RandomBatch(&random), &model);
    if (*rows == model) continue;
    testing::ApplyTo(RandomBatch(&random), &model);
    EXPECT_EQ(*rows, model);
  }
}

TEST_F(SqliteStoreTest, ABackupIsTheWholeInOneFile) {
  Contents model;
  std::mt19937_64 random(3);
  {
    const auto store = Open();
    for (int i = 0; i < 10; ++i) {
      const Batch batch = RandomBatch(&random);
      ASSERT_TRUE(store->Apply(batch).ok());
      testing::ApplyTo(batch, &model);
    }
  }
  const std::string copy = folder_.Of("copy");
  ASSERT_TRUE(BackUpStore(path(), copy).ok());
  EXPECT_EQ(BackUpStore(path(), copy).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadBackup(copy), model);
  EXPECT_EQ(ReadBackup(folder_.Of("nothing")).status().code(), StatusCode::kNotFound);
  Write(folder_.Of("text"), "no backup");
  EXPECT_EQ(ReadBackup(folder_.Of("text")).status().code(), StatusCode::kDataLoss);
}

// What is replaced is read with its log, and left as it is.
TEST_F(SqliteStoreTest, WhoReplacesAStoreIsToldWhatIsInIt) {
  const Contents rows{{{RowKind::kTenant, "a"}, "1"}};
  std::string before;
  std::vector<StatusOr<Contents>> told;
  const auto put = [&] {
    return PutStore(
        path(), [&](const StatusOr<Contents>& replaced) { return told.push_back(replaced), rows; }, &before);
  };
  ASSERT_TRUE(put().ok());
  EXPECT_EQ(told.back().status().code(), StatusCode::kNotFound);
  // As a manager that is killed leaves it: its last rows are in its log alone.
  {
    const auto store = Open();
    ASSERT_TRUE(store->Apply({{{RowKind::kTenant, "b"}, "2"}}).ok());
    for (const char* const part : {"", "-wal"}) {
      ASSERT_TRUE(std::filesystem::exists(file() + part));
      std::filesystem::copy_file(file() + part, folder_.Of("left") + part);
    }
  }
  for (const char* const part : {"", "-wal"})
    std::filesystem::copy_file(folder_.Of("left") + part, file() + part,
                               std::filesystem::copy_options::overwrite_existing);
  ASSERT_TRUE(put().ok());
  ASSERT_TRUE(told.back().ok()) << told.back().status();
  EXPECT_EQ(told.back()->size(), 2u);
  for (const char* const part : {"", "-wal"})
    EXPECT_EQ(BytesOf(before + part), BytesOf(folder_.Of("left") + part));
  Write(file(), "damaged");
  ASSERT_TRUE(put().ok());
  EXPECT_EQ(told.back().status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(BytesOf(before), "damaged");
  EXPECT_EQ(*Open()->Load(), rows);
  // Who does not want to replace it leaves all as it was.
  const auto refuse = [](const StatusOr<Contents>&) -> StatusOr<Contents> {
    return MakeStatus(StatusCode::kFailedPrecondition, "no");
  };
  EXPECT_EQ(PutStore(path(), refuse, &before).message(), "no");
  EXPECT_EQ(*Open()->Load(), rows);
  for (const auto& entry : std::filesystem::directory_iterator(path()))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".read"))) << "a copy";
}

TEST_F(SqliteStoreTest, APutStoreLeavesWhatWasThereBesideIt) {
  const Contents rows{{{RowKind::kTenant, "a"}, "1"}};
  std::string before;
  ASSERT_TRUE(PutStore(path(), These(rows), &before).ok());
  EXPECT_EQ(before, "");
  EXPECT_EQ(*Open()->Load(), rows);
  Write(file(), "damaged");
  ASSERT_TRUE(PutStore(path(), These(rows), &before).ok());
  EXPECT_EQ(BytesOf(before), "damaged");
  EXPECT_EQ(*Open()->Load(), rows);
  ASSERT_TRUE(PutStore(path(), These({}), &before).ok());
  EXPECT_THAT(before, HasSubstr("before-2"));
  EXPECT_TRUE(Open()->Load()->empty());
}

}  // namespace
}  // namespace epic::manager
