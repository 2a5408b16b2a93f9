#include "commlib/session.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "commlib/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

TEST(SessionTest, JoinsAndLeaves) {
  proto::Join seen;
  bool drained = false;
  FakeManager manager([&](Stream* stream) {
    seen = ReadOne(stream).join();
    proto::ServerMessage waiting;
    waiting.mutable_waiting()->add_missing_ranks(0);
    stream->Write(waiting);
    WriteJoined(stream);
    drained = ReadOne(stream).leave().drained();
    proto::ServerMessage left;
    left.mutable_left();
    stream->Write(left);
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join(manager.address(), kJoin, &session, &joined);
  ASSERT_TRUE(e.ok()) << e.message();
  EXPECT_EQ(seen.group(), "g");
  EXPECT_EQ(seen.rank(), 1u);
  EXPECT_EQ(seen.ip(), 0x0a000002u);
  EXPECT_EQ(seen.qpn(), 17u);
  EXPECT_EQ(joined.connect.remote_qpn, 0x100000u);
  EXPECT_EQ(joined.connect.recv_psn, 2u);
  EXPECT_EQ(joined.connect.timeout, 18);
  EXPECT_EQ(joined.window_messages, 4u);
  EXPECT_EQ(joined.start_messages, 3u);
  EXPECT_TRUE(session->Leave(kLongEnough, {}).ok());
  EXPECT_TRUE(drained);
}

TEST(SessionTest, WhatIsNoManagerSaysWhatItIs) {
  const OtherServer server;
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join(server.address(), kJoin, &session, &joined);
  EXPECT_EQ(e.code(), ErrorCode::kManagerUnreachable);
  EXPECT_EQ(e.message(),
            "what answers at " + server.address() +
                " is no manager (Options::manager, EPIC_MANAGER): this is a test, not the manager");
}

// At once, and not when the time is over.
TEST(SessionTest, AHostThatThereIsNotIsNamed) {
  JoinInfo info = kJoin;
  info.manager_timeout = std::chrono::hours(1);
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join("-.-:7400", info, &session, &joined);
  EXPECT_EQ(e.code(), ErrorCode::kManagerUnreachable);
  EXPECT_THAT(e.message(), testing::HasSubstr("this machine knows no host -.-"));
}

// They are for the programs beside which a rank runs; port 1 takes no connections.
TEST(SessionTest, AsksNoProxy) {
  const char* const variables[] = {"http_proxy", "https_proxy", "grpc_proxy", "no_proxy", "no_grpc_proxy"};
  std::map<std::string, std::string> before;
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable)) before[variable] = value;
    unsetenv(variable);
  }
  for (const char* variable : {"http_proxy", "https_proxy", "grpc_proxy"})
    setenv(variable, "http://127.0.0.1:1", 1);
  FakeManager manager([](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    ReadOne(stream);
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join(manager.address(), kJoin, &session, &joined);
  EXPECT_TRUE(e.ok()) << e.message();
  for (const char* variable : variables) unsetenv(variable);
  for (const auto& [variable, value] : before) setenv(variable.c_str(), value.c_str(), 1);
}

// Of a rank that has joined and stays until it says something.
class JoinedSession : public ::testing::Test {
 protected:
  void SetUp() override {
    JoinedInfo joined;
    ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  }
  FakeManager manager{[](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    ReadOne(stream);
  }};
  std::unique_ptr<Session> session;
};

TEST_F(JoinedSession, TellsOfTroubleThatIsNotZero) {
  std::vector<TroubleCount> counts{{"of before", "x", 1}};
  const Error e = session->Trouble(&counts);
  ASSERT_TRUE(e.ok()) << e.message();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0].switch_name, "s1");
  EXPECT_EQ(counts[1].switch_name, "s2");
  EXPECT_EQ(counts[1].what, "repeats");
  EXPECT_EQ(counts[1].count, 7u);
}

