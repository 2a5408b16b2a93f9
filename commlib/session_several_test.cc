// A rank of which several managers are known, one of which leads.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "commlib/session.h"
#include "commlib/session_stream.h"
#include "commlib/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

using ::testing::HasSubstr;

Error JoinAt(const std::string& managers, std::chrono::milliseconds away, std::chrono::milliseconds timeout,
             std::unique_ptr<Session>* session) {
  JoinInfo info = kJoin;
  info.away_timeout = away;
  info.manager_timeout = timeout;
  JoinedInfo joined;
  return Session::Join(managers, info, session, &joined);
}

void TakesIn(Stream* stream) {
  proto::ServerMessage message;
  message.mutable_joined()->set_group_id(5);
  message.mutable_joined()->set_secret("secret");
  message.mutable_joined()->set_durable(true);
  message.mutable_joined()->set_path(proto::PATH_HOSTS);
  message.mutable_joined()->set_path_mtu(1024);
  stream->Write(message);
}

// Also one that does not wait for a manager that was there.
TEST(SessionOfSeveral, JoinsAtTheOneThatLeads) {
  for (const auto away : {std::chrono::milliseconds(0), std::chrono::milliseconds(kLongEnough)}) {
    const StandbyManager first, second;
    FakeManager leads([](Stream* stream) {
      EXPECT_EQ(ReadOne(stream).join().rank(), 1u);
      TakesIn(stream);
      ReadOne(stream);
    });
    std::unique_ptr<Session> session;
    const Error e =
        JoinAt(first.address() + "," + second.address() + "," + leads.address(), away, kLongEnough, &session);
    EXPECT_TRUE(e.ok()) << e.message();
  }
}

TEST(SessionOfSeveral, WhoCannotBeReachedIsPassedOver) {
  FakeManager leads([](Stream* stream) {
    ReadOne(stream);
    TakesIn(stream);
    ReadOne(stream);
  });
  std::unique_ptr<Session> session;
  const Error e = JoinAt("127.0.0.1:1," + leads.address(), kLongEnough, kLongEnough, &session);
  EXPECT_TRUE(e.ok()) << e.message();
}

// The first one leads, and is gone; another one leads then. Until then that one takes nobody, and says
// nothing.
TEST(SessionOfSeveral, ComesBackAtTheOneThatLeadsThen) {
  std::promise<void> is_back;
  FakeManager next(
      [&is_back](Stream* stream) {
        const proto::ClientMessage said = ReadOne(stream);
        if (!said.has_rejoin()) return;
        EXPECT_EQ(said.rejoin().secret(), "secret");
        proto::ServerMessage message;
        message.mutable_rejoined();
        stream->Write(message);
        is_back.set_value();
        ReadOne(stream);
      },
      {grpc::StatusCode::UNAVAILABLE, "gone"});
  const StandbyManager stays;
  auto first = std::make_unique<FakeManager>([](Stream* stream) {
    ReadOne(stream);
    TakesIn(stream);
  });
  std::unique_ptr<Session> session;
  const std::string managers = first->address() + "," + stays.address() + "," + next.address();
  const Error e = JoinAt(managers, kLongEnough, kLongEnough, &session);
  ASSERT_TRUE(e.ok()) << e.message();
  first.reset();
  is_back.get_future().wait();
}

// Though it answers, and the host of another one is not known.
TEST(SessionOfSeveral, WhoIsNoManagerIsPassedOver) {
  const OtherServer other;
  FakeManager leads([](Stream* stream) {
    ReadOne(stream);
    TakesIn(stream);
    ReadOne(stream);
  });
  std::unique_ptr<Session> session;
  for (const auto away : {std::chrono::milliseconds(0), std::chrono::milliseconds(kLongEnough)}) {
    const std::string managers = "nosuch.invalid:7400," + other.address() + "," + leads.address();
    const Error e = JoinAt(managers, away, kLongEnough, &session);
    EXPECT_TRUE(e.ok()) << e.message();
  }
  const Error e =
      JoinAt(other.address() + ",127.0.0.1:1", kLongEnough, std::chrono::milliseconds(300), &session);
  EXPECT_EQ(e.code(), ErrorCode::kManagerLost);
  EXPECT_THAT(e.message(), HasSubstr("this is a test, not the manager"));
}

// Attempts are many while nobody leads, and are given free without that the program says anything.
TEST(SessionOfSeveral, AttemptsAreNotKept) {
  const StandbyManager one, two, three, four;
  auto first = std::make_unique<FakeManager>([](Stream* stream) {
    ReadOne(stream);
    TakesIn(stream);
  });
  JoinInfo info = kJoin;
  info.away_timeout = kLongEnough;
  SessionStream session(first->address() + "," + one.address() + "," + two.address() + "," + three.address() +
                            "," + four.address(),
                        info);
  ASSERT_TRUE(session.Connect(kLongEnough, {}).ok());
  JoinedInfo joined;
  ASSERT_TRUE(session.WaitJoined({}, {}, &joined).ok());
  first.reset();
  while (one.asked() < 3) std::this_thread::yield();
  EXPECT_LE(session.kept(), 6u) << "the attempt of now, the one before, and what they wait for";
  session.Close();
}

TEST(SessionOfSeveral, WhereNobodyLeadsItSaysWhatWasAnswered) {
  const StandbyManager first, second;
  std::unique_ptr<Session> session;
  for (const std::string& managers : {first.address(), first.address() + "," + second.address()}) {
    const Error e = JoinAt(managers, kLongEnough, std::chrono::milliseconds(300), &session);
    EXPECT_EQ(e.code(), ErrorCode::kManagerLost);
    EXPECT_THAT(e.message(),
                ::testing::AllOf(HasSubstr("the manager at " + managers), HasSubstr("stands by: b leads")));
  }
  EXPECT_GT(second.asked(), 0);
}

TEST(SessionOfSeveral, WhereNobodyAnswersItSaysSo) {
  std::unique_ptr<Session> session;
  const Error e = JoinAt("127.0.0.1:1,127.0.0.1:2", kLongEnough, std::chrono::milliseconds(200), &session);
  EXPECT_EQ(e.code(), ErrorCode::kManagerUnreachable);
  EXPECT_THAT(e.message(), HasSubstr("cannot reach the manager at 127.0.0.1:1,127.0.0.1:2"));
}

// Neither hides the other: one may be misspelt, and the other one stopped.
TEST(SessionOfSeveral, WhoIsSilentIsNamedBesideWhoIsNotKnown) {
  std::unique_ptr<Session> session;
  const std::string managers = "-.-:7400,127.0.0.1:1,-..-:7400";
  const Error e = JoinAt(managers, kLongEnough, std::chrono::milliseconds(200), &session);
  EXPECT_EQ(e.code(), ErrorCode::kManagerUnreachable);
  EXPECT_EQ(e.message(),
            "cannot reach the manager at 127.0.0.1:1 within 0.2 s (Options::manager, EPIC_MANAGER): this "
            "machine knows no host "
            "-.-; 127.0.0.1:1: nothing listens there (connection refused): is incmanager running there?; "
            "this machine knows no "
            "host -..-");
  EXPECT_THAT(JoinAt("-.-:7400,-..-:7400", kLongEnough, std::chrono::milliseconds(200), &session).message(),
              ::testing::AllOf(HasSubstr("cannot reach the manager at -.-:7400,-..-:7400 (Options"),
                               HasSubstr("host -..-")));
}

}  // namespace
}  // namespace epic::internal
