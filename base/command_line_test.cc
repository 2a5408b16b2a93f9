#include "base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace epic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What a command line has said, and with what it ended.
struct Said {
  std::optional<int> exit_code;
  std::string out, error;
};

Said Give(CommandLine& line, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Said said;
  said.exit_code = line.Parse(static_cast<int>(arguments.size()), arguments.data());
  said.out = testing::internal::GetCapturedStdout();
  said.error = testing::internal::GetCapturedStderr();
  return said;
}

TEST(CommandLine, ValuesGoWhereTheyWereDeclared) {
  std::string text;
  int whole = 0;
  uint32_t unsigned_whole = 0;
  int64_t long_whole = 0;
  double real = 0;
  std::optional<uint64_t> maybe, absent;
  std::vector<uint64_t> list;
  std::vector<std::string> rest;
  bool flag = false, other_flag = false;
  CommandLine line("A test.");
  line.Add("-t,--text", &text);
  line.Add("--whole", &whole);
  line.Add("--unsigned", &unsigned_whole);
  line.Add("--long", &long_whole);
  line.Add("--real", &real);
  line.Add("--maybe", &maybe);
  line.Add("--absent", &absent);
  line.Add("--list", &list).Delimiter(',');
  line.Add("rest", &rest);
  line.AddFlag("--flag", &flag);
  line.AddFlag("--other", &other_flag);
  const Said said =
      Give(line, {"-t", "words", "--whole", "-3", "--unsigned", "4000000000", "--long", "-5000000000",
                  "--real", "0.5", "--maybe", "7", "--list", "1,2,3", "--flag", "a", "b"});
  EXPECT_EQ(said.exit_code, std::nullopt) << said.error;
  EXPECT_EQ(text, "words");
  EXPECT_EQ(whole, -3);
  EXPECT_EQ(unsigned_whole, 4000000000u);
  EXPECT_EQ(long_whole, -5000000000);
  EXPECT_EQ(real, 0.5);
  EXPECT_EQ(maybe, 7u);
  EXPECT_EQ(absent, std::nullopt);
  EXPECT_THAT(list, ElementsAre(1, 2, 3));
  EXPECT_THAT(rest, ElementsAre("a", "b"));
  EXPECT_TRUE(flag);
  EXPECT_FALSE(other_flag);
  EXPECT_EQ(line.Get("--list").count(), 3u);
  EXPECT_EQ(line.Get("--absent").count(), 0u);
}

