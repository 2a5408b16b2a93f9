#include <gtest/gtest.h>

#include <vector>

#include "sim/dsa/estimate.h"
#include "sim/dsa/network.h"
#include "sim/dsa/server.h"
#include "sim/dsa/switch.h"
#include "sim/dsa/worker.h"

namespace epic::sim::dsa {
namespace {

constexpr Picos kUs = kMicrosecond * kPicosPerNano;
constexpr Dnn kTiny = {1024, 10 * kUs};  // 16 packets

// Two jobs of four workers, one place for both, and a test in the place of hosts: what comes to them is kept.
class Rules {
 public:
  explicit Rules(JobsConfig config) : config_(std::move(config)), switch_(config_, network_, records_) {}

  static JobsConfig OnePlace(System system) {
    return {.system = system, .jobs = {kTiny, kTiny}, .workers = 4, .pool_bytes = 256};
  }

  // A gradient's packet reaches the switch, and what follows goes its way.
  void Gradient(int job, int worker, uint32_t index = 0, uint64_t priority = 1, bool repeated = false) {
    switch_.OnFromWorker(now_, {.repeated = repeated,
                                .worker = static_cast<uint8_t>(worker),
                                .job = static_cast<uint16_t>(job),
                                .index = index,
                                .bitmap = 1U << worker,
                                .tally = TallyOf(worker),
                                .priority = priority});
    Settle();
  }
  void FromServer(const Packet& p) {
    switch_.OnFromServer(now_, p);
    Settle();
  }
  // Links deliver; timers stand still.
  void Settle() {
    while (network_.next_time() < kEndOfTime) {
      const Network::Due due = network_.TakeNext();
      now_ = due.time;
      if (due.is_timer) continue;
      (due.host >= network_.ServerHost(0) ? to_servers : to_workers).push_back(due.packet);
    }
  }
  bool Holds(uint32_t job, uint32_t index = 0) const { return switch_.Holds(job, index); }
  const Records& records() const { return records_; }

  std::vector<Packet> to_servers;
  std::vector<Packet> to_workers;

