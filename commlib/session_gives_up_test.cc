// A join that its rank gives up, or that finds no manager.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>

#include "commlib/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

Error JoinUntil(const std::string& manager, const std::function<bool()>& gives_up) {
  JoinInfo info = kJoin;
  info.manager_timeout = std::chrono::hours(1);
  info.gives_up = gives_up;
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  return Session::Join(manager, info, &session, &joined);
}

TEST(SessionGivesUpTest, WhileOtherRanksAreMissing) {
  std::promise<void> joins, over;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    joins.set_value();
    over.get_future().wait();
  });
  const std::shared_future<void> joining = joins.get_future().share();
  const Error e = JoinUntil(manager.address(), [&joining] {
    joining.wait();
    return true;
  });
  over.set_value();
  EXPECT_EQ(e.code(), ErrorCode::kAborted);
  EXPECT_THAT(e.message(), testing::HasSubstr("given up"));
}

TEST(SessionGivesUpTest, WhileThereIsNoManager) {
  int asked = 0;
  const Error e = JoinUntil("127.0.0.1:1", [&asked] { return ++asked == 2; });
  EXPECT_EQ(e.code(), ErrorCode::kAborted);
  EXPECT_EQ(asked, 2);
}

// Who does not give up joins as ever.
TEST(SessionGivesUpTest, OrNot) {
  FakeManager manager([](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    ReadOne(stream);
  });
  EXPECT_TRUE(JoinUntil(manager.address(), [] { return false; }).ok());
}

// What Join says if nobody is found at the address in time.
std::string Unreached(const std::string& manager) {
  JoinInfo info = kJoin;
  info.manager_timeout = std::chrono::milliseconds(200);
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join(manager, info, &session, &joined);
  EXPECT_EQ(e.code(), ErrorCode::kManagerUnreachable);
  return e.message();
}

TEST(SessionTest, AnAddressThatRefusesAndOneThatIsSilentAreToldApart) {
  const std::string head = " within 0.2 s (Options::manager, EPIC_MANAGER): ";
  EXPECT_EQ(Unreached("127.0.0.1:1"),
            "cannot reach the manager at 127.0.0.1:1" + head +
                "nothing listens there (connection refused): is incmanager running there?");
  EXPECT_EQ(Unreached("unix:/nonexistent/socket"), "cannot reach the manager at unix:/nonexistent/socket" +
                                                       head +
                                                       "there is no such socket: is inchost running there?");
  // Takes connections, and says nothing.
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(silent, 16), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string there = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  EXPECT_EQ(Unreached(there),
            "cannot reach the manager at " + there + head +
                "nobody answers there: is the address right, and does a firewall drop what is sent to it?");
  close(silent);
}

}  // namespace
}  // namespace epic::internal
