#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "bench/link_bytes.h"
#include "bench/perf_options.h"
#include "bench/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::perf {
namespace {

// Empty after a usage error, which has exited with 2.
std::optional<PerfOptions> Parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "epic-perf");
  int code = 0;
  auto options = ParsePerfOptions(static_cast<int>(words.size()), words.data(), &code);
  EXPECT_EQ(code, options ? 0 : 2) << words.back();
  return options;
}

std::vector<uint64_t> Sizes(const PerfOptions& options, Kind kind) {
  std::vector<uint64_t> sizes;
  for (const Series& series : SeriesOf(options, kind)) sizes.push_back(series.bytes);
  return sizes;
}

TEST(PerfOptionsTest, SizesHaveUnits) {
  EXPECT_EQ(ParseSize("4096"), 4096u);
  EXPECT_EQ(ParseSize("4K"), 4096u);
  EXPECT_EQ(ParseSize("16M"), 16u << 20);
  EXPECT_EQ(ParseSize("1G"), 1u << 30);
  EXPECT_EQ(ParseSize("4X"), std::nullopt);
  EXPECT_EQ(ParseSize("K"), std::nullopt);
  EXPECT_EQ(ParseSize(""), std::nullopt);
}

TEST(PerfOptionsTest, FlagsAreThoseOfNcclTests) {
  const char* argv[] = {"epic-perf", "-b",     "8",  "-e",     "64", "-f",    "2",  "-n",  "5",
                        "-w",        "3",      "-c", "2",      "-d", "int32", "-o", "sum", "-m",
                        "4",         "--rank", "1",  "--size", "3",  "-g",    "g"};
  int code = 0;
  const auto options = ParsePerfOptions(static_cast<int>(std::size(argv)), argv, &code);
  ASSERT_TRUE(options);
  EXPECT_THAT(Sizes(*options, Kind::kAllReduce), testing::ElementsAre(8, 16, 32, 64));
  const Series barrier{.bytes = 0, .iterations = 5, .warmup = 3};
  EXPECT_THAT(SeriesOf(*options, Kind::kBarrier), testing::ElementsAre(barrier));
  EXPECT_EQ(options->checks, 2);
  EXPECT_EQ(options->aggregated, 4);
  EXPECT_EQ(options->communicator.rank, 1);
  EXPECT_THAT(options->types, testing::ElementsAre(Datatype::kInt32));
}

TEST(PerfOptionsTest, PathAndAlgorithmAreTheCommunicators) {
  auto options = Parsed({"--path", "hosts", "--algorithm", "ring"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->communicator.path, PathChoice::kHosts);
  EXPECT_EQ(options->communicator.algorithm, HostAlgorithm::kRing);
  EXPECT_EQ(Parsed({"--algorithm", "multicast"})->communicator.algorithm, HostAlgorithm::kMulticast);
  options = Parsed({});
  EXPECT_EQ(options->communicator.path, PathChoice::kDefault);
  EXPECT_EQ(options->communicator.algorithm, HostAlgorithm::kDefault);
  EXPECT_FALSE(Parsed({"--path", "host"}));
  EXPECT_FALSE(Parsed({"--algorithm", ""}));
}

TEST(PerfOptionsTest, FactorOneSteps) {
  PerfOptions options{.min_bytes = 4, .max_bytes = 30, .step_bytes = 13, .step_factor = 1};
  EXPECT_THAT(Sizes(options, Kind::kReduce), testing::ElementsAre(4, 17, 30));
}

TEST(PerfOptionsTest, ASizeIsThatOfAllShares) {
  EXPECT_EQ(CountOf(30, Kind::kAllReduce, Datatype::kFloat32, 4), 7u);
  EXPECT_EQ(CountOf(64, Kind::kAllGather, Datatype::kByte, 4), 16u);
  EXPECT_EQ(CountOf(64, Kind::kReduceScatter, Datatype::kFloat16, 4), 8u);
  EXPECT_EQ(CountOf(64, Kind::kBroadcast, Datatype::kByte, 4), 64u);
}

TEST(PerfOptionsTest, CallsAreSizesWithANumberOfEach) {
  const auto options = Parsed({"--calls", "4K:200,1M:15,8:1"});
  ASSERT_TRUE(options);
  const Series wanted[] = {{4096, 200, 21}, {1 << 20, 15, 2}, {8, 1, 1}};
  EXPECT_THAT(SeriesOf(*options, Kind::kAllReduce), testing::ElementsAreArray(wanted));
  EXPECT_THAT(SeriesOf(*options, Kind::kBarrier), testing::ElementsAreArray(wanted));
  EXPECT_EQ(options->max_bytes, 1u << 20) << "what buffers must hold";
}

TEST(PerfOptionsTest, AnItemOfCallsThatIsNoneIsNamed) {
  for (const char* bad : {"4K", "4K:", ":5", "4X:5", "4K:0", "4K:-1", "4K:5x", "4K:1000001", "65G:5", ""}) {
    testing::internal::CaptureStderr();
    EXPECT_FALSE(Parsed({"--calls", ("8:1," + std::string(bad) + ",8:1").c_str()})) << bad;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("'" + std::string(bad) + "'"));
  }
  EXPECT_FALSE(Parsed({"--calls="}));
  EXPECT_FALSE(Parsed({"--calls", "8:1,"}));
}

