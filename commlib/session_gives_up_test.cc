// A join that its rank gives up.
#include <future>
#include <memory>

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

}  // namespace
}  // namespace epic::internal
