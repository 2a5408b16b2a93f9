#include "commlib/core/shared_acks.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

TEST(SharedAcksTest, SmallCallsShareThemAndOthersDoNot) {
  SharedAcks acks(8);
  EXPECT_EQ(acks.messages(), 1u) << "before the first call";
  acks.Posted(/*has_data=*/false, /*alone=*/true);
  EXPECT_EQ(acks.messages(), 4u);
  acks.Posted(/*has_data=*/true, /*alone=*/false);
  EXPECT_EQ(acks.messages(), 1u);
}

TEST(SharedAcksTest, ASmallCallBehindABigOneWaitsUntilThatIsClosed) {
  SharedAcks acks(8);
  acks.Posted(/*has_data=*/true, /*alone=*/true);
  acks.Posted(/*has_data=*/false, /*alone=*/false);
  EXPECT_EQ(acks.messages(), 1u);
  acks.Posted(/*has_data=*/false, /*alone=*/true);
  EXPECT_EQ(acks.messages(), 4u);
}

TEST(SharedAcksTest, HalfOfTheWindowStaysFree) {
  for (const auto& [window, most] :
       {std::pair{1u, 1u}, {2u, 1u}, {3u, 1u}, {4u, 2u}, {6u, 3u}, {8u, 4u}, {64u, 4u}}) {
    SharedAcks acks(window);
    acks.Posted(/*has_data=*/false, /*alone=*/true);
    EXPECT_EQ(acks.messages(), most) << "W " << window;
  }
}

}  // namespace
}  // namespace epic