TEST(CommandLine, HelpAndVersionEndWithZero) {
  int number = 12;
  CommandLine line("Says what it does.", "named");
  line.Version("named 1.2");
  line.Add("--number", &number, "how many").From(1, 20, "things").ShowDefault();
  line.Footer("Goodbye.");
  const Said help = Give(line, {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Says what it does."));
  EXPECT_THAT(help.out, HasSubstr("Usage: named [OPTIONS]"));
  EXPECT_THAT(help.out, HasSubstr("--number INT:INT in [1 - 20]=12"));
  EXPECT_THAT(help.out, HasSubstr("how many"));
  EXPECT_THAT(help.out, HasSubstr("Goodbye."));
  const Said version = Give(line, {"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out, "named 1.2\n");
}

// An option with a check, a value that it refuses, and what it says then.
void Refuses(const std::function<void(const Command&)>& declare, const std::vector<const char*>& arguments,
             const std::string& words) {
  CommandLine line("A test.");
  declare(line);
  const Said said = Give(line, arguments);
  ASSERT_NE(said.exit_code, std::nullopt) << words;
  EXPECT_GT(*said.exit_code, 100);
  EXPECT_EQ(said.error, words + "\nRun with --help for more information.\n");
}

TEST(CommandLine, ChecksSayWhatIsWrong) {
  std::string text;
  int whole = 0;
  uint64_t bytes = 0;
  std::vector<uint32_t> pair;
  Refuses(
      [&](const Command& c) {
        c.Add("--one", &text).OneOf({"a", "b"});
      },
      {"--one", "c"}, "--one: c not in {a,b}");
  Refuses(
      [&](const Command& c) {
        c.Add("--one", &whole).OneOf({256, 512});
      },
      {"--one", "300"}, "--one: 300 not in {256,512}");
  Refuses([&](const Command& c) { c.Add("--one", &whole).From(1, 9, "calls"); }, {"--one", "10"},
          "--one: 10 is not from 1 to 9 (calls)");
  Refuses([&](const Command& c) { c.Add("--one", &whole).From(1, 9); }, {"--one", "10"},
          "--one: Value 10 not in range 1 to 9");
  Refuses(
      [&](const Command& c) { c.Add("--one", &bytes).Bytes().From(uint64_t{1}, uint64_t{2048}, "bytes"); },
      {"--one", "3K"}, "--one: 3072 is not from 1 to 2048 (bytes)");
  Refuses([&](const Command& c) { c.Add("--one", &text).Required(); }, {}, "--one is required");
  Refuses([&](const Command& c) { c.Add("--one", &text).ExistingFile(); }, {"--one", "/no/such"},
          "--one: File does not exist: /no/such");
  Refuses([&](const Command& c) { c.Add("--two", &text).Excludes(c.Add("--one", &whole)); },
          {"--one", "1", "--two", "b"}, "--two excludes --one");
  Refuses([&](const Command& c) { c.Add("--one", &pair).Expected(2); }, {"--one", "1"},
          "--one: At least 2 required but received 1");
  Refuses([&](const Command& c) { c.Add("--one", &text).Changed([](std::string& t) { return "no " + t; }); },
          {"--one", "x"}, "--one: no x");
  Refuses(
      [&](const Command& c) {
        c.AddTaken(
            "--one", [](const auto& v) { return "not " + v[0]; }, "");
      },
      {"--one", "x"}, "--one: not x");
  Refuses([](const Command&) {}, {"--none"}, "The following argument was not expected: --none");
}

TEST(CommandLine, TextsThatAreNoValueAreRefusedInWords) {
  std::optional<uint32_t> maybe;
  int whole = 0;
  uint64_t bytes = 0;
  double real = 0;
  std::vector<uint32_t> list;
  const auto declare = [&](const Command& c) {
    c.Add("--maybe", &maybe);
    c.Add("--whole", &whole);
    c.Add("-b,--bytes", &bytes).Bytes();
    c.Add("--long", &bytes);
    c.Add("--real", &real);
    c.Add("--list", &list).Delimiter(',');
    c.AddCommand("inner", "").Add("--inside", &maybe);
  };
  Refuses(declare, {"--maybe", "-1"}, "--maybe: -1 is not a whole number from 0 to 4294967295");
  Refuses(declare, {"--whole", "three"}, "--whole: three is not a whole number from -2147483648 to 2147483647");
  Refuses(declare, {"--bytes", "-1"}, "--bytes: -1 is less than 0");
  Refuses(declare, {"--long", "-1"}, "--long: -1 is less than 0");
  Refuses(declare, {"--long", "x"}, "--long: x is not a whole number from 0 to 18446744073709551615");
  Refuses(declare, {"--real", "fast"}, "--real: fast is not a number");
  Refuses(declare, {"--list", "1,b"}, "--list: 1,b is not a whole number from 0 to 4294967295");
  Refuses(declare, {"inner", "--inside", "4294967296"},
          "--inside: 4294967296 is not a whole number from 0 to 4294967295");
}

// The last one does not win in silence.
TEST(CommandLine, AnOptionOfOneValueIsGivenOnce) {
  std::string text;
  int whole = 0;
  const auto declare = [&](const Command& c) {
    c.Add("-t,--text", &text);
    c.Add("--whole", &whole).From(0, 9, "things");
    c.AddTaken("--taken", [](const auto&) { return ""; }, "").Expected(1);
    c.AddCommand("inner", "").Add("--inside", &text);
  };
  Refuses(declare, {"--text", "a", "-t", "b"}, "--text is given more than once");
  Refuses(declare, {"--whole", "1", "--whole", "1"}, "--whole is given more than once");
  Refuses(declare, {"--taken", "int8", "--taken", "3"}, "--taken is given more than once");
  Refuses(declare, {"inner", "--inside", "a", "--inside", "a"}, "--inside is given more than once");
}

TEST(CommandLine, ValuesAreChangedBeforeTheyAreTaken) {
  uint64_t bytes = 0;
  double seconds = 0;
  int named = 0;
  std::string upper, joined;
  std::vector<std::string> ports, positional;
  CommandLine line("A test.");
  line.Add("--bytes", &bytes).Bytes();
  line.Add("--seconds", &seconds).Units({{"s", 1}, {"ms", 1e-3}});
  line.Add("--named", &named).OneOf(std::map<std::string, int>{{"first", 1}, {"second", 2}});
  line.Add("--upper", &upper).Changed([](std::string& text) {
    text += "!";
    return std::string();
  });
  line.Add("--joined", &joined).Join(',');
  line.Add("--port", &ports).OneValueEach();
  line.Add("positional", &positional);
  const Said said = Give(line, {"--bytes", "4M", "--seconds", "500ms", "--named", "second", "--upper", "up",
                                "--joined", "a", "--joined", "b", "--port", "p", "q"});
  EXPECT_EQ(said.exit_code, std::nullopt) << said.error;
  EXPECT_EQ(bytes, 4u << 20);
  EXPECT_EQ(seconds, 0.5);
  EXPECT_EQ(named, 2);
  EXPECT_EQ(upper, "up!");
  EXPECT_EQ(joined, "a,b");
  EXPECT_THAT(ports, ElementsAre("p"));
  EXPECT_THAT(positional, ElementsAre("q"));
}

TEST(CommandLine, EnvironmentStandsInForWhatIsNotGiven) {
  ASSERT_EQ(setenv("EPIC_TEST_COMMAND_LINE", "there", 1), 0);
  std::string text;
  CommandLine line("A test.");
  line.Add("--text", &text).Env("EPIC_TEST_COMMAND_LINE").Required();
  EXPECT_EQ(Give(line, {}).exit_code, std::nullopt);
  EXPECT_EQ(text, "there");
  EXPECT_EQ(Give(line, {"--text", "here"}).exit_code, std::nullopt);
  EXPECT_EQ(text, "here");
  unsetenv("EPIC_TEST_COMMAND_LINE");
}

TEST(CommandLine, CommandsOfCommands) {
  std::string chosen, name;
  CommandLine line("A test.");
  line.RequireCommand();
  line.AddCommand("one", "the first", [&] { chosen = "one"; });
  const Command two = line.AddCommand("two", "the second");
  two.RequireCommand();
  two.AddCommand("inner", "of the second", [&] { chosen = "two inner"; }).Add("name", &name).Required();
  EXPECT_EQ(Give(line, {"two", "inner", "x"}).exit_code, std::nullopt);
  EXPECT_EQ(chosen, "two inner");
  EXPECT_EQ(name, "x");
  EXPECT_THAT(Give(line, {}).error, HasSubstr("A subcommand is required"));
  EXPECT_THAT(Give(line, {"two", "--help"}).out, HasSubstr("the second"));
}

TEST(CommandLine, ErrorsInTheProgramsOwnWords) {
  CommandLine line("A test.");
  line.ErrorText([](const std::string& wrong) { return "program: " + wrong + "!\n"; });
  const Said said = Give(line, {"--none"});
  EXPECT_EQ(said.error, "program: The following argument was not expected: --none!\n");
  const char* const arguments[] = {"program", "--none"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(line.Parse(2, arguments, 2), 2);
  testing::internal::GetCapturedStderr();
}

// "incmanager swtiches", "group crate".
TEST(CommandLine, AWordThatIsNoCommandIsNamedWithTheNearest) {
  CommandLine line("A test.");
  line.RequireCommand();
  line.AddCommand("switches", "");
  const Command group = line.AddCommand("group", "");
  group.RequireCommand();
  for (const char* name : {"create", "destroy"}) group.AddCommand(name, "");
  EXPECT_THAT(Give(line, {"swtiches"}).error, HasSubstr("there is no command 'swtiches'; did you mean 'switches'?"));
  const Said crate = Give(line, {"group", "crate", "x"});
  EXPECT_THAT(crate.error, HasSubstr("there is no command 'crate'; did you mean 'create'?"));
  EXPECT_TRUE(crate.exit_code.has_value() && *crate.exit_code != 0);
  EXPECT_THAT(Give(line, {"group", "unlike"}).error,
              HasSubstr("there is no command 'unlike'; there are create, destroy"));
  EXPECT_THAT(Give(line, {"group"}).error, HasSubstr("A subcommand is required"));
}

// Options of commands, in front of them.
TEST(CommandLine, AWordThatIsNoCommandIsNamedBehindOptionsToo) {
  std::string manager;
  bool json = false;
  CommandLine line("A test.");
  line.RequireCommand();
  const Command switches = line.AddCommand("switches", "");
  switches.Add("-m,--manager", &manager);
  switches.AddFlag("--json", &json);
  const std::string there = "there is no command 'swtiches'; did you mean 'switches'?";
  EXPECT_THAT(Give(line, {"--manager", "there", "swtiches"}).error, HasSubstr(there));
  EXPECT_THAT(Give(line, {"-m", "there", "swtiches"}).error, HasSubstr(there));
  EXPECT_THAT(Give(line, {"--manager=there", "swtiches"}).error, HasSubstr(there));
  EXPECT_THAT(Give(line, {"--json", "swtiches"}).error, HasSubstr(there));
  EXPECT_THAT(Give(line, {"--nosuch", "there", "swtiches"}).error,
              HasSubstr("there is no option '--nosuch'"));
  EXPECT_THAT(Give(line, {"--manager", "there"}).error, HasSubstr("A subcommand is required"));
  EXPECT_THAT(Give(line, {"--manager", "there", "switches"}).error,
              HasSubstr("the option '--manager' goes behind the command 'switches'"));
  EXPECT_THAT(Give(line, {"switches", "--nosuch", "there"}).error, HasSubstr("not expected: --nosuch there"));
}

TEST(CommandLine, HelpThatCannotBeWrittenIsAnError) {
  const auto ask = [](const char* argument) {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(3);
    CommandLine line("A test.", "folder/program");
    line.Version("1.2.3");
    std::array<const char*, 2> arguments{"program", argument};
    std::exit(line.Parse(2, arguments.data(), 2).value_or(4));
  };
  for (const char* argument : {"--help", "--version"})
    EXPECT_EXIT(ask(argument), testing::ExitedWithCode(1),
                "^program: standard output: No space left on device\n$");
}

}  // namespace
}  // namespace epic
