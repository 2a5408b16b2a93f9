// A rank whose manager goes away and comes back.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commlib/session.h"
#include "commlib/session_messages.h"
#include "commlib/session_stream.h"
#include "commlib/session_testing.h"
#include "commlib/stream_end.h"
#include "commlib/unsaid.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

using ::testing::HasSubstr;

void WriteJoinedWithSecret(Stream* stream) {
  proto::ServerMessage message;
  auto& joined = *message.mutable_joined();
  joined.set_group_id(5);
  joined.set_generation(2);
  joined.set_secret("secret");
  joined.set_durable(true);
  joined.set_path(proto::PATH_HOSTS);
  joined.set_path_mtu(1024);
  stream->Write(message);
}

void WriteRejoined(Stream* stream) {
  proto::ServerMessage message;
  message.mutable_rejoined();
  stream->Write(message);
}

void WriteLeft(Stream* stream) {
  proto::ServerMessage message;
  message.mutable_left();
  stream->Write(message);
}

std::unique_ptr<Session> Joined(const FakeManager& manager, std::chrono::milliseconds away) {
  JoinInfo info = kJoin;
  info.away_timeout = away;
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error e = Session::Join(manager.address(), info, &session, &joined);
  EXPECT_TRUE(e.ok()) << e.message();
  return session;
}

// Each stream to the manager is the next script's.
FakeManager::Script InTurn(std::vector<FakeManager::Script> scripts) {
  auto turn = std::make_shared<std::atomic<size_t>>(0);
  return [turn, scripts = std::move(scripts)](Stream* stream) {
    const size_t at = (*turn)++;
    if (at < scripts.size()) scripts[at](stream);
  };
}

TEST(SessionReturn, ComesBackAndSaysAgainWhatItHasSaid) {
  std::promise<void> goes;
  proto::Join join;
  proto::Rejoin rejoin;
  proto::PeerEnd again;
  FakeManager manager(InTurn({[&](Stream* stream) {
                                join = ReadOne(stream).join();
                                WriteJoinedWithSecret(stream);
                                ReadOne(stream);  // an end
                                goes.get_future().wait();
                              },
                              [&](Stream* stream) {
                                rejoin = ReadOne(stream).rejoin();
                                again = ReadOne(stream).peer();
                                WriteRejoined(stream);
                                EXPECT_TRUE(ReadOne(stream).has_leave());
                                WriteLeft(stream);
                              }}));
  const auto session = Joined(manager, kLongEnough);
  session->SetFailureHandler([](const Error& error) { ADD_FAILURE() << error.message(); });
  session->TellPeer({.rank = 0, .qpn = 18, .psn = 3});
  goes.set_value();
  const Error left = session->Leave(kLongEnough, {});
  EXPECT_TRUE(left.ok()) << left.message();
  EXPECT_TRUE(join.rejoins());
  EXPECT_EQ(rejoin.group(), "g");
  EXPECT_EQ(rejoin.group_id(), 5u);
  EXPECT_EQ(rejoin.generation(), 2u);
  EXPECT_EQ(rejoin.rank(), 1u);
  EXPECT_EQ(rejoin.secret(), "secret");
  EXPECT_EQ(again.qpn(), 18u);
}

TEST(SessionReturn, IsToldHowItsGroupHasEndedMeanwhile) {
  FakeManager manager(InTurn({[](Stream* stream) {
                                ReadOne(stream);
                                WriteJoinedWithSecret(stream);
                              },
                              [](Stream* stream) {
                                ReadOne(stream);
                                WriteFailure(stream, proto::ERROR_RANK_LOST, "rank 0 is gone");
                              }}));
  const auto session = Joined(manager, kLongEnough);
  const Error left = session->Leave(kLongEnough, {});
  EXPECT_EQ(left.code(), ErrorCode::kRankLost);
  EXPECT_EQ(left.message(), "rank 0 is gone");
}

TEST(SessionReturn, AManagerThatDoesNotTakeItBackIsLost) {
  FakeManager manager(InTurn({[](Stream* stream) {
                                ReadOne(stream);
                                WriteJoinedWithSecret(stream);
                              },
                              [](Stream* stream) {
                                ReadOne(stream);
                                WriteFailure(stream, proto::ERROR_INVALID_ARGUMENT,
                                             "a message is join or leave");
                              }}));
  const auto session = Joined(manager, kLongEnough);
  const Error left = session->Leave(kLongEnough, {});
  EXPECT_EQ(left.code(), ErrorCode::kManagerLost);
  EXPECT_THAT(left.message(), HasSubstr("does not take this rank back: a message is join or leave"));
}

