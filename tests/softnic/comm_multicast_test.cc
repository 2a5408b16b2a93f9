// Broadcast and AllGather by multicast: the host library on softnic in virtual time, with a manager in this process
// (local_manager_testing.h). Also under ThreadSanitizer.
#include <gtest/gtest.h>

#include <vector>

#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::AllCollectives;
using softnic::Group;
using softnic::LocalWorld;

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
