// The table of docs/PROTOCOL-CONTROL.md, section 7.1, row by row and at every bound.
#include "incmanager/groups/health.h"

#include <gtest/gtest.h>

#include <string>

namespace epic::manager {
namespace {

constexpr Nanos kEver = 100 * kSecond;
const WitnessEvidence kHears = {.answered = kSecond / 2, .missing = 0};
const WitnessEvidence kMissesIt = {.answered = kEver, .missing = kMissedAfter};
const WitnessEvidence kUnproven = {.answered = kNever, .missing = kEver};

WitnessEvidence OfHost(WitnessEvidence witness) {
  witness.is_host = true;
  return witness;
}

TEST(Health, AnAgentThatSpeaksIsBelieved) {
  for (const Nanos silent : {Nanos{0}, kSilentAfter - 1}) {
    EXPECT_EQ(Judge({silent, true, {}}), Verdict::kAlive);
    EXPECT_EQ(Judge({silent, true, {kMissesIt}}), Verdict::kAlive) << "a link may be cut";
    EXPECT_EQ(Judge({silent, false, {}}), Verdict::kEngineLost);
    EXPECT_EQ(Judge({silent, false, {kHears}}), Verdict::kEngineLost) << "an echo from before";
  }
}

TEST(Health, ASilentAgentAloneIsNoLostSwitch) {
  for (const auto& witnesses : std::vector<std::vector<WitnessEvidence>>{
           {}, {kHears}, {kUnproven}, {kHears, kMissesIt}, {kMissesIt, kHears}, {kUnproven, kHears}}) {
    EXPECT_EQ(Judge({kSilentAfter, true, witnesses}), Verdict::kSilent);
    EXPECT_EQ(Judge({kAgentLostAfter - 1, true, witnesses}), Verdict::kSilent);
    EXPECT_EQ(Judge({kAgentLostAfter, true, witnesses}), Verdict::kAgentLost);
    EXPECT_EQ(Judge({kNever, true, witnesses}), Verdict::kAgentLost);
  }
}

TEST(Health, ASilentAgentAndAWitnessThatMissesTheSwitchAreALostSwitch) {
  for (const auto& witnesses : std::vector<std::vector<WitnessEvidence>>{
           {kMissesIt}, {kMissesIt, kMissesIt}, {kUnproven, kMissesIt}}) {
    EXPECT_EQ(Judge({kSwitchLostAfter - 1, true, witnesses}), Verdict::kSilent);
    EXPECT_EQ(Judge({kSwitchLostAfter, true, witnesses}), Verdict::kSwitchLost);
    EXPECT_EQ(Judge({kSwitchLostAfter, false, witnesses}), Verdict::kSwitchLost);
    EXPECT_EQ(Judge({kNever, true, witnesses}), Verdict::kSwitchLost);
  }
}

// Who of an engine and hosts hears the switch (+), misses it (-), or knows nothing (0); all agents are
// silent.
Verdict Judged(const std::string& engine, const std::string& hosts) {
  SwitchEvidence of{kSwitchLostAfter, true, {}};
  const auto add = [&of](char sign, bool is_host) {
    WitnessEvidence witness = sign == '+' ? kHears : sign == '-' ? kMissesIt : kUnproven;
    witness.is_host = is_host;
    of.witnesses.push_back(witness);
  };
  for (const char sign : engine) add(sign, false);
  for (const char sign : hosts) add(sign, true);
  return Judge(of);
}

TEST(Health, AHostThatLiesIsOutvoted) {
  EXPECT_EQ(Judged("", "+--"), Verdict::kSwitchLost);
  EXPECT_EQ(Judged("-", "+-"), Verdict::kSwitchLost);
  EXPECT_EQ(Judged("--", "+"), Verdict::kSwitchLost);
  EXPECT_EQ(Judged("", "++---"), Verdict::kSwitchLost);
}

TEST(Health, AnEngineThatHearsIsBelieved) {
  EXPECT_EQ(Judged("+", "-----"), Verdict::kSilent);
  EXPECT_EQ(Judged("+--", "---"), Verdict::kSilent);
}

// A switch that part of the network cannot reach lives on for the rest.
TEST(Health, AtATieTheSwitchLives) {
  EXPECT_EQ(Judged("-", "+"), Verdict::kSilent) << "its uplink is cut";
  EXPECT_EQ(Judged("-", "++"), Verdict::kSilent);
  EXPECT_EQ(Judged("", "+-"), Verdict::kSilent) << "a host's link is cut";
  EXPECT_EQ(Judged("", "++--"), Verdict::kSilent);
  EXPECT_EQ(Judged("0", "+-000"), Verdict::kSilent) << "who knows nothing has no vote";
  EXPECT_EQ(Judged("0", "+--000"), Verdict::kSwitchLost);
}

// An echo that is up to 1.5 s late makes a witness both hear and miss.
TEST(Health, WhoHearsDoesNotMiss) {
  const WitnessEvidence late = OfHost({.answered = kHeardFor, .missing = kMissedAfter});
  EXPECT_EQ(Judge({kSwitchLostAfter, true, {late, late, OfHost(kMissesIt)}}), Verdict::kSilent);
}

TEST(Health, BoundsOfAWitness) {
  const auto judged = [](WitnessEvidence witness) { return Judge({kSwitchLostAfter, true, {witness}}); };
  EXPECT_EQ(judged({kEver, kMissedAfter - 1}), Verdict::kSilent) << "an echo may be lost";
  EXPECT_EQ(judged({kEver, kMissedAfter}), Verdict::kSwitchLost);
  EXPECT_EQ(judged({kHeardFor, kMissedAfter}), Verdict::kSilent) << "it has answered lately";
  EXPECT_EQ(judged({kHeardFor + 1, kMissedAfter}), Verdict::kSwitchLost);
  EXPECT_EQ(judged({kNever, kEver}), Verdict::kSilent) << "echoes may not get through at all";
}

TEST(Health, ALinkWithoutCarrierIsLostAfterAWhile) {
  for (const std::optional<SwitchEvidence>& there :
       std::vector<std::optional<SwitchEvidence>>{std::nullopt, SwitchEvidence{}}) {
    LinkEvidence link{.there = there};
    EXPECT_EQ(Judge({}, &link), Verdict::kAlive);
    link.down = link.sure = kLinkLostAfter - 1;
    EXPECT_EQ(Judge({}, &link), Verdict::kAlive);
    link.down = link.sure = kLinkLostAfter;
    EXPECT_EQ(Judge({}, &link), Verdict::kLinkLost);
    // Said once only: whoever said so may have died since.
    link.sure = 0;
    EXPECT_EQ(Judge({}, &link), Verdict::kAlive);
    link.down = kDoubtfulLinkLostAfter;
    EXPECT_EQ(Judge({}, &link), Verdict::kLinkLost);
  }
}

TEST(Health, AWordFromBeforeTheGroupIsNoEvidence) {
  const auto judged = [](Nanos told, Nanos crossed) {
    const LinkEvidence link{
        .down = kEver, .sure = kEver, .there = SwitchEvidence{}, .told = told, .crossed = crossed};
    return Judge({}, &link);
  };
  EXPECT_EQ(judged(kLinkLostAfter, kLinkLostAfter), Verdict::kAlive);
  EXPECT_EQ(judged(kEver, kLinkLostAfter), Verdict::kAlive);
  EXPECT_EQ(judged(kLinkLostAfter - 1, kLinkLostAfter), Verdict::kLinkLost) << "told again";
  EXPECT_EQ(judged(0, kLinkLostAfter - 1), Verdict::kAlive) << "the group has not been there for that long";
  EXPECT_EQ(judged(0, kLinkLostAfter), Verdict::kLinkLost);
}

TEST(Health, ALostEndIsNoLostLink) {
  const SwitchEvidence lost{kSwitchLostAfter, true, {kMissesIt}};
  const SwitchEvidence engine_lost{0, false, {}};
  for (const SwitchEvidence& end : {lost, engine_lost}) {
    const LinkEvidence to_it{.down = kEver, .sure = kEver, .there = end};
    EXPECT_EQ(Judge({}, &to_it), Verdict::kAlive);
    const LinkEvidence from_it{.down = kEver, .sure = kEver, .there = SwitchEvidence{}};
    EXPECT_EQ(Judge(end, &from_it), Judge(end));
  }
}

TEST(Health, AnEndInDoubtDelaysTheLinksVerdict) {
  const SwitchEvidence doubtful{kSilentAfter, true, {}};
  const SwitchEvidence heard{kAgentLostAfter, true, {kHears}};
  for (const bool here : {true, false}) {
    const auto judged = [here](const SwitchEvidence& end, Nanos down) {
      const LinkEvidence link{.down = down, .sure = down, .there = here ? SwitchEvidence{} : end};
      return Judge(here ? end : SwitchEvidence{}, &link);
    };
    EXPECT_NE(judged(doubtful, kLinkLostAfter), Verdict::kLinkLost);
    EXPECT_NE(judged(doubtful, kDoubtfulLinkLostAfter - 1), Verdict::kLinkLost);
    EXPECT_EQ(judged(doubtful, kDoubtfulLinkLostAfter), Verdict::kLinkLost);
    EXPECT_EQ(judged(heard, kLinkLostAfter), Verdict::kLinkLost) << "only its agent is away";
    EXPECT_NE(judged(heard, kLinkLostAfter - 1), Verdict::kLinkLost);
  }
}

// Whatever is known: no verdict against a switch that somebody has heard lately or whose agent speaks of a
// running engine, nor one without anybody who has missed it; and time alone never takes one back.
TEST(Health, EveryCombination) {
  const Nanos times[] = {0, kSilentAfter - 1, kSilentAfter, kSwitchLostAfter, kAgentLostAfter, kEver, kNever};
  const Nanos answered[] = {0, kHeardFor, kHeardFor + 1, kEver, kNever};
  const Nanos missing[] = {0, kMissedAfter - 1, kMissedAfter, kEver};
  const Nanos down[] = {0, kLinkLostAfter - 1, kLinkLostAfter, kDoubtfulLinkLostAfter};
  for (const Nanos silent : times) {
    for (const bool engine_up : {true, false}) {
      for (const Nanos a : answered) {
        for (const Nanos m : missing) {
          const SwitchEvidence end{silent, engine_up, {{a, m}}};
          const Verdict verdict = Judge(end);
          EXPECT_NE(verdict, Verdict::kLinkLost);
          EXPECT_EQ(verdict == Verdict::kSwitchLost,
                    silent >= kSwitchLostAfter && a > kHeardFor && a != kNever && m >= kMissedAfter);
          EXPECT_EQ(verdict == Verdict::kEngineLost, silent < kSilentAfter && !engine_up);
          for (const Nanos d : down) {
            const LinkEvidence to_host{.down = d, .sure = d, .there = std::nullopt},
                to_it{.down = d, .sure = d, .there = end};
            const Verdict host_link = Judge(end, &to_host);
            EXPECT_TRUE(host_link == Verdict::kLinkLost || host_link == verdict);
            const Verdict seen_from_there = Judge({}, &to_it);
            EXPECT_TRUE(seen_from_there == Verdict::kLinkLost || seen_from_there == Verdict::kAlive);
            // Both ends judge a link alike.
            const LinkEvidence back{.down = d, .sure = d, .there = SwitchEvidence{}};
            EXPECT_EQ(Judge(end, &back) == Verdict::kLinkLost, seen_from_there == Verdict::kLinkLost);
            if (d < kLinkLostAfter) {
              EXPECT_NE(host_link, Verdict::kLinkLost);
            }
            if (d >= kDoubtfulLinkLostAfter && verdict != Verdict::kSwitchLost &&
                verdict != Verdict::kEngineLost) {
              EXPECT_EQ(host_link, Verdict::kLinkLost) << "no doubt lasts for ever";
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace epic::manager
