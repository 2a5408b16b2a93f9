#include "base/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iostream>
#include <limits>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace epic {
namespace {

// CLI11's own check says "not in range 1 to 256", and not of what.
template <typename T>
CLI::Validator InRange(T least, T most, const std::string& meaning) {
  const CLI::Range range(least, most);
  if (meaning.empty()) return range;
  std::ostringstream refusal;
  refusal << " is not from " << least << " to " << most << " (" << meaning << ")";
  return {[range, refused = refusal.str()](std::string& text) {
            return range(text).empty() ? std::string() : text + refused;
          },
          range.get_description()};
}

// How many letters of one word must be changed, added or left out, or changed places with the next, to have the other.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> to(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        to[i][j] = i + j;
        continue;
      }
      to[i][j] = std::min({to[i - 1][j] + 1, to[i][j - 1] + 1, to[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        to[i][j] = std::min(to[i][j], to[i - 2][j - 2] + 1);
    }
  }
  return to[a.size()][b.size()];
}

// The command that was chosen last, or the program itself.
const CLI::App& Chosen(const CLI::App& whole) {
  const CLI::App* app = &whole;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

// The option of this name, without a value, of the command or of one below it; null if none has it.
const CLI::Option* FindOption(const CLI::App& app, const std::string& name) {
  if (const CLI::Option* own = app.get_option_no_throw(name)) return own;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (const CLI::Option* found = FindOption(*command, name)) return found;
  }
  return nullptr;
}

// Where a command was to be given, and a word was that is none: says so. CLI11 says that one is required.
std::optional<std::string> UnknownCommand(const CLI::App& whole) {
  const CLI::App& app = Chosen(whole);
  if (app.get_require_subcommand_min() == 0) return std::nullopt;
  const std::vector<std::string> words = app.remaining();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.starts_with("-")) {
      const std::string name = word.substr(0, word.find('='));
      const CLI::Option* option = FindOption(app, name);
      if (option == nullptr) return "there is no option '" + name + "'";
      if (name == word && option->get_items_expected_max() > 0) ++i;
      continue;
    }
    std::string nearest, all;
    size_t least = std::max<size_t>(2, word.size() / 3) + 1;  // further away is no slip
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      all += (all.empty() ? "" : ", ") + command->get_name();
      if (const size_t distance = Distance(word, command->get_name()); distance < least) {
        least = distance;
        nearest = command->get_name();
      }
    }
    return "there is no command '" + word + "'" +
           (nearest.empty() ? "; there are " + all : "; did you mean '" + nearest + "'?");
  }
  return std::nullopt;
}

// What was given too much, in its order. An option of a command that stands in front of it, where the program
// itself has none of this name, is told where it goes.
std::string Unexpected(const CLI::App& whole) {
  const CLI::App& chosen = Chosen(whole);
  std::string all;
  for (const std::string& word : whole.remaining(true)) {
    const std::string name = word.substr(0, word.find('='));
    if (&chosen != &whole && name.starts_with("-") && chosen.get_option_no_throw(name) != nullptr)
      return "the option '" + name + "' goes behind the command '" + chosen.get_name() + "'";
    all += (all.empty() ? "" : " ") + word;
  }
  const bool one = whole.remaining(true).size() == 1;
  return std::string("The following argument") + (one ? " was" : "s were") + " not expected: " + all;
}

// Ends a program that has printed what it was asked for, or what is wrong: with 1 if that could not be
// written.
int Printed(const CLI::App& app, int exit_code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  const int error = errno;
  const std::string& name = app.get_name();
  std::cerr << name.substr(name.rfind('/') + 1) << ": standard output: " << std::strerror(error) << std::endl;
  return 1;
}

}  // namespace

struct Option::Rep {
  CLI::Option* option;
  std::string takes = {};  // what its value must be, where not every text is one: "a number"
};

struct Command::Rep {
  CLI::App* app;
  std::deque<Option::Rep> options = {};  // handles point to them
  std::deque<Command::Rep> commands = {};
  std::unique_ptr<CLI::App> own = nullptr;  // of the whole command line

  Option Handle(CLI::Option* option, const std::string& takes = "") {
    return Option(&options.emplace_back(Option::Rep{option, takes}));
  }
};