TEST(PerfOptionsTest, CallsReplaceSizesAndIterations) {
  for (const char* other : {"-b", "-e", "-i", "-f", "-n", "-w"}) {
    EXPECT_FALSE(Parsed({"--calls", "8:1", other, "8"})) << other;
  }
}

TEST(PerfOptionsTest, AllMeansEveryOne) {
  const char* argv[] = {"epic-perf", "--collective", "all", "-d", "all", "-o",
                        "all",       "--mode",       "3",   "-r", "2"};
  int code = 0;
  const auto options = ParsePerfOptions(static_cast<int>(std::size(argv)), argv, &code);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->kinds.size(), 6u);
  EXPECT_EQ(options->types.size(), 13u);
  EXPECT_EQ(options->ops.size(), 10u);
  EXPECT_EQ(options->communicator.mode, 3);
  EXPECT_EQ(options->root, 2);
}

TEST(PerfOptionsTest, ModesHaveNames) {
  for (const auto& [text, number] : {std::pair("2", 2), {"III", 3}, {"terminated", 1}, {"0", 0}}) {
    const char* argv[] = {"epic-perf", "--mode", text};
    int code = 0;
    const auto options = ParsePerfOptions(static_cast<int>(std::size(argv)), argv, &code);
    ASSERT_TRUE(options) << text;
    EXPECT_EQ(options->communicator.mode, number) << text;
  }
}

TEST(PerfOptionsTest, UsageErrorsExitWithTwo) {
  for (const std::vector<const char*>& bad : {std::vector<const char*>{"epic-perf", "-d", "quarter"},
                                              {"epic-perf", "-o", "lxor"},
                                              {"epic-perf", "-o", "band"},
                                              {"epic-perf", "-b", "2K", "-e", "1K"},
                                              {"epic-perf", "-e", "65G"},
                                              {"epic-perf", "--nonsense"},
                                              {"epic-perf", "--collective", "alltoall"},
                                              {"epic-perf", "-d", "byte"},
                                              {"epic-perf", "--mode", "99"},
                                              {"epic-perf", "-n", "0"}}) {
    int code = 0;
    EXPECT_FALSE(ParsePerfOptions(static_cast<int>(bad.size()), bad.data(), &code));
    EXPECT_EQ(code, 2) << bad[1];
  }
}

TEST(PerfOptionsTest, ParallelCallsAreOneAtATime) {
  EXPECT_TRUE(Parsed({"--parallel"})->parallel);
  EXPECT_FALSE(Parsed({})->parallel);
  EXPECT_TRUE(Parsed({"--parallel", "--collective", "all"}))
      << "what it has not is left out, with the reason";
  EXPECT_FALSE(Parsed({"--parallel", "-m", "2"}));
  EXPECT_FALSE(Parsed({"--parallel", "-R", "1"}));
}

