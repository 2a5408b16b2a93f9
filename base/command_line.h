// The command line of a program: which options it has, how each is checked, and what --help says of them.
// CLI11 does the work, in command_line.cc alone: in each source that included it, it was six seconds of
// compiling.
//
//   std::string log_level = "info";
//   epic::CommandLine line("What the program does.");
//   line.Add("--log-level", &log_level, "what is logged").OneOf({"debug", "info"}).ShowDefault();
//   if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace epic {

// One option that has been declared, to say more of it. An option of one value that is given twice is refused,
// and so is a text that is no value of its type. A handle: copies are the same option, and live as
// long as its CommandLine. Each function returns the option again; checks apply in the order in which they
// are said.
class Option {
 public:
  struct Rep;
  explicit Option(Rep* rep) : rep_(rep) {}

  // It must be given.
  Option Required() const;
  // Where it is not given, this variable of the environment is read.
  Option Env(const std::string& variable) const;
  // --help shows the value that the variable has now; or this text.
  Option ShowDefault() const;
  Option ShowDefault(const std::string& text) const;
  // --help names the kind of value so, in place of TEXT or INT.
  Option TypeName(const std::string& name) const;

  // One argument has several values, with this between them.
  Option Delimiter(char between) const;
  // Repeated, its values are one text, with this between them.
  Option Join(char between) const;
  // So many values, no more and no fewer.
  Option Expected(int values) const;
  // Each value needs the option's name before it.
  Option OneValueEach() const;

  // The value is one of these.
  Option OneOf(std::initializer_list<const char*> values) const;
  Option OneOf(std::initializer_list<int> values) const;
  Option OneOf(std::span<const uint32_t> values) const;
  // The value is one of these names, or a number of theirs; the number is what is stored.
  Option OneOf(const std::map<std::string, int>& names) const;
  // A number from `least` to `most`, both included. `meaning` is what it counts, and its unit if the option's
  // name has none: "300 is not from 1 to 256 (calls outstanding at a time)". Without it, "Value 300 not in
  // range 1 to 256".
  Option From(int least, int most, const std::string& meaning = "") const;
  Option From(int64_t least, int64_t most, const std::string& meaning = "") const;
  Option From(uint32_t least, uint32_t most, const std::string& meaning = "") const;
  Option From(uint64_t least, uint64_t most, const std::string& meaning = "") const;
  Option From(float least, float most, const std::string& meaning = "") const;
  Option From(double least, double most, const std::string& meaning = "") const;
  // A file that there is.
  Option ExistingFile() const;
  // A number of bytes, with K, M, G or T behind it if need be: powers of 1024.
  Option Bytes() const;
  // A number with one of these units behind it, or none; it is multiplied by what the unit stands for.
  Option Units(const std::map<std::string, double>& units) const;
  // `change` may put another text in the value's place; it returns what is wrong with it, or nothing. It
  // comes before the checks that were said earlier.
  Option Changed(std::function<std::string(std::string& text)> change) const;

  // Not together with the other one.
  Option Excludes(const Option& other) const;
  // How many values were given; after Parse.
  size_t count() const;

 private:
  Rep* rep_;
};

// A command of a program, or the program itself, to declare its options. A handle, as Option is.
class Command {
 public:
  struct Rep;
  explicit Command(Rep* rep) : rep_(rep) {}

  // An option by its names, as "-b,--minbytes", or a positional argument, as "name"; what is given goes into
  // *into.
  Option Add(const std::string& names, std::string* into, const std::string& help = "") const;
  Option Add(const std::string& names, int* into, const std::string& help = "") const;
  Option Add(const std::string& names, int64_t* into, const std::string& help = "") const;
  Option Add(const std::string& names, uint32_t* into, const std::string& help = "") const;
  Option Add(const std::string& names, uint64_t* into, const std::string& help = "") const;
  Option Add(const std::string& names, float* into, const std::string& help = "") const;
  Option Add(const std::string& names, double* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::optional<std::string>* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::optional<uint32_t>* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::optional<uint64_t>* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::optional<double>* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::vector<std::string>* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::vector<int>* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::vector<uint32_t>* into, const std::string& help = "") const;
  Option Add(const std::string& names, std::vector<uint64_t>* into, const std::string& help = "") const;
  // The values go to `take`, which returns what is wrong with them, or nothing. As many as are given, unless
  // Expected says otherwise.
  Option AddTaken(const std::string& name,
                  std::function<std::string(const std::vector<std::string>& values)> take,
                  const std::string& help) const;
  // An option without a value; given, *into is true.
  Option AddFlag(const std::string& names, bool* into, const std::string& help = "") const;
  // An option that has been declared already.
  Option Get(const std::string& name) const;

  // A command of this one; `chosen` is called where it was given and everything is right.
  Command AddCommand(const std::string& name, const std::string& help,
                     std::function<void()> chosen = nullptr) const;
  // One of its commands must be given. A word that is none of them is named, with the nearest of them.
  void RequireCommand() const;
  // What --help says at the end.
  void Footer(const std::string& text) const;

 protected:
  Rep* rep_;
};

// All of a program's command line.
class CommandLine : public Command {
 public:
  // What the program does, for --help; its name where that is not to be the file's.
  explicit CommandLine(const std::string& description, const std::string& name = "");
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // --version prints this.
  void Version(const std::string& text);
  // What is printed to stderr when something is wrong, in place of that and a hint at --help.
  void ErrorText(std::function<std::string(const std::string& wrong)> text);

  // Reads the arguments. Empty if the program is to go on; else everything has been printed, and the result
  // is 0 after --help or --version, and if something was wrong CLI11's number for it, which is above 100. It
  // is 1 if what was asked for could not be printed, which stderr then says in one line.
  std::optional<int> Parse(int argc, const char* const* argv);
  // The same, with `usage` in place of those numbers.
  std::optional<int> Parse(int argc, const char* const* argv, int usage);

 private:
  std::unique_ptr<Rep> own_;
};

}  // namespace epic
