// What a rank answers when the manager asks which calls it has made.
#include <future>
#include <memory>
#include <vector>

#include "commlib/calls_info.h"
#include "commlib/progress.h"
#include "commlib/session_testing.h"
#include "gtest/gtest.h"
#include "io/descriptor.h"

#include <fcntl.h>
#include <sys/eventfd.h>

namespace epic::internal {
namespace {

using std::chrono::milliseconds;

// Writes the question so often, and returns the answers.
std::vector<proto::CallsMade> AskBySession(int times, const Session::CallsHandler& handler) {
  std::promise<std::vector<proto::CallsMade>> told;
  FakeManager manager([&](Stream* stream) {
    EXPECT_TRUE(ReadOne(stream).join().tells_calls());
    proto::ServerMessage message;
    message.mutable_calls();
    stream->Write(message);  // before anybody can answer it
    WriteJoined(stream);
    std::vector<proto::CallsMade> answers;
    for (int i = 0; i < times; ++i) {
      if (i > 0) stream->Write(message);
      answers.push_back(ReadOne(stream).calls());
    }
    told.set_value(answers);
  });
  std::unique_ptr<Session> session;
  JoinedInfo joined;
  EXPECT_TRUE(Session::Join(manager.address(), kJoin, &session, &joined).ok());
  session->SetCallsHandler(handler);
  return told.get_future().get();
}

TEST(SessionCallsTest, EachQuestionIsAnswered) {
  int64_t made = 0;
  const auto answers = AskBySession(3, [&]() -> std::vector<CallsInfo> {
    return {{.group = "g",
             .made = ++made,
             .open = {{.number = 17, .collective = "allreduce", .for_time = milliseconds(4200)}},
             .waits = true,
             .leaves = true,
             .awaits = {3}}};
  });
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].made(), 1);
  EXPECT_EQ(answers[2].made(), 3);
  ASSERT_EQ(answers[0].open_size(), 1);
  EXPECT_EQ(answers[0].open(0).number(), 17);
  EXPECT_EQ(answers[0].open(0).collective(), "allreduce");
  EXPECT_EQ(answers[0].open(0).ms(), 4200u);
  EXPECT_TRUE(answers[0].leaves());
  EXPECT_EQ(answers[0].awaits(0), 3u);
}

TEST(SessionCallsTest, OfOtherGroupsThoseWithOpenCalls) {
  const MadeCallInfo call{.number = 3, .collective = "broadcast", .for_time = milliseconds(1)};
  std::vector<CallsInfo> others = {{.group = "idle", .open = {}, .waits = true, .awaits = {}},
                                   {.group = "async", .open = {call}, .waits = false, .awaits = {}}};
  others.push_back({.group = "b", .open = {call, call}, .waits = true, .awaits = {}});
  const proto::CallsMade calls = ToProto(CallsInfo{}, others).calls();
  ASSERT_EQ(calls.elsewhere_size(), 2);
  EXPECT_EQ(calls.elsewhere(0).group(), "b");
  EXPECT_TRUE(calls.elsewhere(0).waits());
  EXPECT_EQ(calls.elsewhere(0).call().number(), 3);
  EXPECT_EQ(calls.elsewhere(1).group(), "async");
  EXPECT_FALSE(calls.elsewhere(1).waits());
  for (int i = 0; i < 20; ++i) others.push_back(others.back());
  EXPECT_EQ(ToProto(CallsInfo{}, others).calls().elsewhere_size(), static_cast<int>(kMostElsewhereTold));
}

class Named final : public Progressing {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  void OnChannelReady() override {}
  void OnTick() override {}
  CallsInfo TellCalls() override { return {.group = name_, .open = {}, .awaits = {}}; }

 private:
  const std::string name_;
};

TEST(SessionCallsTest, AllCommunicatorsOfTheProcessButOneAreAsked) {
  ASSERT_TRUE(Progress::Claim());
  const io::Descriptor first(eventfd(0, EFD_CLOEXEC)), second(eventfd(0, EFD_CLOEXEC));
  const auto one = std::make_shared<Named>("one"), other = std::make_shared<Named>("other");
  Progress::Get().Add(one, first.get());
  Progress::Get().Add(other, second.get());
  const std::vector<CallsInfo> calls = Progress::Get().CallsOfOthers(one.get());
  Progress::Get().Remove(first.get());
  Progress::Get().Remove(second.get());
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].group, "other");
}

}  // namespace
}  // namespace epic::internal
