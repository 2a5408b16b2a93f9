// incmanager's command line for tests, which ask the manager some thousand times a run: to load gRPC's
// libraries takes several times as long as an answer. This program has loaded them; each line of its standard
// input is arguments, with the byte 0x1f behind each, with which a child of it does what `incmanager` would.
// Of each this comes back: a line "STATUS OUT ERR", and so many bytes of its output and of its errors. STATUS
// is minus a signal that has ended it. It ends with its input.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"

// incmanager's own program, whose main() has another name here.
#define main ManagerMain
#include "incmanager/main.cc"
#undef main

namespace epic {
namespace {

struct Pipe {
  Pipe() { EPIC_CHECK(pipe(ends.data()) == 0); }
  std::array<int, 2> ends;  // to read from, to write to
  std::string text;
};

[[noreturn]] void BeManager(std::vector<std::string> arguments, const Pipe& out, const Pipe& err) {
  dup2(out.ends[1], STDOUT_FILENO);
  dup2(err.ends[1], STDERR_FILENO);
  for (const int end : {out.ends[0], out.ends[1], err.ends[0], err.ends[1]}) close(end);
  arguments.insert(arguments.begin(), "incmanager");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::exit(ManagerMain(static_cast<int>(arguments.size()), argv.data()));
}

// Reads until the child has closed both.
void ReadAll(Pipe& out, Pipe& err) {
  std::array<pollfd, 2> fds = {{{.fd = out.ends[0], .events = POLLIN, .revents = 0},
                                {.fd = err.ends[0], .events = POLLIN, .revents = 0}}};
  const std::array<std::string*, 2> texts = {&out.text, &err.text};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      std::array<char, 65536> part;
      const ssize_t got = read(fds[i].fd, part.data(), part.size());
      if (got > 0) texts[i]->append(part.data(), static_cast<size_t>(got));
      if (got == 0) fds[i].fd = -1;
    }
  }
}

void Answer(const std::vector<std::string>& arguments) {
  Pipe out, err;
  const pid_t child = fork();
  EPIC_CHECK(child >= 0);
  if (child == 0) BeManager(arguments, out, err);
  close(out.ends[1]);
  close(err.ends[1]);
  ReadAll(out, err);
  close(out.ends[0]);
  close(err.ends[0]);
  int status = 0;
  EPIC_CHECK(waitpid(child, &status, 0) == child);
  std::cout << (WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)) << ' ' << out.text.size() << ' '
            << err.text.size() << '\n'
            << out.text << err.text << std::flush;
}

}  // namespace
}  // namespace epic

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::vector<std::string> arguments;
    std::istringstream words(line);
    for (std::string word; std::getline(words, word, '\x1f');) arguments.push_back(word);
    epic::Answer(arguments);
  }
  return 0;
}
