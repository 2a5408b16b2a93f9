// Priorities of calls leave a rank only where the switch takes them: the host library on softnic in virtual
// time, with a manager in this process (local_manager_testing.h). The switch here has no pool, and refuses
// what says one.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::Group;
using softnic::LocalWorld;
using softnic::OnAll;
using softnic::Succeed;

// How the first call of a group ends whose manager says that its switches take priorities, or that they do
// not.
std::vector<ErrorCode> CallWith(bool taken, double priority) {
  LocalWorld world;
  internal::GroupAbilities abilities;
  abilities.priorities = taken;
  world.manager().SetAbilities(abilities);
  Group group{"g", 2, PathChoice::kNetwork};
  std::vector<ErrorCode> ends(2);
  OnAll(group, [&](int rank, Communicator& comm) {
    if (priority != 0) Succeed(comm.SetPriority(priority));
    int32_t value = 1;
    ErrorCode& end = ends[static_cast<size_t>(rank)];
    end = AllReduce(&value, &value, 1, Datatype::kInt32, RedOp::kSum, comm).code();
    EXPECT_EQ(value, end == ErrorCode::kOk ? 2 : 1);
  });
  return ends;
}

TEST(CommPriorityTest, IsSaidToSwitchesThatTakeItAlone) {
  EXPECT_EQ(CallWith(false, 7), std::vector<ErrorCode>(2, ErrorCode::kOk)) << "zeros, as ever";
  EXPECT_NE(CallWith(true, 7), std::vector<ErrorCode>(2, ErrorCode::kOk));
  EXPECT_NE(CallWith(true, 0), std::vector<ErrorCode>(2, ErrorCode::kOk)) << "1 is said as well";
}

}  // namespace
}  // namespace epic
