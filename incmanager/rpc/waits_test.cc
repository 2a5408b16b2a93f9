#include "incmanager/rpc/waits.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace epic::manager {
namespace {

// A tree of a root and two leaves with two ranks each; what its switches say can be changed before Wait.
class WaitTree {
 public:
  WaitTree() {
    group_.set_name("g");
    group_.set_group_id(7);
    for (const char* host : {"h0", "h1", "h2", "h3"}) group_.add_rank_hosts(host);
    for (const auto& [name, parent] : {std::pair{"root", ""}, {"leaf1", "root"}, {"leaf2", "root"}}) {
      proto::TreeNode& node = *group_.add_tree();
      node.set_switch_name(name);
      node.set_parent(parent);
      proto::GroupDump& dump = *dumps[name].add_groups();
      dump.mutable_config()->set_group_id(7);
      dump.set_tells_waits(true);
    }
    for (const uint32_t rank : {0u, 1u, 2u, 3u}) {
      proto::EndpointConfig& config = *At(rank < 2 ? "leaf1" : "leaf2").add_children()->mutable_config();
      config.set_is_host(true);
      config.add_ranks(rank);
    }
  }
  proto::GroupDump& At(const std::string& name) { return *dumps[name].mutable_groups(0); }
  proto::EndpointDump& Rank(int rank) { return *At(rank < 2 ? "leaf1" : "leaf2").mutable_children(rank % 2); }
  void Calls(const std::vector<int64_t>& calls) {
    for (int rank = 0; rank < 4; ++rank) Rank(rank).set_calls(calls[static_cast<size_t>(rank)]);
  }
  void Open(const std::string& name, int64_t number, uint64_t ms, const char* collective = "allreduce") {
    proto::OpenCall& open = *At(name).mutable_open_call();
    open.set_number(number);
    open.set_ms(ms);
    open.set_collective(collective);
  }
  proto::CallWait Wait() {
    proto::GroupState group = group_;
    AddWait(dumps, &group);
    tells = group.tells_waits();
    return group.wait();
  }
  std::string Words() { return Wait().words(); }

  std::map<std::string, proto::DumpReply> dumps;
  bool tells = false;

 private:
  proto::GroupState group_;
};

TEST(Waits, ForNobodyIfNoCallIsOpen) {
  WaitTree tree;
  EXPECT_EQ(tree.Words(), "");
  EXPECT_TRUE(tree.tells);
  tree.Calls({17, 17, 17, 17});
  tree.Rank(2).set_not_taken(true);
  EXPECT_EQ(tree.Words(), "") << "its acknowledgement is under way";
}

TEST(Waits, ForThoseThatHaveNotCalled) {
  WaitTree tree;
  tree.Calls({18, 17, 18, 18});
  tree.Open("leaf1", 17, 3900);
  tree.Open("leaf2", 17, 4200);
  tree.Open("root", 17, 4100);
  EXPECT_EQ(tree.Words(), "allreduce 17: waits for rank 1 (h1) since 4.2 s; ranks 0, 2, 3 have called");
  EXPECT_EQ(tree.Wait().why(), proto::CallWait::WHY_NOT_CALLED);
  // Others are further ahead: it is the first call that counts.
  tree.Calls({17, 17, 17, 20});
  EXPECT_EQ(tree.Words(),
            "allreduce 17: waits for ranks 0 (h0), 1 (h1), 2 (h2) since 4.2 s; rank 3 has called");
}

TEST(Waits, ForDataAndForThoseThatTakeNone) {
  WaitTree tree;
  tree.Calls({18, 18, 18, 18});
  for (const char* name : {"root", "leaf1", "leaf2"}) tree.Open(name, 17, 130'000, "reduce");
  EXPECT_EQ(tree.Words(), "reduce 17: all have called, and it is under way; it began 2 min ago");
  tree.Rank(3).set_not_taken(true);
  EXPECT_EQ(tree.Words(), "reduce 17: waits for rank 3 (h3) to take a result; it began 2 min ago");
  tree.Rank(0).set_owes(true);
  EXPECT_EQ(tree.Words(), "reduce 17: all have called; waits for data of rank 0 (h0); it began 2 min ago");
}

TEST(Waits, NamesSwitchesThatDoNotAnswer) {
  WaitTree tree;
  tree.Calls({18, 17, 17, 17});
  tree.Open("leaf1", 17, 4200);
  tree.dumps.erase("leaf2");
  EXPECT_EQ(
      tree.Words(),
      "allreduce 17: waits for rank 1 (h1) since 4.2 s; rank 0 has called; of leaf2 there is no answer, and of "
      "the ranks there nothing is known");
  EXPECT_EQ(tree.Wait().others_size(), 1);
}

TEST(Waits, SaysSoIfNoSwitchAnswers) {
  WaitTree tree;
  tree.dumps.clear();
  EXPECT_EQ(tree.Words(),
            "of root, leaf1, leaf2 there is no answer, so that nothing is known of whom it waits for");
  EXPECT_EQ(tree.Wait().call(), -1);
  EXPECT_FALSE(tree.tells);
}

// An engine of an earlier version says nothing of calls, which is not that there are none.
TEST(Waits, SaysNothingIfNoSwitchCanTell) {
  WaitTree tree;
  for (auto& [name, dump] : tree.dumps) dump.mutable_groups(0)->set_tells_waits(false);
  EXPECT_EQ(tree.Words(), "");
  EXPECT_FALSE(tree.tells);
}

}  // namespace
}  // namespace epic::manager