// No write goes into a stream that gRPC has given free.
TEST(SessionReturn, MaySpeakWhileItsStreamEnds) {
  std::atomic<bool> is_back = false;
  FakeManager manager(InTurn({[](Stream* stream) {
                                ReadOne(stream);
                                WriteJoinedWithSecret(stream);
                              },
                              [&is_back](Stream* stream) {
                                ReadOne(stream);
                                is_back = true;
                                WriteRejoined(stream);
                                proto::ClientMessage said;
                                while (stream->Read(&said) && !said.has_leave()) continue;
                                WriteLeft(stream);
                              }}));
  const auto session = Joined(manager, kLongEnough);
  while (!is_back) session->TellWindow({.messages = 1});
  const Error left = session->Leave(kLongEnough, {});
  EXPECT_TRUE(left.ok()) << left.message();
}

TEST(SessionReturn, AManagerThatStaysAwayIsLost) {
  std::promise<void> over;
  auto is_over = over.get_future().share();
  FakeManager manager(InTurn({[](Stream* stream) {
                                ReadOne(stream);
                                WriteJoinedWithSecret(stream);
                              },
                              [is_over](Stream*) { is_over.wait(); }}));
  {
    const auto session = Joined(manager, std::chrono::milliseconds(50));
    std::promise<Error> failed;
    session->SetFailureHandler([&failed](const Error& error) { failed.set_value(error); });
    const Error error = failed.get_future().get();
    EXPECT_EQ(error.code(), ErrorCode::kManagerLost);
    EXPECT_THAT(error.message(), HasSubstr("has been away for 0.05 s (EPIC_MANAGER_AWAY)"));
    over.set_value();
  }
}

TEST(SessionReturn, WhoDoesNotWaitLosesItsManagerAtOnce) {
  proto::Join join;
  std::promise<void> goes;
  FakeManager manager([&](Stream* stream) {
    join = ReadOne(stream).join();
    WriteJoinedWithSecret(stream);
    goes.get_future().wait();
  });
  const auto session = Joined(manager, std::chrono::milliseconds(0));
  goes.set_value();
  EXPECT_EQ(session->Leave(kLongEnough, {}).code(), ErrorCode::kManagerLost);
  EXPECT_FALSE(join.rejoins());
}

// Also in the middle of an attempt to come back.
TEST(SessionReturn, MayEndWhileItsManagerIsAway) {
  std::promise<void> again, over;
  auto is_over = over.get_future().share();
  FakeManager manager(InTurn({[](Stream* stream) {
                                ReadOne(stream);
                                WriteJoinedWithSecret(stream);
                              },
                              [&again, is_over](Stream*) {
                                again.set_value();
                                is_over.wait();
                              }}));
  auto session = Joined(manager, kLongEnough);
  again.get_future().wait();
  session.reset();
  over.set_value();
}

// Where the manager lives it takes back also those whose groups would end with it.
TEST(StreamEnd, AStreamMayBeFollowedByAnother) {
  const std::string own = "192.0.2.1:7400", daemon = "unix:/run/epic/host.sock";
  std::optional<JoinedInfo> joined;
  for (const bool has_secret : {false, true}) {
    for (const bool durable : {false, true}) {
      joined.emplace().secret = has_secret ? "secret" : "";
      joined->durable = durable;
      EXPECT_EQ(RejoinOf("g", 1, *joined).rejoin().ends_with_manager(), !durable) << "for its host's daemon";
      EXPECT_EQ(StreamMayReturn(own, joined, grpc::UNAVAILABLE), has_secret && durable);
      EXPECT_EQ(StreamMayReturn(daemon, joined, grpc::ABORTED), has_secret && durable)
          << "it has lost the manager";
      EXPECT_EQ(StreamMayReturn(daemon, joined, grpc::UNAVAILABLE), has_secret) << "it has ended";
    }
  }
  joined.reset();
  EXPECT_TRUE(StreamMayReturn(own, joined, grpc::UNAVAILABLE));
  EXPECT_FALSE(StreamMayReturn(own, joined, grpc::UNIMPLEMENTED));
  EXPECT_TRUE(StreamMayReturn(daemon, joined, grpc::ABORTED));
  EXPECT_FALSE(StreamMayReturn(daemon, joined, grpc::UNAVAILABLE)) << "no manager knows its join";
}

// As one that is killed ends its streams.
const grpc::Status kGone(grpc::StatusCode::UNAVAILABLE, "gone");

std::unique_ptr<SessionStream> JoinedStream(const FakeManager& manager) {
  JoinInfo info = kJoin;
  info.away_timeout = kLongEnough;
  auto session = std::make_unique<SessionStream>(manager.address(), info);
  EXPECT_TRUE(session->Connect(kLongEnough, {}).ok());
  JoinedInfo joined;
  EXPECT_TRUE(session->WaitJoined({}, {}, &joined).ok());
  return session;
}