TEST_F(JoinedSession, TellsWhomTheGroupWaitsFor) {
  EXPECT_EQ(session->WaitInWords(), "") << "nobody has asked";
  manager.waits = true;
  session->AskWait(kLongEnough);
  const auto give_up = std::chrono::steady_clock::now() + kLongEnough;
  while (session->WaitInWords().empty() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  EXPECT_EQ(session->WaitInWords(), "allreduce 17: waits for rank 1 (h1)");
  WaitState waits;
  ASSERT_TRUE(session->Waiting(&waits).ok());
  EXPECT_EQ(waits.words, "allreduce 17: waits for rank 1 (h1)");
  EXPECT_TRUE(waits.collective == "allreduce" && waits.call == 17);
  EXPECT_EQ(waits.for_time, std::chrono::milliseconds(4200));
  EXPECT_THAT(waits.ranks, testing::ElementsAre(1));
  EXPECT_THAT(waits.silent, testing::ElementsAre("s3"));
  std::vector<TroubleCount> counts;
  ASSERT_TRUE(session->Trouble(&counts).ok());
  EXPECT_EQ(counts.size(), 2u) << "what waits is no trouble";
  // A question that is not answered any more is taken back with the session.
  session->AskWait(kLongEnough);
}

TEST(SessionTest, RefusalsKeepTheirCode) {
  FakeManager manager([](Stream* stream) {
    ReadOne(stream);
    WriteFailure(stream, proto::ERROR_DUPLICATE_RANK, "rank 1 is held by h3");
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join(manager.address(), kJoin, &session, &joined);
  EXPECT_EQ(e.code(), ErrorCode::kDuplicateRank);
  EXPECT_EQ(e.message(), "rank 1 is held by h3");
}

TEST(SessionTest, TheManagerIsToldOfTheWindow) {
  std::promise<proto::WindowInUse> heard;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    heard.set_value(ReadOne(stream).window());
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  session->TellWindow(
      {.messages = 2, .ns_per_packet = 310, .before_messages = 4, .before_ns_per_packet = 402});
  const proto::WindowInUse told = heard.get_future().get();
  EXPECT_EQ(told.messages(), 2u);
  EXPECT_EQ(told.ns_per_packet(), 310u);
  EXPECT_EQ(told.before_messages(), 4u);
  EXPECT_EQ(told.before_ns_per_packet(), 402u);
}

// Joins, sets a handler, lets the manager run `then`, and returns what the handler got.
Error FailureAfterJoin(const FakeManager::Script& then) {
  std::promise<void> handler_set;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    handler_set.get_future().wait();
    then(stream);
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  if (Error e = Session::Join(manager.address(), kJoin, &session, &joined); !e.ok()) return e;
  std::promise<Error> failure;
  session->SetFailureHandler([&](const Error& e) { failure.set_value(e); });
  handler_set.set_value();
  return failure.get_future().get();
}

TEST(SessionTest, FailuresReachTheHandler) {
  const Error e = FailureAfterJoin(
      [](Stream* stream) { WriteFailure(stream, proto::ERROR_RANK_LOST, "rank 0 (h0) is gone"); });
  EXPECT_EQ(e.code(), ErrorCode::kRankLost);
  EXPECT_EQ(e.message(), "rank 0 (h0) is gone");
}

// What ranks say of their ends goes both ways, also what came before there was a handler.
TEST(SessionTest, EndsOfConnectionsArePassedOn) {
  proto::Join join;
  proto::PeerEnd told;
  FakeManager manager([&](Stream* stream) {
    join = ReadOne(stream).join();
    WriteJoined(stream);
    proto::ServerMessage message;
    for (const bool ready : {false, true}) {
      message.mutable_peer()->set_rank(0);
      message.mutable_peer()->set_qpn(21);
      message.mutable_peer()->set_ready(ready);
      stream->Write(message);
    }
    told = ReadOne(stream).peer();
    message.mutable_peer()->set_rank(2);
    stream->Write(message);
    ReadOne(stream);
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  JoinInfo info = kJoin;
  info.path = PathChoice::kHosts;
  ASSERT_TRUE(Session::Join(manager.address(), info, &session, &joined).ok());
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<PeerEndInfo> heard;
  session->SetPeerHandler([&](const PeerEndInfo& end) {
    if (end.ready && end.rank == 0) session->TellPeer({.rank = 0, .qpn = 5, .psn = 6, .ready = true});
    const std::lock_guard lock(mutex);
    heard.push_back(end);
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return heard.size() == 3; });
  }
  EXPECT_EQ(join.path(), proto::PATH_HOSTS);
  EXPECT_EQ(heard[0], (PeerEndInfo{.rank = 0, .qpn = 21}));
  EXPECT_EQ(heard[1], (PeerEndInfo{.rank = 0, .qpn = 21, .ready = true}));
  EXPECT_EQ(heard[2].rank, 2u);
  EXPECT_EQ(told.rank(), 0u);
  EXPECT_EQ(told.qpn(), 5u);
  EXPECT_EQ(told.psn(), 6u);
  EXPECT_TRUE(told.ready());
}

// A handler makes a connection, which may take seconds: meanwhile the manager is heard.
TEST(SessionTest, WhatTheManagerSaysIsHeardWhileAHandlerBlocks) {
  std::promise<void> handler_set, in_handler, over;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    handler_set.get_future().wait();
    proto::ServerMessage message;
    message.mutable_peer()->set_rank(0);
    message.mutable_peer()->set_qpn(21);
    stream->Write(message);
    in_handler.get_future().wait();
    WriteFailure(stream, proto::ERROR_RANK_LOST, "rank 0 (h0) is gone");
    over.get_future().wait();
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  std::promise<Error> failure;
  session->SetFailureHandler([&](const Error& e) { failure.set_value(e); });
  std::future<Error> told = failure.get_future();
  std::promise<bool> heard;
  session->SetPeerHandler([&](const PeerEndInfo&) {
    in_handler.set_value();
    heard.set_value(told.wait_for(kLongEnough) == std::future_status::ready);
  });
  handler_set.set_value();
  EXPECT_TRUE(heard.get_future().get());
  EXPECT_EQ(told.get().code(), ErrorCode::kRankLost);
  over.set_value();
}

TEST(SessionTest, ProbesAreAnsweredAtOnce) {
  JoinInfo info = kJoin;
  info.ip = Ipv4{0x7f000001};  // of this machine
  std::vector<proto::Probed> answers;
  std::promise<void> answered;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    for (int i = 0; i < 2; ++i) {
      proto::ServerMessage message;
      message.mutable_probe()->set_ip(0x7f000002);
      stream->Write(message);
      answers.push_back(ReadOne(stream).probed());
    }
    answered.set_value();
    ReadOne(stream);  // nothing more comes: a stream that ended before Join has returned would be its failure
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), info, &session, &joined).ok());
  answered.get_future().wait();
  ASSERT_EQ(answers.size(), 2u);
  for (const proto::Probed& answer : answers) EXPECT_EQ(answer.ip(), 0x7f000002u);
  EXPECT_FALSE(answers[0].asked());
  EXPECT_TRUE(answers[1].asked());
  EXPECT_EQ(answers[1].answered(), 0u) << "nobody echoes there";
}

TEST(SessionTest, BrokenStreamIsManagerLost) {
  EXPECT_EQ(FailureAfterJoin([](Stream*) {}).code(), ErrorCode::kManagerLost);
}

TEST(SessionTest, FailureBeforeTheHandlerIsNotForgotten) {
  std::promise<void> have_joined;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    have_joined.get_future().wait();
    WriteFailure(stream, proto::ERROR_SWITCH_LOST, "leaf1");
    ReadOne(stream);
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  have_joined.set_value();
  EXPECT_EQ(session->Leave(kLongEnough, {}).code(), ErrorCode::kSwitchLost);
  ErrorCode seen = ErrorCode::kOk;
  session->SetFailureHandler([&](const Error& e) { seen = e.code(); });
  EXPECT_EQ(seen, ErrorCode::kSwitchLost);
}

TEST(SessionTest, LeavesWithWhatItsCallWasRefusedWith) {
  proto::Leave seen;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    seen = ReadOne(stream).leave();
    WriteFailure(stream, proto::ERROR_RANK_LOST, "rank 0");
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  EXPECT_EQ(session->Leave(kLongEnough, {ErrorCode::kMismatch, "count"}).code(), ErrorCode::kRankLost);
  EXPECT_TRUE(seen.drained());
  EXPECT_EQ(seen.refused().code(), proto::ERROR_MISMATCH);
  EXPECT_EQ(seen.refused().message(), "count");
}

TEST(SessionTest, AbortReachesTheManager) {
  std::promise<std::string> reason;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    reason.set_value(ReadOne(stream).abort().reason());
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  session->Abort("no more");
  session->Finish();
  session.reset();
  EXPECT_EQ(reason.get_future().get(), "no more");
}

TEST(SessionTest, AMismatchReachesTheManagerAsOne) {
  std::promise<proto::Abort> told;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    told.set_value(ReadOne(stream).abort());
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  session->TellMismatch("rank 2 called with another count");
  session->Finish();
  session.reset();
  const proto::Abort abort = told.get_future().get();
  EXPECT_TRUE(abort.mismatch());
  EXPECT_EQ(abort.reason(), "rank 2 called with another count");
}

TEST(SessionTest, LocalJoinTimeoutNamesWhoIsMissing) {
  std::promise<void> over;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    proto::ServerMessage waiting;
    waiting.mutable_waiting()->add_missing_ranks(3);
    stream->Write(waiting);
    over.get_future().wait();
  });
  JoinInfo info = kJoin;
  info.join_timeout = std::chrono::milliseconds(1);
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join(manager.address(), info, &session, &joined);
  over.set_value();
  EXPECT_EQ(e.code(), ErrorCode::kJoinTimeout);
  EXPECT_THAT(e.message(), testing::HasSubstr("3"));
}

}  // namespace
}  // namespace epic::internal
