#include "commlib/config.h"

#include <fmt/format.h>

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

GetEnv From(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(ConfigTest, ArgumentsBeatTheEnvironment) {
  Options options{.group = "g", .rank = 1, .size = 4, .manager = "m:1"};
  const auto error =
      ResolveOptions(From({{"EPIC_GROUP", "x"}, {"EPIC_RANK", "3"}, {"EPIC_MANAGER", "y:2"}}), &options);
  EXPECT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(options.group, "g");
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.manager, "m:1");
  EXPECT_EQ(options.timeout, std::chrono::minutes(30));
}

TEST(ConfigTest, LaunchersAreRead) {
  for (const auto& [rank, size] :
       std::map<std::string, std::string>{{"EPIC_RANK", "EPIC_SIZE"},
                                          {"RANK", "WORLD_SIZE"},
                                          {"SLURM_PROCID", "SLURM_NTASKS"},
                                          {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                          {"PMI_RANK", "PMI_SIZE"}}) {
    Options options;
    const auto error = ResolveOptions(From({{rank, "2"}, {size, "3"}, {"EPIC_MANAGER", "m:1"}}), &options);
    EXPECT_TRUE(error.ok()) << error.message();
    EXPECT_EQ(options.rank, 2);
    EXPECT_EQ(options.size, 3);
  }
}

// Slurm sets those of MPICH's launcher as well.
TEST(ConfigTest, TheFirstLauncherCounts) {
  Options options;
  const auto error = ResolveOptions(From({{"SLURM_PROCID", "2"},
                                          {"SLURM_NTASKS", "3"},
                                          {"PMI_RANK", "4"},
                                          {"PMI_SIZE", "5"},
                                          {"EPIC_MANAGER", "m:1"}}),
                                    &options);
  EXPECT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.size, 3);
}

TEST(ConfigTest, HalfALauncherDoesNotCount) {
  Options options;
  const auto error = ResolveOptions(From({{"RANK", "1"}, {"EPIC_MANAGER", "m:1"}}), &options);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message(), testing::HasSubstr("rank"));
}

