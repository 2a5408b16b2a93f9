#include "base/grpc/server_stream.h"

#include <gtest/gtest.h>

#include "proto/manager.pb.h"

namespace epic {
namespace {

using TestStream = ServerStream<proto::ClientMessage, proto::ServerMessage>;

class CountingSink : public TestStream::Sink {
 public:
  void OnMessage(uint64_t, const proto::ClientMessage&) override { ++messages; }
  void OnClosed(uint64_t) override { ++closed; }
  void OnGone(uint64_t) override { ++gone; }
  int messages = 0, closed = 0, gone = 0;
};

// gRPC's part of it is this test's: what it would call, in its order.
TEST(ServerStreamTest, AClientThatIsGoneIsTold) {
  CountingSink sink;
  auto* const stream = new TestStream(1, &sink);
  stream->Start();
  stream->OnReadDone(true);
  EXPECT_EQ(sink.messages, 1);
  EXPECT_EQ(sink.closed, 0);
  stream->OnReadDone(false);
  EXPECT_EQ(sink.closed, 1);
  stream->OnDone();
  EXPECT_EQ(sink.gone, 1);
}

// As when the ranks of a group abort it all at once: no further read is begun that could fail.
TEST(ServerStreamTest, OneThatHasSaidSomethingWhileTheStreamEndedToo) {
  CountingSink sink;
  auto* const stream = new TestStream(1, &sink);
  stream->Start();
  stream->End(grpc::Status::OK);
  stream->OnReadDone(true);
  EXPECT_EQ(sink.messages, 1);
  EXPECT_EQ(sink.closed, 1);
  stream->OnDone();
  EXPECT_EQ(sink.gone, 1);
}

}  // namespace
}  // namespace epic
