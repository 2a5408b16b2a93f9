#include "io/event_loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "io/clock.h"

namespace epic::io {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int reader() const { return ends_[0]; }
  void Write() { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void Read() {
    char byte;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

TEST(EventLoop, ClosuresFromOtherThreadsRunInOrder) {
  EventLoop loop(0);
  std::vector<int> seen;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) loop.Post([&seen, i] { seen.push_back(i); });
    loop.Post([&loop] { loop.Stop(); });
  });
  loop.Run();
  other.join();
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST(EventLoop, CallsBackWhileADescriptorIsReadable) {
  EventLoop loop(50 * kMicrosecond);
  Pipe pipe;
  int calls = 0;
  loop.Watch(pipe.reader(), [&](Nanos) {
    pipe.Read();
    if (++calls == 3) loop.Stop();
    return true;
  });
  for (int i = 0; i < 3; ++i) pipe.Write();
  loop.Run();
  EXPECT_EQ(calls, 3);
}

TEST(EventLoop, ACallbackMayEndItsOwnWatch) {
  EventLoop loop(0);
  Pipe pipe;
  int calls = 0;
  loop.Watch(pipe.reader(), [&](Nanos) {
    ++calls;
    loop.Unwatch(pipe.reader());
    loop.SetTimer(1, MonotonicNow() + kMillisecond);
    return false;
  });
  loop.OnTimer([&](Nanos, uint64_t) { loop.Stop(); });
  pipe.Write();  // stays readable: without Unwatch there would be many calls before the timer
  loop.Run();
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, TellsOfRoomOnlyWhileAsked) {
  EventLoop loop(0);
  std::array<int, 2> ends;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  int calls = 0;
  loop.Watch(ends[0], [&](Nanos) {
    if (++calls == 3) {
      loop.WatchWritable(ends[0], false);
      loop.SetTimer(2, MonotonicNow() + kMillisecond);
    }
    return false;
  });
  loop.OnTimer([&](Nanos, uint64_t id) {
    if (id == 2) return loop.Stop();
    EXPECT_EQ(calls, 0) << "it was writable all the time";
    loop.WatchWritable(ends[0], true);
  });
  loop.SetTimer(1, MonotonicNow() + kMillisecond);
  loop.Run();
  EXPECT_EQ(calls, 3);
  for (const int end : ends) close(end);
}

TEST(EventLoop, ARoundEndsWhenAllThatWasReadyIsHandled) {
  EventLoop loop(0);
  std::array<Pipe, 3> pipes;
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) {
    loop.Watch(pipes[static_cast<size_t>(i)].reader(), [&, i](Nanos) {
      pipes[static_cast<size_t>(i)].Read();
      seen.push_back(i);
      return true;
    });
    pipes[static_cast<size_t>(i)].Write();
  }
  loop.OnTimer([&](Nanos, uint64_t) { seen.push_back(100); });
  constexpr int kEnd = -1;
  loop.AfterRound([&] {
    seen.push_back(kEnd);
    if (seen.size() == 4) loop.SetTimer(1, MonotonicNow());
    if (seen.size() > 4) loop.Stop();
  });
  loop.Run();
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[3], kEnd) << "once, after all three";
  EXPECT_EQ(seen[4], 100);
  EXPECT_EQ(seen[5], kEnd) << "and after a timer";
}

TEST(EventLoop, TimersFireNotBeforeTheirDeadline) {
  for (const Nanos spin : {Nanos{0}, 50 * kMicrosecond}) {
    EventLoop loop(spin);
    const Nanos deadline = MonotonicNow() + 3 * kMillisecond;
    std::vector<uint64_t> fired;
    loop.OnTimer([&](Nanos now, uint64_t id) {
      EXPECT_GE(now, deadline);
      fired.push_back(id);
      if (id == 8) loop.Stop();
    });
    loop.SetTimer(8, deadline + kMillisecond);
    loop.SetTimer(7, deadline);
    loop.Run();
    EXPECT_EQ(fired, (std::vector<uint64_t>{7, 8}));
  }
}

TEST(EventLoop, CallsEveryInterval) {
  EventLoop loop(0);
  const Nanos begin = MonotonicNow();
  int calls = 0;
  loop.CallEvery(kMillisecond, [&] {
    if (++calls == 3) loop.Stop();
  });
  loop.Run();
  EXPECT_GE(MonotonicNow() - begin, 3 * kMillisecond);
}

TEST(EventLoop, LooksAtWhatIsPolledUntilItEndsThat) {
  EventLoop loop(50 * kMicrosecond);
  int looks = 0, rounds = 0;
  loop.AfterRound([&] { ++rounds; });
  loop.OnTimer([&](Nanos, uint64_t) { loop.Stop(); });
  loop.Poll(7, {.look =
                    [&](Nanos) {
                      if (++looks < 3) return true;
                      loop.EndPolling(7);
                      loop.SetTimer(1, MonotonicNow() + kMillisecond);
                      return true;
                    },
                .arm = [] { return false; }});
  loop.Run();
  EXPECT_EQ(looks, 3);
  EXPECT_GE(rounds, 3);
}

TEST(EventLoop, SleepsLongerAndLongerWhileNothingTellsOfWhatIsPolled) {
  EventLoop loop(0);
  int looks = 0;
  const Nanos begin = MonotonicNow();
  loop.SetTimer(1, begin + 20 * kMillisecond);
  loop.OnTimer([&](Nanos, uint64_t) { loop.Stop(); });
  loop.Poll(1, {.look =
                    [&](Nanos) {
                      ++looks;
                      return false;
                    },
                .arm = [] { return false; }});
  loop.Run();
  // No sleep is shorter than it should be: 50 us, 100, 200, 400, 800, and then a millisecond each; two looks
  // at each of them.
  EXPECT_LE(looks, 2 * (8 + (MonotonicNow() - begin) / kMillisecond));
}

TEST(EventLoop, SleepsUntilItIsToldOfWhatIsPolled) {
  EventLoop loop(0);
  Pipe pipe;
  int looks = 0;
  loop.Poll(1, {.look =
                    [&](Nanos) {
                      ++looks;
                      return false;
                    },
                .arm = [] { return true; }});
  loop.Watch(pipe.reader(), [&](Nanos) {
    loop.Stop();
    return true;
  });
  loop.SetTimer(1, MonotonicNow() + 30 * kMillisecond);
  loop.OnTimer([&](Nanos, uint64_t) { pipe.Write(); });
  loop.Run();
  // One before and one after each of its sleeps: until the timer, and until the pipe. With sleeps of a
  // millisecond they would be some 60.
  EXPECT_LE(looks, 8);
}

TEST(EventLoop, FindsWhatCameWhileItWasAboutToSleep) {
  EventLoop loop(0);
  bool came = false, slept = false;
  loop.SetTimer(1, MonotonicNow() + 30 * kSecond);
  loop.OnTimer([&](Nanos, uint64_t) {
    slept = true;
    loop.Stop();
  });
  loop.Poll(1, {.look =
                    [&](Nanos) {
                      if (came) loop.Stop();
                      return came;
                    },
                .arm =
                    [&] {
                      came = true;
                      return true;
                    }});
  loop.Run();
  EXPECT_FALSE(slept);
}

}  // namespace
}  // namespace epic::io