// Whether the end of the stream has been noticed, or another attempt is under way.
TEST(SessionReturn, AnAbortThatIsSaidWhileTheManagerIsAwayIsHeardBeforeTheSessionEnds) {
  for (const bool is_noticed : {false, true}) {
    std::promise<void> goes;
    proto::ClientMessage rejoin, abort;
    FakeManager manager(InTurn({[&](Stream* stream) {
                                  ReadOne(stream);
                                  WriteJoinedWithSecret(stream);
                                  goes.get_future().wait();
                                },
                                [&](Stream* stream) {
                                  rejoin = ReadOne(stream);
                                  abort = ReadOne(stream);
                                  WriteRejoined(stream);
                                  WriteFailure(stream, proto::ERROR_ABORTED, "rank 1 aborted");
                                }}),
                        kGone);
    const auto session = JoinedStream(manager);
    goes.set_value();
    while (is_noticed && !session->is_away()) std::this_thread::yield();
    session->Send(AbortOf("no more"));
    session->Finish(kLongEnough);
    session->Close();
    EXPECT_TRUE(rejoin.has_rejoin()) << is_noticed;
    EXPECT_EQ(abort.abort().reason(), "no more") << is_noticed;
  }
}

// It is said until it is taken, though that takes longer than a manager that is there has.
TEST(SessionReturn, AnAbortIsSaidAgainToAManagerThatGoesAgain) {
  std::promise<void> goes;
  proto::ClientMessage rejoin, abort;
  const auto goes_again = [](Stream*) {};
  FakeManager manager(InTurn({[&](Stream* stream) {
                                ReadOne(stream);
                                WriteJoinedWithSecret(stream);
                                goes.get_future().wait();
                              },
                              goes_again, goes_again,
                              [&](Stream* stream) {
                                rejoin = ReadOne(stream);
                                abort = ReadOne(stream);
                                WriteRejoined(stream);
                                WriteFailure(stream, proto::ERROR_ABORTED, "rank 1 aborted");
                              }}),
                      kGone);
  const auto session = JoinedStream(manager);
  goes.set_value();
  while (!session->is_away()) std::this_thread::yield();
  session->Send(AbortOf("no more"));
  session->Finish(std::chrono::milliseconds(0), kLongEnough);
  session->Close();
  EXPECT_TRUE(rejoin.has_rejoin());
  EXPECT_EQ(abort.abort().reason(), "no more");
}

TEST(SessionReturn, WhoFinishesDoesNotWaitForAManagerThatStaysAway) {
  std::promise<void> over;
  auto is_over = over.get_future().share();
  FakeManager manager(InTurn({[](Stream* stream) {
                                ReadOne(stream);
                                WriteJoinedWithSecret(stream);
                              },
                              [is_over](Stream*) { is_over.wait(); }}),
                      kGone);
  const auto session = JoinedStream(manager);
  session->Send(AbortOf("no more"));
  session->Finish(std::chrono::milliseconds(10), std::chrono::milliseconds(20));
  session->Close();
  over.set_value();
}

TEST(SessionReturn, WhatAbsencesTookIsGivenFree) {
  constexpr int kAbsences = 5;
  const auto breaks = [](Stream* stream) {
    ReadOne(stream);
    WriteRejoined(stream);
  };
  std::vector<FakeManager::Script> scripts{[](Stream* stream) {
    ReadOne(stream);
    WriteJoinedWithSecret(stream);
  }};
  for (int i = 1; i < kAbsences; ++i) scripts.emplace_back(breaks);
  std::atomic<bool> is_last = false;
  scripts.emplace_back([&is_last](Stream* stream) {
    ReadOne(stream);
    is_last = true;
    WriteRejoined(stream);
    proto::ClientMessage said;
    while (stream->Read(&said)) continue;
  });
  FakeManager manager(InTurn(std::move(scripts)), kGone);
  const auto session = JoinedStream(manager);
  // At last there is the stream of now alone.
  while (!is_last || session->is_away() || session->kept() > 1) {
    session->Send(ToProto(WindowTrials::Found{.messages = 1}));
    std::this_thread::yield();
  }
  session->Close();
}

TEST(Unsaid, HasEndsFirstAndTheLastOfTheRest) {
  Unsaid unsaid;
  proto::ClientMessage message;
  message.mutable_leave();
  unsaid.OnSaid(message);
  for (const uint32_t messages : {1, 2}) {
    message.mutable_window()->set_messages(messages);
    unsaid.OnSaid(message);
    message.mutable_peer()->set_rank(messages);
    unsaid.OnSaid(message);
  }
  message.mutable_probed();
  unsaid.OnSaid(message);
  const std::vector<proto::ClientMessage> again = unsaid.Again();
  ASSERT_EQ(again.size(), 4u);
  EXPECT_EQ(again[0].peer().rank(), 1u);
  EXPECT_EQ(again[1].peer().rank(), 2u);
  EXPECT_EQ(again[2].window().messages(), 2u);
  EXPECT_TRUE(again[3].has_leave());
}

}  // namespace
}  // namespace epic::internal
