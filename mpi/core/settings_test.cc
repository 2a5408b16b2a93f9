#include "mpi/core/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace epic::mpi {
namespace {

using testing::HasSubstr;

Settings Read(const std::map<std::string, std::string>& set, std::string_view manager = "") {
  return FromEnvironment(
      [&set](const char* name) {
        const auto at = set.find(name);
        return at == set.end() ? nullptr : at->second.c_str();
      },
      manager);
}

TEST(SettingsTest, WithoutAManagerThereIsNoEpic) {
  EXPECT_FALSE(Read({}).usable());
  EXPECT_TRUE(Read({}).wrong.empty());
  EXPECT_TRUE(Read({}, "h:7400").usable());
  EXPECT_EQ(Read({{"EPIC_MANAGER", "own:1"}}, "mca:1").manager, "own:1");
  EXPECT_FALSE(Read({{"EPIC_MANAGER", "h:1"}, {"EPIC_MPI", "off"}}).usable());
  EXPECT_TRUE(Read({{"EPIC_MANAGER", "h:1"}, {"EPIC_MPI", "on"}}).usable());
}

TEST(SettingsTest, AllTravels) {
  const Settings settings = Read({{"EPIC_MANAGER", "h:1"},
                                  {"EPIC_IFNAME", "eth1"},
                                  {"EPIC_PATH", "network"},
                                  {"EPIC_ALGORITHM", "ring"},
                                  {"EPIC_MODE", "III"},
                                  {"EPIC_TIMEOUT", "1.5"},
                                  {"EPIC_JOIN_TIMEOUT", "7"},
                                  {"EPIC_MANAGER_TIMEOUT", "0.5"},
                                  {"EPIC_MPI_MIN_BYTES", "64"},
                                  {"EPIC_MPI_MAX_BYTES", "18446744073709551615"},
                                  {"EPIC_MPI_FROM_CALL", "32"},
                                  {"EPIC_MPI_FROM_BYTES", "65536"},
                                  {"EPIC_MPI_KEEP", "2.5"},
                                  {"EPIC_TYPES", "int32,float64"},
                                  {"EPIC_MPI_REPORT", "1"}});
  EXPECT_EQ(settings.types, "int32,float64");
  EXPECT_EQ(settings.mode, 3);
  EXPECT_EQ(settings.timeout.count(), 1500);
  EXPECT_EQ(settings.manager_timeout.count(), 500);
  EXPECT_EQ(settings.min_bytes, 64U);
  EXPECT_EQ(settings.from_call, 32U);
  EXPECT_EQ(settings.from_bytes, 65536U);
  EXPECT_EQ(settings.keep.count(), 2500);
  EXPECT_TRUE(settings.report);
  EXPECT_TRUE(settings.usable()) << settings.wrong;
  EXPECT_EQ(Decode(Encode(settings)), settings);
  EXPECT_EQ(Decode(Encode(Read({}))), Read({}));
  const Settings off = Read({{"EPIC_MPI", "off"}, {"EPIC_PATH", "x"}});
  EXPECT_EQ(Decode(Encode(off)), off);
}

TEST(SettingsTest, TheManagersPortIs7400WhereNoneIsSaid) {
  EXPECT_EQ(Read({{"EPIC_MANAGER", "h"}}).manager, "h:7400");
  EXPECT_EQ(Read({}, "h").manager, "h:7400");
  const Settings settings = Read({}, "http://h:7400");
  EXPECT_FALSE(settings.usable());
  EXPECT_THAT(settings.wrong, HasSubstr("coll_epic_manager=http://h:7400 - "));
}

TEST(SettingsTest, GroupsThatAreMadeAtOnceAreNotKeptUnlessTheUserSaysSo) {
  EXPECT_GT(Read({}).from_call, 1U);
  EXPECT_GT(Read({}).keep.count(), 0);
  EXPECT_EQ(Read({{"EPIC_MPI_KEEP", "0"}}).keep.count(), 0);
  EXPECT_EQ(Read({{"EPIC_MPI_FROM_CALL", "1"}}).keep.count(), 0);
  EXPECT_EQ(Read({{"EPIC_MPI_FROM_CALL", "1"}, {"EPIC_MPI_KEEP", "3"}}).keep.count(), 3000);
}

TEST(SettingsTest, AWrongValueIsNamed) {
  const std::multimap<std::string, std::string> wrong = {
      {"EPIC_PATH", "auto,"},       {"EPIC_ALGORITHM", "rings"}, {"EPIC_MODE", "9"},
      {"EPIC_PATH", "auto, network"}, {"EPIC_ALGORITHM", "doubling, ring"},
      {"EPIC_TIMEOUT", "-1"},       {"EPIC_JOIN_TIMEOUT", "1s"}, {"EPIC_MPI_MIN_BYTES", "1K"},
      {"EPIC_MPI_MAX_BYTES", "-1"}, {"EPIC_MPI", "false"},       {"EPIC_MPI_REPORT", "yes"},
      {"EPIC_TYPES", "int32,int33"}, {"EPIC_MANAGER", "h:0"}, {"EPIC_MANAGER_TIMEOUT", "0"},
      {"EPIC_MPI_FROM_CALL", "0"}, {"EPIC_MPI_FROM_BYTES", "64K"},
      {"EPIC_MPI_KEEP", "-1"}};
  for (const auto& [name, text] : wrong) {
    std::map<std::string, std::string> set = {{name, text}};
    set.emplace("EPIC_MANAGER", "h:1");
    const Settings settings = Read(set);
    EXPECT_FALSE(settings.usable()) << name;
    EXPECT_THAT(settings.wrong, HasSubstr(name + "=" + text));
  }
}

TEST(SettingsTest, WhatCannotBeReadIsNotUsed) {
  const std::string good = Encode(Read({{"EPIC_MANAGER", "h:1"}}));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(Decode(good.substr(0, length)).usable()) << length;
  }
  EXPECT_FALSE(Decode(good + "\n").usable());
  EXPECT_TRUE(Decode(good).usable());
}

TEST(SettingsTest, ALineBreakEndsNoField) {
  const Settings settings = Decode(Encode(Read({{"EPIC_MANAGER", "h:1\n\n2"}})));
  EXPECT_EQ(settings.manager, "h:1  2");
}

}  // namespace
}  // namespace epic::mpi