 private:
  JobsConfig config_;
  Records records_{config_};
  Network network_{config_, records_};
  Switch switch_;
  Picos now_ = 0;
};

// The paper's Figure 3, with four workers in the second job: it has the higher priority.
void PlayFigure3(Rules& rules) {
  for (const int worker : {0, 1}) rules.Gradient(0, worker);
  for (const int worker : {0, 1, 2, 3}) rules.Gradient(1, worker, 0, 2);
  ASSERT_EQ(rules.to_servers.size(), 1U);
  EXPECT_EQ(rules.to_servers[0].bitmap, 0b0011U);
  EXPECT_EQ(rules.to_workers.size(), 4U);
  for (const Packet& p : rules.to_workers) {
    EXPECT_EQ(p.job, 1);
    EXPECT_EQ(p.tally, WholeTally(4));
  }
  for (const int worker : {2, 3}) rules.Gradient(0, worker);
}

TEST(DsaRulesTest, TheRestOfASplitSumWaitsForARequest) {
  Rules rules(Rules::OnePlace(System::kDsa));
  PlayFigure3(rules);
  EXPECT_EQ(rules.to_servers.size(), 1U);
  EXPECT_TRUE(rules.Holds(0));
  rules.FromServer({.kind = Kind::kRequest, .job = 0, .index = 0});
  ASSERT_EQ(rules.to_servers.size(), 2U);
  EXPECT_EQ(rules.to_servers[1].bitmap, 0b1100U);
  EXPECT_EQ(rules.to_servers[1].tally, TallyOf(2) + TallyOf(3));
  EXPECT_FALSE(rules.Holds(0));
}

TEST(DsaRulesTest, TheRestOfASplitSumLeavesAtOnce) {
  JobsConfig config = Rules::OnePlace(System::kDsa);
  config.last_at_once = true;
  Rules rules(config);
  PlayFigure3(rules);
  ASSERT_EQ(rules.to_servers.size(), 2U);
  EXPECT_EQ(rules.to_servers[1].bitmap, 0b1100U);
  EXPECT_FALSE(rules.Holds(0));
}

TEST(DsaRulesTest, AFailedAttemptHalvesAndATieStays) {
  Rules rules(Rules::OnePlace(System::kDsa));
  rules.Gradient(0, 0, 0, 8);
  rules.Gradient(1, 0, 0, 4);
  EXPECT_TRUE(rules.Holds(0)) << "8 against 4";
  rules.Gradient(1, 1, 0, 4);
  EXPECT_TRUE(rules.Holds(0)) << "4 against 4";
  rules.Gradient(1, 2, 0, 4);
  EXPECT_TRUE(rules.Holds(1)) << "2 against 4";
  ASSERT_EQ(rules.to_servers.size(), 3U);
  EXPECT_EQ(rules.to_servers[2].job, 0);
  EXPECT_EQ(TypeOf(rules.records().indices[0][0]), TaskType::kLost);
  EXPECT_EQ(TypeOf(rules.records().indices[1][0]), TaskType::kLost) << "two of its packets have lost";
}

TEST(DsaRulesTest, AWorkersSecondPacketIsDroppedWhileItsFirstIsThere) {
  Rules rules(Rules::OnePlace(System::kDsa));
  rules.Gradient(0, 0);
  rules.Gradient(0, 0, 0, 1, true);
  EXPECT_EQ(rules.records().duplicates, 1);
  for (const int worker : {1, 2, 3}) rules.Gradient(0, worker);
  ASSERT_EQ(rules.to_workers.size(), 4U);
  EXPECT_EQ(rules.to_workers[0].tally, WholeTally(4));
}

TEST(DsaRulesTest, WhoComesFirstStaysUntilTheServersResultPasses) {
  Rules rules(Rules::OnePlace(System::kAtp));
  for (const int worker : {0, 1, 2, 3}) rules.Gradient(0, worker);
  ASSERT_EQ(rules.to_servers.size(), 1U);
  EXPECT_EQ(rules.to_servers[0].tally, WholeTally(4));
  EXPECT_TRUE(rules.to_workers.empty());
  rules.Gradient(1, 0, 0, 100);
  EXPECT_TRUE(rules.Holds(0));
  EXPECT_EQ(rules.to_servers.size(), 2U);
  rules.FromServer({.kind = Kind::kResult, .job = 0, .index = 0, .tally = WholeTally(4)});
  EXPECT_FALSE(rules.Holds(0));
  EXPECT_EQ(rules.to_workers.size(), 4U);
}

TEST(DsaRulesTest, APacketOfAtpThatIsSentAgainTakesTheSumAlong) {
  Rules rules(Rules::OnePlace(System::kAtp));
  rules.Gradient(0, 1);
  rules.Gradient(0, 0, 0, 1, true);
  ASSERT_EQ(rules.to_servers.size(), 2U);
  EXPECT_EQ(rules.to_servers[0].bitmap, 0b0010U);
  EXPECT_EQ(rules.to_servers[1].bitmap, 0b0001U);
  EXPECT_FALSE(rules.Holds(0));
}

TEST(DsaRulesTest, ARegionKeepsResultsForWhoHasLostThem) {
  JobsConfig config = Rules::OnePlace(System::kSwitchMl);
  config.pool_bytes = 1024;  // two places of each job
  Rules rules(config);
  for (const int worker : {0, 1, 2, 3}) rules.Gradient(1, worker);
  EXPECT_EQ(rules.to_workers.size(), 4U);
  rules.Gradient(1, 2, 0, 1, true);
  ASSERT_EQ(rules.to_workers.size(), 5U);
  EXPECT_EQ(rules.to_workers[4].only, 0b0100U);
  EXPECT_EQ(rules.to_workers[4].tally, WholeTally(4));
  rules.Gradient(1, 0, 2);
  EXPECT_TRUE(rules.Holds(1, 2) && !rules.Holds(1, 0));
  EXPECT_TRUE(rules.to_servers.empty());
}

// The server has the sum of workers 0 and 1; worker 0 repeats its packet, finds the place free, and worker 2
// joins it: two sums with one worker in common.
Tally SumOfOverlapping(bool adds, Records& records) {
  JobsConfig config = Rules::OnePlace(System::kDsa);
  config.adds_overlaps = adds;
  Network network(config, records);
  Server server(config, 0, network, records);
  const auto send = [&](Kind kind, uint32_t bitmap, Tally tally) {
    server.OnPacket(0, {.kind = kind, .job = 0, .bitmap = bitmap, .tally = tally});
  };
  send(Kind::kPart, 0b0011, TallyOf(0) + TallyOf(1));
  send(Kind::kPart, 0b0101, TallyOf(0) + TallyOf(2));
  send(Kind::kOriginal, 0b0100, TallyOf(2));
  send(Kind::kOriginal, 0b1000, TallyOf(3));
  while (network.next_time() < kEndOfTime) {
    const Network::Due due = network.TakeNext();
    if (!due.is_timer) return due.packet.tally;
  }
  return 0;
}

TEST(DsaRulesTest, SumsWithWorkersInCommonAreDroppedOrCountTwice) {
  const JobsConfig config = Rules::OnePlace(System::kDsa);
  Records records(config);
  EXPECT_EQ(SumOfOverlapping(false, records), WholeTally(4));
  EXPECT_EQ(SumOfOverlapping(true, records), WholeTally(4) + TallyOf(0));
  EXPECT_EQ(records.overlaps, 2);
}

// Layer 1 before layer 2, what is left before what is first, communication before computation.
TEST(DsaRulesTest, PrioritiesAreThoseOfTheEquation) {
  const JobsConfig config{.jobs = {kCommunicationIntensive, kComputationIntensive}};
  const uint32_t packets = PartitionPackets(config, 0);
  const auto of = [&](int job, uint32_t index) { return PriorityOf(config, job, index); };
  EXPECT_GT(of(0, 1), of(0, 0));
  // One packet on, the remaining time is the same but for a packet; L/l is 2 for 1.
  EXPECT_NEAR(static_cast<double>(of(0, packets)) / static_cast<double>(of(0, packets - 1)), 2, 0.6);
  EXPECT_NEAR(static_cast<double>(of(0, 3 * packets)) / static_cast<double>(of(0, 3 * packets - 1)), 0.5,
              0.001);
  // As much to send, four times the share of communication.
  EXPECT_NEAR(
      static_cast<double>(of(0, 3 * packets)) / static_cast<double>(of(1, 2 * PartitionPackets(config, 1))),
      2, 0.001);
}

TEST(DsaRulesTest, ATimeoutFollowsWhatWasMeasured) {
  Estimate timeout(1000);
  EXPECT_EQ(timeout.timeout(), 1000);
  timeout.Add(100);
  EXPECT_EQ(timeout.timeout(), 1000);
  timeout.Add(4100);
  // The mean is 600; the deviation was 50 and is 50 + (4000 - 50) / 4.
  EXPECT_EQ(timeout.timeout(), 600 + 4 * 1037);
}

TEST(DsaRulesTest, OfWhatIsDueAtOneTimeTheLowestComesFirst) {
  Agenda agenda(5);
  EXPECT_EQ(agenda.time(), kEndOfTime);
  agenda.Set(4, 7);
  agenda.Set(2, 7);
  EXPECT_EQ(agenda.source(), 2U);
  agenda.Set(3, 6);
  EXPECT_EQ(agenda.source(), 3U);
  agenda.Set(3, 8);
  agenda.Set(2, kEndOfTime);
  EXPECT_EQ(agenda.source(), 4U);
}

}  // namespace
}  // namespace epic::sim::dsa
