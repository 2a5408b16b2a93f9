// A session when the system has no thread for it.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <future>
#include <string>
#include <utility>

#include "commlib/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

// The system refuses the next thread that this one starts.
thread_local bool refuse_next_thread = false;

}  // namespace

// In front of the C library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return std::exchange(refuse_next_thread, false) ? EAGAIN : create(thread, attributes, run, argument);
}

namespace epic::internal {
namespace {

TEST(SessionThreadTest, WithoutAThreadForConnectionsTheSessionFails) {
  std::promise<std::string> told;
  FakeManager manager([&](Stream* stream) {
    ReadOne(stream);
    proto::ServerMessage message;
    message.mutable_peer()->set_rank(0);
    message.mutable_peer()->set_qpn(21);
    stream->Write(message);
    WriteJoined(stream);
    told.set_value(ReadOne(stream).abort().reason());
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  ASSERT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  Error failure;
  session->SetFailureHandler([&](const Error& e) { failure = e; });
  refuse_next_thread = true;
  session->SetPeerHandler([](const PeerEndInfo&) { ADD_FAILURE() << "there is no thread for it"; });
  EXPECT_FALSE(refuse_next_thread);
  EXPECT_EQ(failure.code(), ErrorCode::kNoResource);
  EXPECT_THAT(failure.message(), testing::StartsWith("no thread for the connections with other ranks: "));
  EXPECT_EQ(told.get_future().get(), failure.message()) << "so that the other ranks hear of it";
}

}  // namespace
}  // namespace epic::internal
