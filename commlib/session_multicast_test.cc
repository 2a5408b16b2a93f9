// What a session says and hears of multicast groups.
#include <future>

#include "commlib/session_messages.h"
#include "commlib/session_testing.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

TEST(SessionMulticastTest, ARankThatAsksSaysItsQueuePairAndHearsOfTheGroup) {
  proto::Join join;
  FakeManager manager([&](Stream* stream) {
    join = ReadOne(stream).join();
    proto::ServerMessage message;
    proto::MulticastGroup& group = *message.mutable_joined()->mutable_multicast();
    group.set_address(0xefc00001);
    for (uint32_t rank = 0; rank < kJoin.size; ++rank) group.add_ends()->set_qpn(17 + rank);
    group.set_receives(700);
    group.set_takes_counts(true);
    stream->Write(message);
    ReadOne(stream);
  });
  JoinInfo info = kJoin;
  info.datagram_receives = 900;
  info.datagram_qpn = 18;
  info.datagram_reach = verbs::DatagramReach::kRemote;
  info.datagrams_offered = true;
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  const Error error = Session::Join(manager.address(), info, &session, &joined);
  ASSERT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(join.datagram_qpn(), 18u);
  EXPECT_EQ(join.datagram_reach(), proto::DATAGRAM_REACH_REMOTE);
  EXPECT_TRUE(join.datagrams_offered());
  EXPECT_EQ(join.datagram_receives(), 900u);
  ASSERT_TRUE(joined.multicast);
  EXPECT_EQ(joined.multicast->receives, 700u);
  EXPECT_EQ(joined.multicast->address, Ipv4{0xefc00001});
  EXPECT_EQ(joined.multicast->ends.size(), kJoin.size);
  EXPECT_TRUE(joined.multicast->takes_counts);
  session->Finish();
}

TEST(SessionMulticastTest, WhyThereIsNoneIsHeardAlsoIfTheGroupFailsAtOnce) {
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    proto::ServerMessage message;
    message.mutable_joined()->set_multicast_reason("rank 1 on h1 does not ask for it");
    message.mutable_joined()->set_multicast_error(proto::ERROR_UNSUPPORTED);
    stream->Write(message);
    message.mutable_failure()->set_code(proto::ERROR_ABORTED);
    stream->Write(message);
  });
  // The messages come together or one by one.
  for (int join = 0; join < 50; ++join) {
    std::unique_ptr<Session> session;
    JoinedInfo joined;
    const Error error = Session::Join(manager.address(), kJoin, &session, &joined);
    EXPECT_TRUE(error.ok() || error.code() == ErrorCode::kAborted) << error.message();
    EXPECT_EQ(joined.multicast_reason, "rank 1 on h1 does not ask for it") << error.message();
  }
}

TEST(SessionMulticastTest, TheManagerIsToldWhatHasBecomeOfDatagrams) {
  std::promise<proto::ClientMessage> heard;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    WriteJoined(stream);
    heard.set_value(ReadOne(stream));
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  EXPECT_FALSE(joined.multicast);
  session->TellDatagrams({.expected = 90,
                          .came = 70,
                          .read = 20,
                          .stranger = 1,
                          .stale = 2,
                          .alien = 3,
                          .length = 4,
                          .again = 5});
  const proto::ClientMessage message = heard.get_future().get();
  ASSERT_TRUE(message.has_datagrams());
  const proto::DatagramsSeen& told = message.datagrams();
  EXPECT_EQ(told.expected(), 90u);
  EXPECT_EQ(told.came(), 70u);
  EXPECT_EQ(told.read(), 20u);
  EXPECT_EQ(told.stranger(), 1u);
  EXPECT_EQ(told.stale(), 2u);
  EXPECT_EQ(told.alien(), 3u);
  EXPECT_EQ(told.length(), 4u);
  EXPECT_EQ(told.again(), 5u);
}

TEST(SessionMulticastTest, WhoDoesNotAskSaysNothing) {
  const proto::Join join = ToProto(kJoin).join();
  EXPECT_EQ(join.datagram_qpn(), 0u);
  EXPECT_EQ(join.datagram_reach(), proto::DATAGRAM_REACH_UNSPECIFIED);
  EXPECT_FALSE(join.datagrams_offered());
}

TEST(SessionMulticastTest, AnEndOfTheFetchRingIsToldAsSuch) {
  EXPECT_TRUE(ToProto(PeerEndInfo{.rank = 1, .fetches = true}).peer().fetches());
  EXPECT_FALSE(ToProto(PeerEndInfo{.rank = 1}).peer().fetches());
}

}  // namespace
}  // namespace epic::internal