TEST(PerfOptionsTest, ANumberOutOfBoundsIsToldWhatItCounts) {
  struct Case {
    std::vector<const char*> words;
    std::string said;
  };
  for (const Case& bad : {Case{{"-m", "300"}, "300 is not from 1 to 256 (calls outstanding at a time)"},
                          {{"-c", "-1"}, "-1 is not from 0 to 1000000 (verified runs; 0 verifies nothing)"},
                          {{"-n", "often"}, "often is not from 1 to 1000000 (timed iterations)"},
                          {{"-r", "-1"}, "-1 is not from 0 to 2147483647 (a rank)"}}) {
    testing::internal::CaptureStderr();
    EXPECT_FALSE(Parsed(bad.words)) << bad.said;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr(bad.said));
  }
}

TEST(ReportTest, ColumnsAreThoseOfNcclTests) {
  Report report("allreduce", "g", 4, 1024, false);
  EXPECT_THAT(report.Header(),
              testing::HasSubstr("#       size         count      type   redop    root     time   algbw"
                                 "   busbw #wrong     time   algbw   busbw #wrong     path\n"));
  const Row row{.bytes = 4096,
                .count = 1024,
                .type = "float",
                .redop = "sum",
                .path = {.path = PathChoice::kNetwork, .reason = ""},
                .out_of_place = {.time_us = 4.096, .wrong = 0},
                .in_place = {.time_us = 20480, .wrong = 3}};
  EXPECT_EQ(report.Add(row),
            "        4096          1024     float     sum      -1     4.10    1.00    1.50      0    20480   "
            " 0.00    0.00"
            "      3  network\n");
  EXPECT_THAT(report.Footer(),
              testing::HasSubstr("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 0.75"));
}

TEST(ReportTest, BusBandwidthIsThatOfNcclTests) {
  const Measured half{.time_us = 1};
  const auto busbw = [&](Kind kind) { return BusBandwidth({.kind = kind, .bytes = 4000}, half, 4); };
  EXPECT_DOUBLE_EQ(busbw(Kind::kAllReduce), 6);
  EXPECT_DOUBLE_EQ(busbw(Kind::kReduceScatter), 3);
  EXPECT_DOUBLE_EQ(busbw(Kind::kAllGather), 3);
  EXPECT_DOUBLE_EQ(busbw(Kind::kReduce), 4);
  EXPECT_DOUBLE_EQ(busbw(Kind::kBroadcast), 4);
}

TEST(ReportTest, SaysWhatSwitchesSentAgain) {
  Report text("allreduce", "g", 2, 1024, false), json("allreduce", "g", 2, 1024, true);
  EXPECT_EQ(text.Footer().find("again"), std::string::npos) << "nobody has said so";
  text.SetTrouble({});
  EXPECT_THAT(text.Footer(), testing::HasSubstr("# Sent again, refused  : nothing\n"));
  text.SetTrouble({{"s1", "repeats", 3}, {"s1", "drop_gap", 1}, {"s10", "repeats", 2}});
  EXPECT_THAT(text.Footer(),
              testing::HasSubstr("# Sent again, refused  : s1 repeats 3, drop_gap 1; s10 repeats 2\n"));
  json.SetTrouble({{"s1", "repeats", 3}});
  EXPECT_THAT(json.Footer(), testing::HasSubstr("\"repeats\": 3"));
}

TEST(ReportTest, PercentilesAreTimesThatWereMeasured) {
  EXPECT_EQ(Percentile({}, 50), 0);
  EXPECT_EQ(Percentile({7}, 99.9), 7);
  EXPECT_EQ(Percentile({3, 1, 2}, 50), 2);
  EXPECT_EQ(Percentile({4, 3, 1, 2}, 50), 2);
  std::vector<double> times(1000);
  for (size_t i = 0; i < times.size(); ++i) times[i] = static_cast<double>(1000 - i);
  EXPECT_EQ(Percentile(times, 99.9), 999);
}

TEST(ReportTest, JsonHasPercentilesOfCallsMadeOneByOne) {
  Report report("allreduce", "g", 2, 1024, true);
  report.Add({.bytes = 4,
              .count = 1,
              .out_of_place = {.time_us = 1, .p50_us = 0.5, .p99_9_us = 7},
              .in_place = {.time_us = 1}});
  const std::string text = report.Footer();
  EXPECT_THAT(text, testing::HasSubstr("\"p50_us\": 0.5"));
  EXPECT_THAT(text, testing::HasSubstr("\"p99_9_us\": 7.0"));
  EXPECT_EQ(text.find("p50_us"), text.rfind("p50_us")) << "there is none of the other half";
}