namespace {

// What a text must be so that the type has a value for it; empty for texts.
template <typename T>
struct Taken {
  using Value = T;
};
template <typename T>
struct Taken<std::optional<T>> : Taken<T> {};
template <typename T>
struct Taken<std::vector<T>> : Taken<T> {};

template <typename T>
std::string TakesOf() {
  if constexpr (std::is_same_v<T, std::string>) return "";
  std::ostringstream words;
  if constexpr (std::is_floating_point_v<T>) {
    words << "a number";
  } else if constexpr (std::is_integral_v<T>) {
    words << "a whole number from " << std::numeric_limits<T>::min() << " to " << std::numeric_limits<T>::max();
  }
  return words.str();
}

// CLI11 reads -1 as the largest number of 64 bits.
std::string NotNegative(std::string& text) { return text.starts_with('-') ? text + " is less than 0" : ""; }

// What is said in place of CLI11's "Could not convert: --size = -1"; empty if no option's value is meant.
std::string InWords(const CLI::ConversionError& error, const Command::Rep& command) {
  for (const Option::Rep& rep : command.options) {
    const std::string head = "Could not convert: " + rep.option->get_name() + " = ";
    if (rep.takes.empty() || rep.option->count() == 0 || !std::string_view(error.what()).starts_with(head)) continue;
    return rep.option->get_name() + ": " + (error.what() + head.size()) + " is not " + rep.takes;
  }
  for (const Command::Rep& inner : command.commands) {
    if (inner.app->parsed()) return InWords(error, inner);
  }
  return "";
}

// What is said in place of CLI11's "--size: At Most 1 required but received 2"; empty if it is another mistake.
std::string InWords(const CLI::ArgumentMismatch& error) {
  const std::string_view text = error.what();
  const size_t end = text.find(": At Most 1 required but received ");
  return end == std::string_view::npos ? "" : std::string(text.substr(0, end)) + " is given more than once";
}

}  // namespace

#define EPIC_SAY(call) \
  rep_->option->call;  \
  return *this

Option Option::Required() const { EPIC_SAY(required()); }
Option Option::Env(const std::string& variable) const { EPIC_SAY(envname(variable)); }
Option Option::ShowDefault() const { EPIC_SAY(capture_default_str()); }
Option Option::ShowDefault(const std::string& text) const { EPIC_SAY(default_str(text)); }
Option Option::TypeName(const std::string& name) const { EPIC_SAY(type_name(name)); }
Option Option::Delimiter(char between) const { EPIC_SAY(delimiter(between)); }
Option Option::Join(char between) const { EPIC_SAY(join(between)); }
Option Option::Expected(int values) const { EPIC_SAY(expected(values)); }
Option Option::OneValueEach() const { EPIC_SAY(allow_extra_args(false)); }
Option Option::OneOf(std::initializer_list<const char*> values) const {
  EPIC_SAY(check(CLI::IsMember(std::vector<std::string>(values.begin(), values.end()))));
}
Option Option::OneOf(std::initializer_list<int> values) const {
  EPIC_SAY(check(CLI::IsMember(std::vector<int>(values))));
}
Option Option::OneOf(std::span<const uint32_t> values) const {
  EPIC_SAY(check(CLI::IsMember(std::vector<int>(values.begin(), values.end()))));
}
Option Option::OneOf(const std::map<std::string, int>& names) const {
  EPIC_SAY(transform(CLI::CheckedTransformer(names)));
}
Option Option::From(int least, int most, const std::string& meaning) const {
  return From(int64_t{least}, int64_t{most}, meaning);
}
Option Option::From(int64_t least, int64_t most, const std::string& meaning) const {
  EPIC_SAY(check(InRange(least, most, meaning)));
}
Option Option::From(uint32_t least, uint32_t most, const std::string& meaning) const {
  return From(uint64_t{least}, uint64_t{most}, meaning);
}
Option Option::From(uint64_t least, uint64_t most, const std::string& meaning) const {
  EPIC_SAY(check(InRange(least, most, meaning)));
}
Option Option::From(float least, float most, const std::string& meaning) const {
  EPIC_SAY(check(InRange(least, most, meaning)));
}
Option Option::From(double least, double most, const std::string& meaning) const {
  EPIC_SAY(check(InRange(least, most, meaning)));
}
Option Option::ExistingFile() const { EPIC_SAY(check(CLI::ExistingFile)); }
Option Option::Bytes() const {
  EPIC_SAY(transform(CLI::AsSizeValue(false))->transform(CLI::Validator(NotNegative, "")));
}
Option Option::Units(const std::map<std::string, double>& units) const {
  EPIC_SAY(transform(CLI::AsNumberWithUnit(units)));
}
Option Option::Changed(std::function<std::string(std::string&)> change) const {
  EPIC_SAY(transform(CLI::Validator(std::move(change), "")));
}
Option Option::Excludes(const Option& other) const { EPIC_SAY(excludes(other.rep_->option)); }
size_t Option::count() const { return rep_->option->count(); }

