#include "incmanager/cli/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "incmanager/cli/client.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/store/sqlite_store.h"

namespace epic::manager {
namespace {

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

}  // namespace
}  // namespace epic::manager
