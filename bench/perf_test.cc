#include <vector>

#include "bench/pattern.h"
#include "bench/perf_options.h"
#include "bench/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::perf {
namespace {

constexpr uint32_t kRun = 7;

template <typename T>
std::vector<T> Input(int rank, int ranks, size_t count) {
  std::vector<T> data(count);
  if constexpr (std::is_same_v<T, float>) {
    FillInput(data, rank, ranks, kRun);
  } else {
    FillInput(data, rank, kRun);
  }
  return data;
}

// Sums in reverse order of ranks: exactness must not depend on the order.
template <typename T>
std::vector<T> Sum(int ranks, size_t count, int missing = -1, int doubled = -1) {
  std::vector<T> sum(count);
  for (int rank = ranks - 1; rank >= 0; --rank) {
    const std::vector<T> input = Input<T>(rank, ranks, count);
    for (int times = rank == missing ? 0 : rank == doubled ? 2 : 1; times > 0; --times) {
      for (size_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<T, float>) {
          sum[i] += input[i];
        } else {
          sum[i] = static_cast<T>(static_cast<uint32_t>(sum[i]) + static_cast<uint32_t>(input[i]));
        }
      }
    }
  }
  return sum;
}

template <typename T>
class PatternTest : public testing::Test {};
using Types = testing::Types<int32_t, float>;
TYPED_TEST_SUITE(PatternTest, Types);

TYPED_TEST(PatternTest, RightSumsAreRight) {
  for (const int ranks : {2, 3, 4, 63, 64}) {
    EXPECT_EQ(CountWrong(std::span<const TypeParam>(Sum<TypeParam>(ranks, 1000)), ranks, kRun), 0u) << ranks;
  }
}

TYPED_TEST(PatternTest, EveryKindOfErrorShows) {
  const int ranks = 4;
  const size_t count = 1000;
  const auto wrong = [&](const std::vector<TypeParam>& data, uint32_t run = kRun) {
    return CountWrong(std::span<const TypeParam>(data), ranks, run);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_GT(wrong(Sum<TypeParam>(ranks, count, rank)), count - 10) << "missing";
    EXPECT_GT(wrong(Sum<TypeParam>(ranks, count, -1, rank)), count - 10) << "doubled";
  }
  EXPECT_GT(wrong(Sum<TypeParam>(ranks, count, 0, 1)), count - 10) << "one missing, another doubled";
  auto shifted = Sum<TypeParam>(ranks, count);
  std::rotate(shifted.begin(), shifted.begin() + 256, shifted.end());
  EXPECT_GT(wrong(shifted), count - 10) << "misplaced";
  EXPECT_GT(wrong(Sum<TypeParam>(ranks, count), kRun + 1), count - 10) << "left by an earlier run";
  auto one = Sum<TypeParam>(ranks, count);
  one[500] += 1;
  EXPECT_EQ(wrong(one), 1u);
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
  EXPECT_THAT(Counts(*options), testing::ElementsAre(2, 4, 8, 16));
  EXPECT_EQ(options->iterations, 5);
  EXPECT_EQ(options->warmup, 3);
  EXPECT_EQ(options->checks, 2);
  EXPECT_EQ(options->aggregated, 4);
  EXPECT_EQ(options->communicator.rank, 1);
  EXPECT_THAT(options->types, testing::ElementsAre(Datatype::kInt32));
}

TEST(PerfOptionsTest, FactorOneSteps) {
  PerfOptions options{.min_bytes = 4, .max_bytes = 30, .step_bytes = 13, .step_factor = 1};
  EXPECT_THAT(Counts(options), testing::ElementsAre(1, 4, 7));
}

TEST(PerfOptionsTest, UsageErrorsExitWithTwo) {
  for (const std::vector<const char*>& bad : {std::vector<const char*>{"epic-perf", "-d", "half"},
                                              {"epic-perf", "-o", "max"},
                                              {"epic-perf", "-b", "2K", "-e", "1K"},
                                              {"epic-perf", "-e", "2G"},
                                              {"epic-perf", "--nonsense"},
                                              {"epic-perf", "-n", "0"}}) {
    int code = 0;
    EXPECT_FALSE(ParsePerfOptions(static_cast<int>(bad.size()), bad.data(), &code));
    EXPECT_EQ(code, 2) << bad[1];
  }
}

TEST(ReportTest, ColumnsAreThoseOfNcclTests) {
  Report report("allreduce", "g", 4, 1024, false);
  EXPECT_THAT(report.Header(),
              testing::HasSubstr("#       size         count      type   redop    root     time   algbw"
                                 "   busbw #wrong     time   algbw   busbw #wrong\n"));
  const Row row{.bytes = 4096,
                .count = 1024,
                .type = "float",
                .redop = "sum",
                .out_of_place = {.time_us = 4.096, .wrong = 0},
                .in_place = {.time_us = 20480, .wrong = 3}};
  EXPECT_EQ(report.Add(row),
            "        4096          1024     float     sum      -1     4.10    1.00    1.50      0    20480   "
            " 0.00    0.00"
            "      3\n");
  EXPECT_THAT(report.Footer(),
              testing::HasSubstr("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 0.75"));
}

TEST(ReportTest, JsonHasEverything) {
  Report report("allreduce", "g", 2, 1024, true);
  EXPECT_EQ(report.Header(), "");
  EXPECT_EQ(report.Add({.bytes = 4,
                        .count = 1,
                        .type = "int32",
                        .redop = "sum",
                        .out_of_place = {.time_us = 1},
                        .in_place = {.time_us = 1, .wrong = 0}}),
            "");
  EXPECT_THAT(report.Footer(),
              testing::AllOf(testing::HasSubstr("\"wrong\": null"), testing::HasSubstr("\"wrong\": 0"),
                             testing::HasSubstr("\"out_of_bounds\": 0")));
}

}  // namespace
}  // namespace epic::perf