TEST(ConfigTest, AManagerThatGoesAwayIsWaitedForAMinuteOrNotAtAll) {
  const auto away = [](const char* text, std::chrono::milliseconds said = std::chrono::milliseconds(-1)) {
    Options options{.rank = 0, .size = 2, .manager = "m:1", .manager_away = said};
    const bool is_set = text != nullptr;
    EXPECT_TRUE(ResolveOptions(is_set ? From({{"EPIC_MANAGER_AWAY", text}}) : From({}), &options).ok());
    return options.manager_away;
  };
  EXPECT_EQ(away(nullptr), std::chrono::seconds(60));
  EXPECT_EQ(away("0"), std::chrono::milliseconds(0));
  EXPECT_EQ(away("2.5"), std::chrono::milliseconds(2500));
  EXPECT_EQ(away("7", std::chrono::milliseconds(0)), std::chrono::milliseconds(0)) << "what Options say goes first";
  EXPECT_EQ(away("1e30"), std::chrono::seconds(1'000'000'000));
  Options options{.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_FALSE(ResolveOptions(From({{"EPIC_MANAGER_AWAY", "-1"}}), &options).ok());
}

TEST(ConfigTest, TheManagerIsTriedForTenSecondsIfNobodySaysOtherwise) {
  Options options{.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(ResolveOptions(From({}), &options).ok());
  EXPECT_EQ(options.manager_timeout, std::chrono::seconds(10));
  options.manager_timeout = std::chrono::milliseconds(0);
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_MANAGER_TIMEOUT", "0.5"}}), &options).ok());
  EXPECT_EQ(options.manager_timeout, std::chrono::milliseconds(500));
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_MANAGER_TIMEOUT", "3"}}), &options).ok());
  EXPECT_EQ(options.manager_timeout, std::chrono::milliseconds(500)) << "what Options say goes first";
}

TEST(ConfigTest, SecondsMayBeFractions) {
  Options options{.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_TIMEOUT", "1.5"}}), &options).ok());
  EXPECT_EQ(options.timeout, std::chrono::milliseconds(1500));
}

// What an application gives for ever; the sum with any clock's time stays in range.
TEST(ConfigTest, TimeoutsHaveAnUpperBound) {
  constexpr auto kForEver = std::chrono::milliseconds::max();
  Options options{.rank = 0, .size = 2, .manager = "m:1", .timeout = kForEver, .join_timeout = kForEver,
                  .manager_timeout = kForEver};
  ASSERT_TRUE(ResolveOptions(From({}), &options).ok());
  for (const auto timeout : {options.timeout, options.join_timeout, options.manager_timeout})
    EXPECT_EQ(timeout, std::chrono::seconds(1'000'000'000));
  for (const char* name : {"EPIC_TIMEOUT", "EPIC_JOIN_TIMEOUT", "EPIC_MANAGER_TIMEOUT"}) {
    options = {.rank = 0, .size = 2, .manager = "m:1"};
    EXPECT_TRUE(ResolveOptions(From({{name, "1e9"}}), &options).ok());
    for (const char* text : {"1000000001", "1e300", "inf", "nan", "-1"}) {
      options = {.rank = 0, .size = 2, .manager = "m:1"};
      const auto error = ResolveOptions(From({{name, text}}), &options);
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << name << "=" << text;
      EXPECT_THAT(error.message(), testing::HasSubstr("up to 1000000000")) << name << "=" << text;
    }
  }
}

TEST(ConfigTest, BadValuesAreNamed) {
  const std::map<std::string, std::string> bad = {
      {"EPIC_RANK", "1x"}, {"EPIC_SIZE", "-2"}, {"EPIC_TIMEOUT", "soon"}, {"EPIC_JOIN_TIMEOUT", "0"}};
  for (const auto& [name, value] : bad) {
    Options options{.manager = "m:1"};
    const auto error = ResolveOptions(From({{name, value}}), &options);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message(), testing::HasSubstr(name));
  }
}

TEST(ConfigTest, RankMustBeInTheGroup) {
  Options options{.rank = 4, .size = 4, .manager = "m:1"};
  EXPECT_EQ(ResolveOptions(From({}), &options).code(), ErrorCode::kInvalidArgument);
}

TEST(ConfigTest, ModesHaveNumbersAndNames) {
  for (const auto& [text, number] :
       std::map<std::string, int>{{"0", 0}, {"3", 3}, {"II", 2}, {"iii", 3}, {"terminated", 1}}) {
    Options options{.rank = 0, .size = 2, .manager = "m:1"};
    EXPECT_TRUE(ResolveOptions(From({{"EPIC_MODE", text}}), &options).ok()) << text;
    EXPECT_EQ(options.mode, number) << text;
  }
  for (const char* text : {"", "99", "-1", "two"}) {
    Options options{.rank = 0, .size = 2, .manager = "m:1"};
    const Error error = ResolveOptions(From({{"EPIC_MODE", text}}), &options);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(error.message(), testing::HasSubstr(fmt::format("EPIC_MODE={} is none of 1 (I, ", text)));
  }
  for (const int number : {99, -1, 256 + 1}) {
    Options options{.rank = 0, .size = 2, .manager = "m:1", .mode = number};
    EXPECT_THAT(ResolveOptions(From({}), &options).message(),
                testing::HasSubstr("none of 1 (I, terminated)"));
  }
  Options options{.rank = 0, .size = 2, .manager = "m:1", .mode = 1};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_MODE", "2"}}), &options).ok());
  EXPECT_EQ(options.mode, 1);
}

TEST(ConfigTest, TheEnvironmentCountsForNothingIfOptionsSaySo) {
  Options options{.group = "g", .rank = 1, .size = 2, .manager = "m:1", .environment = false};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_MODE", "3"},
                                   {"EPIC_PATH", "x"},
                                   {"EPIC_ALGORITHM", "ring"},
                                   {"EPIC_TIMEOUT", "x"},
                                   {"EPIC_IFNAME", "eth1"}}),
                             &options)
                  .ok());
  EXPECT_EQ(options.mode, 0);
  EXPECT_EQ(options.path, PathChoice::kDefault);
  EXPECT_EQ(options.algorithm, HostAlgorithm::kAuto);
  EXPECT_EQ(options.ifname, "");
  options = {.manager = "m:1", .environment = false};
  EXPECT_THAT(ResolveOptions(From({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), &options).message(),
              testing::HasSubstr("nobody says this process's rank"));
}

TEST(ConfigTest, WhatAGroupIsForIsReadAndChecked) {
  Options options{.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(
      ResolveOptions(From({{"EPIC_MAX_BYTES", "65536"}, {"EPIC_TYPES", "int32,float32"}}), &options).ok());
  EXPECT_EQ(options.max_bytes, 65536U);
  EXPECT_EQ(options.types, "int32,float32");
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_MAX_BYTES", "x"}, {"EPIC_TYPES", "x"}}), &options).ok())
      << "what the program says beats the environment";
  for (const auto& [name, text] : std::multimap<std::string, std::string>{
           {"EPIC_MAX_BYTES", "64K"}, {"EPIC_MAX_BYTES", "-1"}, {"EPIC_TYPES", "int33"}}) {
    Options wrong{.rank = 0, .size = 2, .manager = "m:1"};
    const Error error = ResolveOptions(From({{name, text}}), &wrong);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message(), testing::AllOf(testing::HasSubstr(name), testing::HasSubstr(text)));
  }
}

TEST(ConfigTest, AScaleIsReadAndChecked) {
  Options options{.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_QUANTISE", "1e6"}}), &options).ok());
  EXPECT_EQ(options.quantise, 1e6f);
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_QUANTISE", "x"}}), &options).ok()) << "the program has said it";
  for (const char* const text : {"x", "", "1e6x", "-1", "nan", "inf", "1e30", "1e-30", "1e99"}) {
    Options wrong{.rank = 0, .size = 2, .manager = "m:1"};
    const Error error = ResolveOptions(From({{"EPIC_QUANTISE", text}}), &wrong);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(error.message(), testing::HasSubstr("EPIC_QUANTISE"));
  }
  options = {.rank = 0, .size = 2, .manager = "m:1", .quantise = -3};
  EXPECT_EQ(ResolveOptions(From({}), &options).code(), ErrorCode::kInvalidArgument);
  options = {.rank = 0, .size = 2, .manager = "m:1", .quantise = 2, .quantise_int8 = true};
  EXPECT_THAT(ResolveOptions(From({}), &options).message(), testing::HasSubstr("a group has one"));
  options = {.rank = 0, .size = 2, .manager = "m:1", .environment = false};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_QUANTISE", "1e6"}}), &options).ok());
  EXPECT_EQ(options.quantise, 0);
}

TEST(ConfigTest, BlocksAreAskedForByTheirName) {
  for (const char* const none : {"0", "0.0", "0e0"}) {
    Options plain{.rank = 0, .size = 2, .manager = "m:1"};
    EXPECT_TRUE(ResolveOptions(From({{"EPIC_QUANTISE", none}}), &plain).ok()) << none;
    EXPECT_EQ(plain.quantise, 0);
  }
  Options options{.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_QUANTISE", "int8"}}), &options).ok());
  EXPECT_TRUE(options.quantise_int8);
  EXPECT_EQ(options.quantise, 0);
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_QUANTISE", "1e6"}}), &options).ok()) << "the program has said it";
  EXPECT_EQ(options.quantise, 0);
  options = {.rank = 0, .size = 2, .manager = "m:1", .quantise = 5};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_QUANTISE", "int8"}}), &options).ok());
  EXPECT_FALSE(options.quantise_int8);
}

TEST(ConfigTest, PathsAndAlgorithmsHaveNames) {
  Options options{.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(ResolveOptions(From({}), &options).ok());
  EXPECT_EQ(options.path, PathChoice::kDefault) << "as the group was created";
  EXPECT_EQ(options.algorithm, HostAlgorithm::kAuto);
  options = {.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_PATH", "hosts"}, {"EPIC_ALGORITHM", "ring"}}), &options).ok());
  EXPECT_EQ(options.path, PathChoice::kHosts);
  EXPECT_EQ(options.algorithm, HostAlgorithm::kRing);
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_PATH", "network"}, {"EPIC_ALGORITHM", "x"}}), &options).ok());
  EXPECT_EQ(options.path, PathChoice::kHosts) << "what the program says beats the environment";
  for (const auto& [name, known] : std::map<std::string, std::string>{
           {"EPIC_PATH", "auto, network, hosts"}, {"EPIC_ALGORITHM", "auto, doubling, ring, multicast"}}) {
    options = {.rank = 0, .size = 2, .manager = "m:1"};
    const Error error = ResolveOptions(From({{name, "Ring"}}), &options);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message(), testing::HasSubstr(name + "=Ring is none of " + known));
  }
  options = {.rank = 0, .size = 2, .manager = "m:1", .path = static_cast<PathChoice>(4)};
  EXPECT_EQ(ResolveOptions(From({}), &options).code(), ErrorCode::kInvalidArgument);
  for (const int none : {-1, 5}) {
    options = {.rank = 0, .size = 2, .manager = "m:1", .algorithm = static_cast<HostAlgorithm>(none)};
    EXPECT_EQ(ResolveOptions(From({}), &options).code(), ErrorCode::kInvalidArgument) << none;
  }
  options = {.rank = 0, .size = 2, .manager = "m:1"};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_ALGORITHM", "multicast"}}), &options).ok());
  EXPECT_EQ(options.algorithm, HostAlgorithm::kMulticast);
}

TEST(ConfigTest, APriorityIsClampedAndNoNumberIsNone) {
  const Options blank{.rank = 0, .size = 2, .manager = "m:1"};
  const auto resolved = [&](const GetEnv& environment, double said = 0) {
    Options options = blank;
    options.priority = said;
    EXPECT_TRUE(ResolveOptions(environment, &options).ok());
    return options.priority;
  };
  EXPECT_EQ(resolved(From({})), 1);
  EXPECT_EQ(resolved(From({{"EPIC_PRIORITY", "2.5"}})), 2.5);
  EXPECT_EQ(resolved(From({{"EPIC_PRIORITY", "0"}})), 1 / 65536.0);
  EXPECT_EQ(resolved(From({{"EPIC_PRIORITY", "1e9"}})), 65535);
  EXPECT_EQ(resolved(From({{"EPIC_PRIORITY", "x"}}), 0.5), 0.5) << "the program has said it";
  for (const char* wrong : {"-1", "nan", "inf", "high", ""}) {
    Options options = blank;
    const Error error = ResolveOptions(From({{"EPIC_PRIORITY", wrong}}), &options);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << wrong;
    EXPECT_EQ(error.message(),
              std::string("priority (EPIC_PRIORITY): ") + wrong + " is not a number from 0 on");
  }
  Options options = blank;
  options.priority = -2;
  EXPECT_EQ(ResolveOptions(From({}), &options).message(),
            "priority (EPIC_PRIORITY): -2 is not a number from 0 on");
}

TEST(ConfigTest, ReceivesHaveBounds) {
  const Options blank{.rank = 0, .size = 2, .manager = "m:1"};
  Options options = blank;
  EXPECT_TRUE(ResolveOptions(From({}), &options).ok());
  EXPECT_EQ(options.receives, 1024u);
  options = blank;
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_RECEIVES", "64"}}), &options).ok());
  EXPECT_EQ(options.receives, 64u);
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_RECEIVES", "128"}}), &options).ok());
  EXPECT_EQ(options.receives, 64u) << "what the program says beats the environment";
  for (const char* wrong : {"0", "63", "8193", "-1", "many", "4294967360"}) {
    options = blank;
    const Error error = ResolveOptions(From({{"EPIC_RECEIVES", wrong}}), &options);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << wrong;
    EXPECT_THAT(error.message(), testing::HasSubstr("EPIC_RECEIVES")) << wrong;
  }
}

TEST(ConfigTest, AGroupOfOneNeedsNoManagerWhateverItsPath) {
  for (const char* path : {"auto", "network", "hosts"}) {
    Options options{.rank = 0, .size = 1};
    EXPECT_TRUE(ResolveOptions(From({{"EPIC_PATH", path}}), &options).ok()) << path;
  }
}

TEST(ConfigTest, NoManagerIsAnError) {
  Options options{.rank = 0, .size = 2};
  EXPECT_THAT(ResolveOptions(From({}), &options).message(), testing::HasSubstr("EPIC_MANAGER"));
}

TEST(ConfigTest, TheManagersPortIs7400WhereNoneIsSaid) {
  Options options{.rank = 0, .size = 2};
  EXPECT_TRUE(ResolveOptions(From({{"EPIC_MANAGER", "m"}}), &options).ok());
  EXPECT_EQ(options.manager, "m:7400");
  options = {.rank = 0, .size = 2};
  EXPECT_TRUE(ResolveOptions(From({}), &options, "unix:/run/epic/host.sock").ok());
  EXPECT_EQ(options.manager, "unix:/run/epic/host.sock");
}

TEST(ConfigTest, AManagersAddressThatIsNoneIsRefused) {
  for (const char* text : {"http://m:7400", "m:0", "m:99999", "2001:db8::1"}) {
    for (const bool by_variable : {true, false}) {
      Options options{.rank = 0, .size = 2};
      if (!by_variable) options.manager = text;
      const Error error = ResolveOptions(by_variable ? From({{"EPIC_MANAGER", text}}) : From({}), &options);
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
      EXPECT_THAT(error.message(), testing::AllOf(testing::HasSubstr("EPIC_MANAGER"), testing::HasSubstr(text),
                                                  testing::HasSubstr("HOST:PORT would be right")));
    }
  }
}

TEST(ConfigTest, UnknownVariablesAreFound) {
  const char* environment[] = {"PATH=/bin",
                               "EPIC_GROUP=a",
                               "EPIC_TIMEOUTS=1",
                               "EPICS=2",
                               "EPIC_SOFTNIC_DEVICES=eth0",
                               "EPIC_MPI=off",
                               "EPIC_MPI_REPORT=1",
                               "EPIC_MPI_MIN_BYTES=1",
                               "EPIC_MPI_MAX_BYTES=2",
                               "EPIC_MPI_FROM_CALL=3",
                               "EPIC_MPI_FROM_BYTES=4",
                               "EPIC_MPI_KEEP=5",
                               "EPIC_MPIS=1",
                               "EPIC_SSH=ssh",
                               "EPIC_CACHE=/tmp",
                               "EPIC_STAGE_NAME=end-to-end",
                               "EPIC_SEEDS=/4",
                               nullptr};
  EXPECT_THAT(UnknownVariables(environment), testing::ElementsAre("EPIC_TIMEOUTS", "EPIC_MPIS"));
}

}  // namespace
}  // namespace epic::internal
