// Which path a group takes, and the line that says why (docs/DEPLOY.md, "Which path a group takes").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"
#include "protocol/bounds.h"

namespace epic::manager {
namespace {

using ::testing::Contains;
using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using testing::Refusal;

GroupSpec Want(uint32_t world_size, Path path = Path::kAuto) {
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = world_size;
  spec.path = path;
  return spec;
}

void Report(GroupWorldFixture* w, const std::string& name, const std::function<void(EngineReport*)>& change) {
  EngineReport report = w->Report(w->Id(name));
  report.version = "0.1.0";
  change(&report);
  ASSERT_TRUE(w->switches.Heartbeat(w->now, name, &report).ok());
}

void LostAgent(GroupWorldFixture* w, const std::string& name) {
  EXPECT_TRUE(w->switches.OnVerdict(w->Id(name), Verdict::kAgentLost));
}

// What keeps a group from its switches, and the words for it.
struct Situation {
  std::string name;
  std::string reason;
  std::function<void(GroupWorldFixture*)> prepare = [](GroupWorldFixture*) {};
  std::function<void(GroupSpec*)> ask = [](GroupSpec*) {};
  std::optional<InstallAnswer> leaf1 = std::nullopt;  // its answer to the context
  ErrorCode refused = ErrorCode::kNoTree;      // with path network
};

// A switch that lacks memory, in words that are not the engine's: the numbers are in the fields.
InstallAnswer Short(uint64_t needed, uint64_t left, uint64_t all) {
  return {.status = MakeStatus(StatusCode::kResourceExhausted, "the memory is full"),
          .shortage = Shortage{.needed = needed, .left = left, .all = all}};
}

std::vector<Situation> Situations() {
  return {
      {"no memory",
       "leaf1 has 0.2 of 1.0 MiB free, 0.5 needed",
       {},
       {},
       Short(524288, 209715, 1048576),
       ErrorCode::kNoResource},
      {"little memory",
       "leaf1 has 64.0 of 64.0 KiB free, 136.0 needed",
       {},
       {},
       Short(139264, 65536, 65536),
       ErrorCode::kNoResource},
      {"memory that is nearly enough",
       "leaf1 has 511.9 of 1024.0 KiB free, 512.0 needed",
       {},
       {},
       Short(524288, 524200, 1048576),
       ErrorCode::kNoResource},
      {"no switch reaches all",
       "no path over usable switches joins h0 and h2; not usable: root (its agent is lost)",
       [](GroupWorldFixture* w) { LostAgent(w, "root"); }},
      {"its agent is lost", "leaf2: its agent is lost", [](GroupWorldFixture* w) { LostAgent(w, "leaf2"); }},
      {"it is not up", "leaf2: it has no forwarding table yet",
       [](GroupWorldFixture* w) {
         EPIC_CHECK(w->switches.Register(w->now, "leaf2", "agent", w->Report(w->Id("leaf2"))).ok());
       }},
      {"a mode that is not offered", "leaf2: its engine does not offer mode III",
       [](GroupWorldFixture* w) {
         Report(w, "leaf2", [](EngineReport* report) {
           report->modes = {};
           report->modes.Add(Mode::kTranslated);
         });
       },
       [](GroupSpec* spec) { spec->mode = Mode::kAugmented; }},
      {"an operation that was asked for", "operation product is not in leaf1 (version 0.1.0)",
       [](GroupWorldFixture* w) {
         Report(w, "leaf1", [](EngineReport* report) { report->abilities = Abilities::First(); });
       },
       [](GroupSpec* spec) { spec->needs.Add(ReduceOp::kProduct); }},
      {"a path MTU that was asked for", "path_mtu: 4096 is more than the engine of leaf1 carries (1024)",
       [](GroupWorldFixture* w) {
         Report(w, "leaf1", [](EngineReport* report) { report->max_path_mtu = 1024; });
       },
       [](GroupSpec* spec) { spec->path_mtu = 4096; }, std::nullopt, ErrorCode::kMtu},
      {"too many children",
       "leaf1 would have 2 children in this group; it takes at most 1",
       [](GroupWorldFixture* w) {
         Report(w, "leaf1", [](EngineReport* report) { report->max_children = 1; });
       },
       {},
       std::nullopt,
       ErrorCode::kNoResource},
      {"a window that no NIC has",
       "M*W: 64 packets are more than the 8 that may be in flight",
       {},
       [](GroupSpec* spec) { spec->message_packets = 8, spec->window_messages = 8; },
       std::nullopt,
       ErrorCode::kInvalidArgument},
      {"a switch that does not answer",
       "switch leaf1: the agent of leaf1 does not answer",
       {},
       {},
       InstallAnswer{
           .status = MakeStatus(StatusCode::kUnavailable, "the agent of leaf1 is silent: failed to connect"),
           .silent = "the agent of leaf1 does not answer"},
       ErrorCode::kSwitchLost},
      {"a switch that never was there",
       "switch leaf1: the agent of leaf1 has not registered",
       {},
       {},
       InstallAnswer{.status = MakeStatus(StatusCode::kUnavailable, "the agent of leaf1 has not registered")},
       ErrorCode::kSwitchLost},
      {"no memory, of a switch that tells it by words alone",
       "switch leaf1: arena: 524288 bytes needed, 209715 of 1048576 bytes left",
       {},
       {},
       InstallAnswer{.status = MakeStatus(StatusCode::kResourceExhausted,
                                          "arena: 524288 bytes needed, 209715 of 1048576 bytes left")},
       ErrorCode::kNoResource},
  };
}

// A group of four in such a situation, its contexts answered.
void Place(GroupWorldFixture* w, const Situation& situation, Path path) {
  GroupSpec spec = Want(4, path);
  if (situation.prepare) situation.prepare(w);
  if (situation.ask) situation.ask(&spec);
  ASSERT_TRUE(w->groups()->Create(spec).ok());
  for (uint32_t rank = 0; rank < 4; ++rank) {
    JoinRequest join = w->Request("h" + std::to_string(rank), rank, 4);
    if (spec.window_messages != 0) join.max_outstanding = 8;
    w->groups()->OnJoin(w->now, 100 + rank, join);
  }
  for (const auto& [node, context] : std::exchange(w->world.installs, {})) {
    const bool refuses = situation.leaf1 && node == w->Id("leaf1");
    w->installed.push_back(context);
    w->groups()->OnInstalled(w->now, node, context.group_id,
                         refuses ? *situation.leaf1 : InstallAnswer{.arena_bytes = 1000});
  }
}

TEST(GroupPath, AutoGoesByTheHostsAndSaysWhy) {
  for (const Situation& situation : Situations()) {
    SCOPED_TRACE(situation.name);
    GroupWorldFixture w(testing::Tree32());
    Place(&w, situation, Path::kAuto);
    EXPECT_EQ(w.Phase(), "running");
    for (SessionId session = 100; session < 104; ++session) {
      const auto* joined = w.Last<JoinedReply>(session);
      ASSERT_NE(joined, nullptr);
      EXPECT_EQ(joined->path, Path::kHosts);
      EXPECT_EQ(joined->path_reason, situation.reason);
      EXPECT_EQ(joined->path_mtu, 4096u);
      EXPECT_EQ(joined->remote_qpn + joined->message_packets + joined->window_messages, 0u);
      EXPECT_EQ(joined->mode, Mode::kUnspecified);
      EXPECT_EQ(joined->abilities, Abilities::All());
    }
    const Group group = *w.groups()->Find("g");
    EXPECT_EQ(group.path_taken, Path::kHosts);
    EXPECT_EQ(group.path_reason, situation.reason);
    EXPECT_EQ(group.window.slots + group.window.start_messages + group.inline_bytes, 0u) << "nothing of the tree is left";
    EXPECT_TRUE(group.plan.contexts.empty() && group.lacks.empty() && group.window.reason.empty());
    EXPECT_EQ(group.footprint.switches.size(), 3u);
    EXPECT_EQ(w.world.removals.size(), w.installed.size()) << "also where the answer was a refusal";
    EXPECT_THAT(w.world.notes,
                Contains("group g: running with 4 ranks by the hosts, path MTU 4096: " + situation.reason));
    w.AnswerRemovals();
    EXPECT_EQ(w.Phase(), "running");
    for (SessionId session = 100; session < 104; ++session) w.groups()->OnLeave(w.now, session);
    for (SessionId session = 100; session < 104; ++session) EXPECT_NE(w.Last<LeftNote>(session), nullptr);
    EXPECT_EQ(w.Phase(), "reserved");
  }
}

TEST(GroupPath, NetworkIsRefusedInTheSameSituations) {
  for (const Situation& situation : Situations()) {
    SCOPED_TRACE(situation.name);
    GroupWorldFixture w(testing::Tree32());
    Place(&w, situation, Path::kNetwork);
    for (SessionId session = 100; session < 104; ++session) {
      const auto* failure = w.Last<Failure>(session);
      ASSERT_NE(failure, nullptr);
      EXPECT_EQ(failure->code, situation.refused);
      EXPECT_THAT(failure->message, ::testing::Not(HasSubstr("hosts")));
    }
    w.AnswerRemovals();
    EXPECT_EQ(w.Phase(), "reserved");
  }
}

TEST(GroupPath, HostsAreAskedForByAnOperatorOrARank) {
  GroupWorldFixture w(testing::Tree32());
  ASSERT_TRUE(w.groups()->Create(Want(4, Path::kHosts)).ok());
  w.JoinAll(4);
  EXPECT_TRUE(w.world.installs.empty());
  EXPECT_EQ(w.Last<JoinedReply>(100)->path_reason, "asked for by its operator");
  w.path = Path::kHosts;
  w.groups()->OnJoin(w.now, 201, w.Request("h1", 1, 2, "beside"));
  w.path = Path::kAuto;
  w.groups()->OnJoin(w.now, 200, w.Request("h0", 0, 2, "beside"));
  EXPECT_EQ(w.Last<JoinedReply>(200)->path, Path::kHosts);
  EXPECT_EQ(w.Last<JoinedReply>(200)->path_reason, "asked for by rank 1");
}

TEST(GroupPath, ASwitchWithoutQpnsIsGoneRound) {
  // At a switch all endpoints of a group have one low byte, of which there are 256.
  constexpr uint32_t kCount = 300;
  GroupWorldFixture w(testing::Star(2));
  Report(&w, "s1", [](EngineReport* report) { report->max_children = kCount; });
  for (uint32_t rank = 0; rank < kCount; ++rank)
    w.groups()->OnJoin(w.now, 100 + rank, w.Request(rank % 2 == 0 ? "h0" : "h1", rank, kCount));
  EXPECT_EQ(w.Last<JoinedReply>(100)->path, Path::kHosts);
  EXPECT_EQ(w.Last<JoinedReply>(100)->path_reason, "s1 has no QPN left");
}

TEST(GroupPath, TheNetworkIsTakenWhereItCanBe) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  const auto* joined = w.Last<JoinedReply>(100);
  EXPECT_EQ(joined->path, Path::kNetwork);
  EXPECT_EQ(joined->path_reason, "");
  EXPECT_TRUE(joined->hosts_reach);
  EXPECT_EQ(w.groups()->Find("g")->path_taken, Path::kNetwork);
}

// A call that the switches lack goes by the hosts, unless something is in the way; then that is known.
TEST(GroupPath, ANetworkGroupKnowsWhyItsHostsMayNot) {
  const auto reason = [](const testing::TopologyBuilder& builder,
                         const std::function<void(GroupWorldFixture*)>& f) {
    GroupWorldFixture w(builder);
    f(&w);
    w.JoinAll(4);
    w.AnswerInstalls();
    const auto* joined = w.Last<JoinedReply>(100);
    EXPECT_EQ(joined->path, Path::kNetwork);
    EXPECT_FALSE(joined->hosts_reach);
    return joined->path_reason;
  };
  EXPECT_EQ(reason(testing::RoutedTree32(), [](GroupWorldFixture*) {}),
            "h0 does not reach h2: a router is between root and leaf2, which passes nothing for hosts");
  EXPECT_EQ(reason(testing::Tree32(), [](GroupWorldFixture* w) { w->path = Path::kNetwork; }),
            "path network was asked for by rank 0");
  EXPECT_EQ(reason(testing::Tree32(),
                   [](GroupWorldFixture* w) {
                     Report(w, "leaf1", [](EngineReport* report) { report->by_hosts = false; });
                   }),
            "leaf1 (version 0.1.0) does not know of calls between hosts");
}

TEST(GroupPath, HostsThatDoNotReachEachOtherAreNamedAtJoin) {
  const auto failure = [](const testing::TopologyBuilder& builder,
                          const std::function<void(GroupWorldFixture*)>& f, Path path) {
    GroupWorldFixture w(builder);
    f(&w);
    w.path = path;
    w.JoinAll(4);
    EXPECT_TRUE(w.world.installs.empty());
    const auto* told = w.Last<Failure>(103);
    EPIC_CHECK(told != nullptr);
    EXPECT_EQ(w.Phase(), "none");
    return *told;
  };
  const auto nothing = [](GroupWorldFixture*) {};
  const Failure router = failure(testing::RoutedTree32(), nothing, Path::kHosts);
  EXPECT_EQ(router.code, ErrorCode::kNoTree);
  EXPECT_EQ(router.message,
            "h0 does not reach h2: a router is between root and leaf2, which passes nothing for hosts");
  const auto secured = testing::Tree32ButOneLink().Link("root", "leaf2", ", port_security: true");
  EXPECT_EQ(failure(secured, nothing, Path::kHosts).message,
            "h0 does not reach h2: port security between root and leaf2 passes their own addresses only");
  EXPECT_EQ(failure(testing::Tree32ButOneLink(), nothing, Path::kHosts).message,
            "h0 does not reach h2: no links join them");

  // With what the network's path was refused for, under auto.
  const Failure lost = failure(
      testing::Tree32(),
      [](GroupWorldFixture* w) { w->switches.OnVerdict(w->Id("leaf2"), Verdict::kSwitchLost); }, Path::kAuto);
  EXPECT_EQ(lost.code, ErrorCode::kNoTree);
  EXPECT_EQ(lost.switch_name, "leaf2");
  EXPECT_EQ(lost.message,
            "h2 (rank 2) hangs on leaf2, which cannot take part: it is lost; nor by the hosts: "
            "h0 does not reach h2: leaf2 is between them, and it is lost");
}

TEST(GroupPath, HostsThatReachEachOtherDoSoBesideARouter) {
  GroupWorldFixture w(testing::RoutedTree32());
  w.path = Path::kHosts;
  w.JoinAll(2);
  ASSERT_NE(w.Last<JoinedReply>(100), nullptr);
  const Footprint footprint = w.groups()->Find("g")->footprint;
  EXPECT_THAT(footprint.switches, ::testing::ElementsAre(w.Id("leaf1")));
  EXPECT_EQ(footprint.links.size(), 2u);
}

TEST(GroupPath, TooManyRanksDoNotGoByTheHosts) {
  GroupWorldFixture w(testing::Star(2));
  GroupSpec spec = Want(kMaxHostRanks + 1, Path::kHosts);
  EXPECT_EQ(w.groups()->Create(spec).code(), StatusCode::kInvalidArgument);
  w.path = Path::kHosts;
  for (uint32_t rank = 0; rank <= kMaxHostRanks; ++rank)
    w.groups()->OnJoin(w.now, 100 + rank, w.Request("h0", rank, kMaxHostRanks + 1));
  EXPECT_EQ(w.Last<Failure>(100)->code, ErrorCode::kUnsupported);
  EXPECT_EQ(w.Last<Failure>(100)->message, "513 ranks are more than the 512 that go by the hosts");
}

TEST(GroupPath, PathMtuIsTheLeastOfHostsAndLinks) {
  const auto mtu = [](uint32_t port_mtu, uint32_t wanted) -> std::variant<uint32_t, std::string> {
    GroupWorldFixture w(testing::Tree32());
    Report(&w, "root", [port_mtu](EngineReport* report) {
      report->ports[1].mtu = port_mtu;
      report->max_path_mtu = 256;  // of payloads that it sums
    });
    GroupSpec spec = Want(4, Path::kHosts);
    spec.path_mtu = wanted;
    EPIC_CHECK(w.groups()->Create(spec).ok());
    w.JoinAll(4);
    if (const auto* failure = w.Last<Failure>(100)) return failure->message;
    return w.Last<JoinedReply>(100)->path_mtu;
  };
  EXPECT_EQ(std::get<uint32_t>(mtu(4200, 0)), 4096u);
  EXPECT_EQ(std::get<uint32_t>(mtu(1500, 0)), 1024u);
  EXPECT_EQ(std::get<uint32_t>(mtu(1500, 512)), 512u);
  EXPECT_EQ(std::get<std::string>(mtu(1500, 2048)),
            "path_mtu: 2048 is more than the link at root:swp2 (MTU 1500) carries (1024)");
}

// Under auto a path MTU that cannot be had is a reason, and the group has what there is.
TEST(GroupPath, AutoTakesThePathMtuThatThereIs) {
  GroupWorldFixture w(testing::Star(2));
  GroupSpec spec = Want(2);
  spec.path_mtu = 4096;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  JoinRequest small = w.Request("h0", 0, 2);
  small.max_path_mtu = 1024;
  w.groups()->OnJoin(w.now, 100, small);
  w.Join(1, 2);
  ASSERT_NE(w.Last<JoinedReply>(101), nullptr);
  EXPECT_EQ(w.Last<JoinedReply>(101)->path_mtu, 1024u);
  EXPECT_EQ(w.Last<JoinedReply>(101)->path_reason,
            "path_mtu: 4096 is more than host h0 (rank 0) carries (1024)");
}

TEST(GroupPath, ALaterJoinMayNotContradict) {
  GroupWorldFixture w(testing::Star(4));
  w.path = Path::kNetwork;
  w.Join(0, 4);
  w.path = Path::kHosts;
  const Failure refused = Refusal(&w, w.Request("h1", 1, 4));
  EXPECT_EQ(refused.code, ErrorCode::kMismatch);
  EXPECT_EQ(refused.rank, 1);
  EXPECT_EQ(refused.message, "path: rank 1 asks for path hosts, the group g has path network");
  w.path = static_cast<Path>(9);
  EXPECT_EQ(Refusal(&w, w.Request("h1", 1, 4)).message,
            "path: rank 1 asks for 9, which is none of auto, network and hosts");
  // Who asks for none takes what there is.
  for (const auto& [rank, path] :
       {std::pair{1u, Path::kUnspecified}, {2u, Path::kAuto}, {3u, Path::kNetwork}}) {
    w.path = path;
    w.Join(rank, 4);
  }
  w.AnswerInstalls();
  EXPECT_EQ(w.Phase(), "running");
  GroupSpec bad = Want(2, static_cast<Path>(9));
  bad.name = "bad";
  EXPECT_EQ(w.groups()->Create(bad).code(), StatusCode::kInvalidArgument);
  JoinRequest network = w.Request("h0", 0, 2, "automatic");
  ASSERT_TRUE(w.groups()
                  ->Create([] {
                    GroupSpec spec = Want(2);
                    spec.name = "automatic";
                    return spec;
                  }())
                  .ok());
  EXPECT_EQ(Refusal(&w, network).message,
            "path: rank 0 asks for path network, the group automatic has path auto");
}

}  // namespace
}  // namespace epic::manager
