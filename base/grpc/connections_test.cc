#include "base/grpc/connections.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/seeds_testing.h"

namespace epic {
namespace {

// From this program's first test to its last: where the last user of gRPC goes, its shutdown now and then
// waits 10 s for a poll of its own.
const int kGrpcStays = (grpc_init(), 0);

using Full = Connections::Full;

TEST(ConnectionsTest, APeerHasItsBoundAndAllHaveOne) {
  Connections connections({.all = 4, .of_peer = 2});
  connections.Add(10, "a", 0);
  EXPECT_EQ(connections.IsFull("a"), Full::kNo);
  connections.Add(11, "a", 1);
  EXPECT_EQ(connections.IsFull("a"), Full::kPeer);
  EXPECT_EQ(connections.IsFull("b"), Full::kNo);
  connections.Add(12, "b", 2);
  connections.Add(13, "c", 3);
  EXPECT_EQ(connections.IsFull("d"), Full::kAll);
  connections.Remove(12);
  EXPECT_EQ(connections.IsFull("d"), Full::kNo);
  EXPECT_EQ(connections.OfPeer("b"), 0U);
}

TEST(ConnectionsTest, WhoHasBeenSilentForLongestGivesWay) {
  Connections connections({.all = 4, .of_peer = 2});
  connections.Add(10, "a", 0);
  connections.Add(11, "b", 1);
  connections.Add(12, "b", 2);
  EXPECT_EQ(connections.GivesWay(Full::kPeer, "b"), 11);
  EXPECT_EQ(connections.GivesWay(Full::kAll, "b"), 10);
  connections.Speaks(11);
  EXPECT_EQ(connections.GivesWay(Full::kPeer, "b"), 12) << "who speaks stays";
  connections.Speaks(10);
  connections.Speaks(12);
  EXPECT_EQ(connections.GivesWay(Full::kPeer, "b"), std::nullopt);
  EXPECT_EQ(connections.GivesWay(Full::kAll, "c"), std::nullopt);
  EXPECT_FALSE(connections.LongestSilent());
}

// Against a list that is counted anew each time.
TEST(ConnectionsTest, IsWhatAListWouldBe) {
  const TestSeeds seeds = SeedsToRun(20);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(testing::Message() << "again: EPIC_SEED=" << seed);
    std::mt19937_64 random(seed);
    struct One {
      int fd;
      std::string peer;
      bool silent;
    };
    std::vector<One> list;
    Connections connections({.all = 12, .of_peer = 5});
    for (Nanos now = 0; now < 300; ++now) {
      const int fd = static_cast<int>(random() % 16);
      const std::string peer(1, static_cast<char>('a' + random() % 4));
      const auto of = [&](const One& one) { return one.peer == peer; };
      const auto is = [fd](const One& one) { return one.fd == fd; };
      const auto found = std::ranges::find_if(list, is);
      if (random() % 3 != 0) {
        std::erase_if(list, is);
        list.push_back({fd, peer, true});
        connections.Remove(fd);
        connections.Add(fd, peer, now);
      } else if (found != list.end()) {
        if (random() % 2 == 0) {
          found->silent = false;
          connections.Speaks(fd);
        } else {
          list.erase(found);
          connections.Remove(fd);
        }
      }
      ASSERT_EQ(connections.size(), list.size());
      const auto count = static_cast<size_t>(std::ranges::count_if(list, of));
      ASSERT_EQ(connections.OfPeer(peer), count);
      ASSERT_EQ(connections.IsFull(peer), count >= 5 ? Full::kPeer : list.size() >= 12 ? Full::kAll : Full::kNo);
      const auto silent = std::ranges::find_if(list, [](const One& one) { return one.silent; });
      ASSERT_EQ(connections.GivesWay(Full::kAll, peer),
                silent == list.end() ? std::nullopt : std::optional<int>(silent->fd));
      const auto own = std::ranges::find_if(list, [&](const One& one) { return one.silent && of(one); });
      if (count != 0) {
        ASSERT_EQ(connections.GivesWay(Full::kPeer, peer),
                  own == list.end() ? std::nullopt : std::optional<int>(own->fd));
      }
    }
  }
}

}  // namespace
}  // namespace epic
