#include "base/counter_table.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

struct Counters {
  uint64_t sent = 0;
  uint64_t received = 0;
  std::array<uint64_t, 3> others{};
};

constexpr auto kCounters =
    std::to_array<CounterRow<Counters>>({{"sent", &Counters::sent}, {"received", &Counters::received}});
constexpr size_t kRest = sizeof(Counters::others);

TEST(CounterTable, HasEachCounterOnce) {
  using Rows = std::array<CounterRow<Counters>, 2>;
  EXPECT_TRUE(HasEach(kCounters, kRest));
  EXPECT_FALSE(HasEach(kCounters)) << "a counter more";
  EXPECT_FALSE(HasEach(std::array{kCounters[0]}, kRest)) << "a row less";
  EXPECT_FALSE(HasEach(Rows{kCounters[0], {"twice", &Counters::sent}}, kRest)) << "a member twice";
  EXPECT_FALSE(HasEach(Rows{kCounters[0], {"sent", &Counters::received}}, kRest)) << "a name twice";
}

TEST(CounterTable, SumsWhatIsInTheTable) {
  Counters sum{.sent = 1, .received = 20, .others = {300}};
  AddCounters(kCounters, {.sent = 2, .received = 30, .others = {400}}, &sum);
  EXPECT_EQ(sum.sent, 3u);
  EXPECT_EQ(sum.received, 50u);
  EXPECT_EQ(sum.others[0], 300u);
}

}  // namespace
}  // namespace epic
