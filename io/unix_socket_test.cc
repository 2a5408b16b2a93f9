#include "io/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace epic::io {
namespace {

class UnixSocket : public ::testing::Test {
 protected:
  UnixSocket() {
    std::string name = std::filesystem::temp_directory_path() / "epic-socket-test-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~UnixSocket() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/s"; }
  int Bind() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  std::string directory_;
};

TEST_F(UnixSocket, AFreePathIsFine) { EXPECT_TRUE(ClaimSocketPath(path()).ok()); }

TEST_F(UnixSocket, RemovesASocketThatNobodyListensOn) {
  close(Bind());
  EXPECT_TRUE(ClaimSocketPath(path()).ok());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(UnixSocket, LeavesASocketThatSomebodyListensOn) {
  const int fd = Bind();
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_EQ(ClaimSocketPath(path()).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(path()));
  close(fd);
}

TEST_F(UnixSocket, LeavesWhatIsNoSocket) {
  std::ofstream(path()) << "precious";
  EXPECT_EQ(ClaimSocketPath(path()).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(UnixSocket, MakesAMissingDirectoryThatOthersMayEnter) {
  const mode_t before = umask(077);
  EXPECT_TRUE(ClaimSocketPath(directory_ + "/new/s").ok());
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat((directory_ + "/new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, S_IFDIR | 0755u);
  EXPECT_TRUE(ClaimSocketPath(directory_ + "/new/s").ok());
}

TEST_F(UnixSocket, RefusesPathsThatCannotBe) {
  EXPECT_EQ(ClaimSocketPath("").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ClaimSocketPath("/" + std::string(200, 'x')).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ClaimSocketPath(directory_ + "/none/none/s").code(), StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/none"));
  std::ofstream(path()) << "no directory";
  EXPECT_EQ(ClaimSocketPath(path() + "/s").code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace epic::io
