// Broadcast and AllGather by multicast: the host library on softnic in virtual time, with a manager in this process
// (local_manager_testing.h). Also under ThreadSanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "commlib/core/host_algorithm.h"
#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::AllCollectives;
using softnic::Group;
using softnic::LocalWorld;
using ::testing::HasSubstr;

// Broadcast and AllGather as datagrams, the others as ever; of 200,000 elements in slices, by tokens.
TEST(CommMulticastTest, AllCollectivesOfAllLengthsByMulticast) {
  for (const int size : {2, 3, 5}) {
    LocalWorld world;
    Group group("g", size, PathChoice::kHosts, std::vector(size, HostAlgorithm::kMulticast));
    for (const size_t count : {size_t{0}, size_t{1}, size_t{9000}, size_t{200'000}})
      AllCollectives(group, count);
    for (int rank = 0; rank < size; ++rank) {
      const DatagramCounts counts = group[rank].Datagrams();
      EXPECT_TRUE(counts.multicast);
      // Within a process words go round inside, and may overtake datagrams: then these are read for nothing.
      EXPECT_EQ(counts.came + counts.read, counts.expected);
    }
    group.Destroy();
  }
}

// Datagrams that do not come are read from the left.
TEST(CommMulticastTest, DatagramsThatAreLostAreRead) {
  LocalWorld world;
  uint32_t seen = 0;
  world.network().SetLossRule(
      [&seen](const roce::Packet& packet) { return packet.dst_ip.is_multicast() && ++seen % 7 == 0; });
  Group group("g", 4, PathChoice::kHosts, std::vector(4, HostAlgorithm::kMulticast));
  for (const size_t count : {size_t{1000}, size_t{100'000}}) AllCollectives(group, count);
  for (int rank = 0; rank < 4; ++rank) {
    const DatagramCounts counts = group[rank].Datagrams();
    EXPECT_GT(counts.read, 0u);
    EXPECT_EQ(counts.came + counts.read, counts.expected);
  }
  group.Destroy();
}

// Without another call, and however many there were.
TEST(CommMulticastTest, TheManagerIsToldOfDatagramsOnceASecondAtMost) {
  using Clock = std::chrono::steady_clock;
  LocalWorld world;
  const Clock::time_point begin = Clock::now();
  Group group("g", 2, PathChoice::kHosts, std::vector(2, HostAlgorithm::kMulticast));
  for (int i = 0; i < 50; ++i) AllCollectives(group, 1000);
  for (int rank = 0; rank < 2; ++rank) {
    const DatagramCounts counts = group[rank].Datagrams();
    const auto number = static_cast<uint32_t>(rank);
    world.manager().WaitDatagramsTold("g", number, counts.expected);
    const std::vector<MulticastCounts> told = world.manager().DatagramsTold("g", number);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(Clock::now() - begin).count();
    EXPECT_LE(told.size(), static_cast<size_t>(seconds) + 1);
    EXPECT_EQ(told.back().came, counts.came);
    EXPECT_EQ(told.back().read, counts.read);
  }
  group.Destroy();
  const std::vector<MulticastCounts> told = world.manager().DatagramsTold("g", 1);
  EXPECT_EQ(std::ranges::adjacent_find(told), told.end()) << "only what is new";
}

// Nor is one of an earlier version told.
TEST(CommMulticastTest, WhoLeavesTellsWhatHasBecomeOfDatagrams) {
  for (const bool takes : {true, false}) {
    LocalWorld world;
    world.manager().SetTakesCounts(takes);
    Group group("g", 3, PathChoice::kHosts, std::vector(3, HostAlgorithm::kMulticast));
    AllCollectives(group, 1000);
    const uint64_t expected = group[1].Datagrams().expected;
    EXPECT_GT(expected, 0u);
    group.Destroy();
    const std::vector<MulticastCounts> told = world.manager().DatagramsTold("g", 1);
    ASSERT_EQ(told.empty(), !takes);
    if (takes) {
      EXPECT_EQ(told.back().expected, expected);
    }
  }
}

// Without asking for it: what is long enough goes so, and the communicator says so; else it says why not.
TEST(CommMulticastTest, WithoutBeingAskedForItIsTakenWhereItIsShorter) {
  for (const bool gives : {true, false}) {
    LocalWorld world;
    world.manager().SetGivesUnasked(gives);
    constexpr int kRanks = 8;
    const size_t count = BytesByMulticast(Collective::kAllGather, kRanks).least / kRanks / sizeof(int32_t);
    Group group("g", kRanks, PathChoice::kHosts);
    const auto reason = [&](size_t of) { return group[0].PathOfAllGather(of, Datatype::kInt32).reason; };
    AllCollectives(group, count / 2);
    EXPECT_EQ(group[1].Datagrams().expected, 0u) << "there the ring is shorter";
    EXPECT_EQ(reason(count / 2), group[0].Path().reason);
    AllCollectives(group, count);
    for (int rank = 0; rank < kRanks; ++rank) {
      const DatagramCounts counts = group[rank].Datagrams();
      EXPECT_EQ(counts.multicast, gives);
      EXPECT_EQ(counts.expected > 0, gives);
      EXPECT_EQ(counts.came + counts.read, counts.expected);
    }
    EXPECT_THAT(reason(count), gives ? HasSubstr("KiB go by multicast, which is shorter")
                                     : HasSubstr("do not go by multicast: the network is an old one"));
    group.Destroy();
  }
}

// What a rank does not ask for is nobody's to give in a group with a switch.
TEST(CommMulticastTest, WithoutBeingAskedForItIsNotTakenThroughASwitch) {
  LocalWorld world;
  world.manager().SetAbilities({});
  Group group("g", 8, PathChoice::kAuto);
  EXPECT_FALSE(group[0].Datagrams().multicast);
  EXPECT_EQ(group[0].PathOfAllGather(30'000, Datatype::kInt32).path, PathChoice::kNetwork);
  AllCollectives(group, 100);
  group.Destroy();
}

// By a group with a switch these two go between the hosts, the others through the switch.
TEST(CommMulticastTest, MulticastInAGroupWithASwitch) {
  LocalWorld world;
  world.manager().SetAbilities({});
  Group group("g", 3, PathChoice::kAuto, std::vector(3, HostAlgorithm::kMulticast));
  for (const size_t count : {size_t{1}, size_t{9000}, size_t{300'000}}) AllCollectives(group, count);
  group.Destroy();
}

}  // namespace
}  // namespace epic
