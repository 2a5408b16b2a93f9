#include "mpi/binding/joins.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/binding/group_testing.h"

namespace epic::mpi {
namespace {

// A join that ends when the test wants it to.
class Held {
 public:
  Joins::Join Join() {
    return [ends = ends_.get_future().share()](const std::function<bool()>&) {
      ends.wait();
      return Joined{.group = std::make_unique<NoGroup>(), .result = {}};
    };
  }
  void End() { ends_.set_value(); }

 private:
  std::promise<void> ends_;
};

TEST(JoinsTest, WhatEndsIsThereForWhoeverLooks) {
  Joins joins;
  Held held;
  const auto joining = joins.Begin(held.Join());
  EXPECT_EQ(joining->Ended(), nullptr);
  held.End();
  joins.Wait();
  ASSERT_NE(joining->Ended(), nullptr);
  EXPECT_NE(joining->Take(), nullptr);
}

TEST(JoinsTest, OneThatIsGivenUpHandsItsGroupOverWhenItEnds) {
  for (const bool has_ended : {false, true}) {
    Joins joins;
    Held held;
    std::optional<Joined> got;
    const auto joining = joins.Begin(held.Join());
    if (has_ended) {
      held.End();
      joins.Wait();
    }
    joins.GiveUp(joining, [&got](Joined joined) { got = std::move(joined); });
    EXPECT_EQ(got.has_value(), has_ended);
    if (!has_ended) held.End();
    joins.Wait();
    ASSERT_TRUE(got.has_value());
    EXPECT_NE(got->group, nullptr);
  }
}

TEST(JoinsTest, AtTheEndWhoTakesLongGivesUp) {
  Joins joins;
  const auto joining = joins.Begin([](const std::function<bool()>& gives_up) {
    while (!gives_up()) continue;
    return Joined{.group = nullptr, .result = {.refusal = "given up"}};
  });
  std::optional<Joined> got;
  joins.GiveUp(joining, [&got](Joined joined) { got = std::move(joined); });
  joins.End(std::chrono::milliseconds(0));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->result.refusal, "given up");
}

TEST(JoinsTest, AtTheEndWhoIsInTimeIsWaitedFor) {
  Joins joins;
  std::promise<void> begun;
  const auto joining = joins.Begin([&begun](const std::function<bool()>& gives_up) {
    begun.get_future().wait();
    return Joined{.group = nullptr, .result = {.refusal = gives_up() ? "given up" : "in time"}};
  });
  begun.set_value();
  joins.End(std::chrono::hours(1));
  ASSERT_NE(joining->Ended(), nullptr);
  EXPECT_EQ(joining->Ended()->refusal, "in time");
}

TEST(JoinsTest, ThereIsRoomForAFew) {
  Joins joins;
  std::vector<Held> held(Joins::kMost);
  for (Held& one : held) {
    EXPECT_TRUE(joins.HasRoom());
    joins.Begin(one.Join());
  }
  EXPECT_FALSE(joins.HasRoom());
  for (Held& one : held) one.End();
  joins.Wait();
  EXPECT_TRUE(joins.HasRoom());
}

}  // namespace
}  // namespace epic::mpi