TEST(ReportTest, JsonHasBytesOfEachRankWhereTheyAreCounted) {
  Report report("allreduce", "g", 2, 1024, true);
  report.Add({.bytes = 4, .count = 1, .out_of_place = {.sent = {70, 80}, .received = {90, 100}}});
  std::string text = report.Footer();
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_THAT(text, testing::HasSubstr("\"received_bytes\":[90,100],\"sent_bytes\":[70,80]"));
  EXPECT_EQ(text.find("sent_bytes"), text.rfind("sent_bytes")) << "there are none of the other half";
}

TEST(ReportTest, JsonHasTheTimeOfEachCallWhereItIsKept) {
  Report report("allreduce", "g", 2, 1024, true);
  report.Add({.bytes = 4, .count = 1, .out_of_place = {.each_us = {7.5, 1}}});
  std::string text = report.Footer();
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_THAT(text, testing::HasSubstr("\"each_us\":[7.5,1.0]"));
  EXPECT_EQ(text.find("each_us"), text.rfind("each_us")) << "there are none of the other half";
}

TEST(LinkBytesTest, ADeviceHasItsOwnCounters) {
  char name[] = "/tmp/link_bytes_XXXXXX";
  close(mkstemp(name));
  std::ofstream(name)
      << "Inter-|   Receive                                                |  Transmit\n"
         " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
         "    lo: 12 1 0 0 0 0 0 0 12 1 0 0 0 0 0 0\n"
         " vec10: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n"
         "  vec1:18446744073709551615 7 0 0 0 0 0 0 4294967296 9 0 0 0 0 0 0\n";
  LinkBytes bytes = {3, 4};
  EXPECT_EQ(ReadLinkBytes(name, "vec1", &bytes), 0);
  EXPECT_EQ(bytes.received, 18446744073709551615u);
  EXPECT_EQ(bytes.sent, 4294967296u);
  EXPECT_EQ(ReadLinkBytes(name, "vec", &bytes), -1);
  EXPECT_EQ(ReadLinkBytes("/nonexistent", "vec1", &bytes), -1);
  EXPECT_EQ(bytes.sent, 4294967296u) << "as it was";
  unlink(name);
}

TEST(ReportTest, WhatIsRefusedIsLeftOutAndSaid) {
  Report text("allreduce", "g", 2, 1024, false), json("allreduce", "g", 2, 1024, true);
  const Row row{.type = "double", .redop = "sum"};
  EXPECT_EQ(text.Skip(row, "type float64 is not in leaf1"),
            "# left out: allreduce double sum: type float64 is not in leaf1\n");
  EXPECT_FALSE(text.has_rows());
  EXPECT_EQ(json.Footer().find("left_out"), std::string::npos);
  EXPECT_EQ(json.Skip(row, "type float64 is not in leaf1"), "");
  EXPECT_THAT(json.Footer(),
              testing::AllOf(testing::HasSubstr("\"left_out\": ["),
                             testing::HasSubstr("\"reason\": \"type float64 is not in leaf1\""),
                             testing::HasSubstr("\"type\": \"double\"")));
}

TEST(ReportTest, JsonHasEverything) {
  Report report("allreduce", "g", 2, 1024, true);
  EXPECT_EQ(report.Header(), "");
  EXPECT_EQ(report.Add({.bytes = 4,
                        .count = 1,
                        .type = "int32",
                        .redop = "sum",
                        .path = {.path = PathChoice::kHosts, .reason = "leaf3 has 0.2 of 1.0 MiB free"},
                        .out_of_place = {.time_us = 1},
                        .in_place = {.time_us = 1, .wrong = 0}}),
            "");
  EXPECT_THAT(
      report.Footer(),
      testing::AllOf(testing::HasSubstr("\"wrong\": null"), testing::HasSubstr("\"wrong\": 0"),
                     testing::HasSubstr("\"out_of_bounds\": 0"), testing::HasSubstr("\"path\": \"hosts\""),
                     testing::HasSubstr("\"path_reason\": \"leaf3 has 0.2 of 1.0 MiB free\"")));
}

}  // namespace
}  // namespace epic::perf