#undef EPIC_SAY

namespace {

template <typename T>
Option AddOption(Command::Rep* command, const std::string& names, T* into, const std::string& help) {
  using Value = typename Taken<T>::Value;
  CLI::Option* const option = command->app->add_option(names, *into, help);
  if constexpr (std::is_same_v<Value, uint64_t>) option->check(CLI::Validator(NotNegative, ""));
  return command->Handle(option, TakesOf<Value>());
}

}  // namespace

#define EPIC_ADD(Type)                                                                       \
  Option Command::Add(const std::string& names, Type* into, const std::string& help) const { \
    return AddOption(rep_, names, into, help);                                               \
  }
EPIC_ADD(std::string)
EPIC_ADD(int)
EPIC_ADD(int64_t)
EPIC_ADD(uint32_t)
EPIC_ADD(uint64_t)
EPIC_ADD(float)
EPIC_ADD(double)
EPIC_ADD(std::optional<std::string>)
EPIC_ADD(std::optional<uint32_t>)
EPIC_ADD(std::optional<uint64_t>)
EPIC_ADD(std::optional<double>)
EPIC_ADD(std::vector<std::string>)
EPIC_ADD(std::vector<int>)
EPIC_ADD(std::vector<uint32_t>)
EPIC_ADD(std::vector<uint64_t>)
#undef EPIC_ADD

Option Command::AddTaken(const std::string& name,
                         std::function<std::string(const std::vector<std::string>&)> take,
                         const std::string& help) const {
  const auto taken = [name, take = std::move(take)](const std::vector<std::string>& values) {
    if (const std::string wrong = take(values); !wrong.empty()) throw CLI::ValidationError(name, wrong);
  };
  return rep_->Handle(rep_->app->add_option_function<std::vector<std::string>>(name, taken, help));
}

Option Command::AddFlag(const std::string& names, bool* into, const std::string& help) const {
  return rep_->Handle(rep_->app->add_flag(names, *into, help));
}

Option Command::Get(const std::string& name) const { return rep_->Handle(rep_->app->get_option(name)); }

Command Command::AddCommand(const std::string& name, const std::string& help,
                            std::function<void()> chosen) const {
  CLI::App* const app = rep_->app->add_subcommand(name, help);
  if (chosen) app->callback(std::move(chosen));
  return Command(&rep_->commands.emplace_back(Rep{.app = app}));
}

void Command::RequireCommand() const { rep_->app->require_subcommand(1); }
void Command::Footer(const std::string& text) const { rep_->app->footer(text); }

CommandLine::CommandLine(const std::string& description, const std::string& name)
    : Command(nullptr), own_(std::make_unique<Rep>()) {
  own_->own = std::make_unique<CLI::App>(description, name);
  own_->app = own_->own.get();
  rep_ = own_.get();
}

CommandLine::~CommandLine() = default;

void CommandLine::Version(const std::string& text) { rep_->app->set_version_flag("--version", text); }

void CommandLine::ErrorText(std::function<std::string(const std::string&)> text) {
  rep_->app->failure_message(
      [text = std::move(text)](const CLI::App*, const CLI::Error& error) { return text(error.what()); });
}

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  CLI::App& app = *rep_->app;
  const auto end = [&app](const CLI::Error& error) { return Printed(app, app.exit(error)); };
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    const auto unknown = UnknownCommand(app);
    return unknown ? end(CLI::RequiredError(*unknown, CLI::ExitCodes::RequiredError)) : end(error);
  } catch (const CLI::ExtrasError&) {
    return end(CLI::ExtrasError(Unexpected(app), CLI::ExitCodes::ExtrasError));
  } catch (const CLI::ConversionError& error) {
    const std::string words = InWords(error, *rep_);
    return words.empty() ? end(error) : end(CLI::ConversionError(words, CLI::ExitCodes::ConversionError));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string words = InWords(error);
    return words.empty() ? end(error) : end(CLI::ArgumentMismatch(words, CLI::ExitCodes::ArgumentMismatch));
  } catch (const CLI::ParseError& error) {
    return end(error);
  }
  return std::nullopt;
}

std::optional<int> CommandLine::Parse(int argc, const char* const* argv, int usage) {
  std::optional<int> exit_code = Parse(argc, argv);
  if (exit_code && *exit_code > 1) exit_code = usage;
  return exit_code;
}

}  // namespace epic
