#include "incmanager/cli/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>

#include "incmanager/cli/client.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/store/sqlite_store.h"

namespace epic::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StoreCommandTest : public ::testing::Test {
 protected:
  StoreCommandTest() {
    std::string name = ::testing::TempDir() + "epic-store-XXXXXX";
    folder_ = mkdtemp(name.data());
    const auto store = OpenStore(Folder(), true);
    EXPECT_TRUE(store.ok() && (*store)->Apply({RowOf(std::string(16, 'c'), 1)}).ok());
  }
  ~StoreCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Folder() const { return folder_ / "epic"; }
  std::string Backup() const { return folder_ / "backup"; }

 private:
  std::filesystem::path folder_;
};

// What a command says whose standard output is a full device; empty if it says nothing.
std::string ToFullDevice(const std::function<int()>& command) {
  std::fflush(stdout);
  const int out = dup(STDOUT_FILENO);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  EXPECT_GE(dup2(full, STDOUT_FILENO), 0);
  std::string said;
  try {
    command();
  } catch (const std::system_error& error) {
    said = error.what();
  }
  std::clearerr(stdout);
  dup2(out, STDOUT_FILENO);
  close(full);
  close(out);
  return said;
}

TEST_F(StoreCommandTest, OutputThatCannotBeWrittenIsAnError) {
  const std::string kFull = "standard output: No space left on device";
  EXPECT_EQ(ToFullDevice([this] { return CheckStore(Folder()); }), kFull);
  EXPECT_EQ(ToFullDevice([this] { return BackUpStoreTo(Folder(), Backup()); }), kFull);
  EXPECT_EQ(ToFullDevice([this] { return RestoreStoreFrom(Folder(), Backup()); }), kFull);
  EXPECT_EQ(ToFullDevice([this] { return DumpStore(Folder()); }), kFull);
}

TEST_F(StoreCommandTest, ABackupThatIsRestoredTwiceIsAnotherEpochEachTime) {
  const auto epoch = [this] {
    const auto store = OpenStore(Folder(), false);
    return store.ok() ? ReadKept(*(*store)->Load(), {})->epoch : 0;
  };
  const auto restore = [this] {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(RestoreStoreFrom(Folder(), Backup()), kExitOk);
    return ::testing::internal::GetCapturedStdout();
  };
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(BackUpStoreTo(Folder(), Backup()), kExitOk);
  ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(restore(), Not(HasSubstr("not known")));
  EXPECT_EQ(epoch(), 1'000'001u);
  EXPECT_THAT(restore(), HasSubstr("; what was there is in "));
  EXPECT_EQ(epoch(), 2'000'001u);
  // What cannot be read is said.
  std::ofstream(Folder() + "/store.sqlite", std::ios::trunc) << "damaged";
  EXPECT_THAT(restore(), HasSubstr("how far numbers had come here is not known (store "));
  EXPECT_EQ(epoch(), 1'000'001u);
}

}  // namespace
}  // namespace epic::manager
