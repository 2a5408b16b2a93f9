#include "io/dpdk/eal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string_view>

#include "io/descriptor.h"
#include "io/dpdk/guard.h"
#include "io/dpdk/memif_sends.h"

namespace epic::io::dpdk {
namespace {

constexpr uint64_t kMib = 1 << 20;

// What DPDK says, as lines. It has one log in a process.
class Log {
 public:
  void Open(decltype(DpdkOptions::say) say) {
    say_ = std::move(say);
    const cookie_io_functions_t functions{.read = nullptr, .write = Write, .seek = nullptr, .close = nullptr};
    rte_openlog_stream(fopencookie(this, "w", functions));
  }
  // Lines wait until Release: standard error is somewhere else.
  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    for (const auto& [level, line] : lines_) say_(level, line);
    lines_.clear();
  }
  void Quiet(int by) {
    const std::lock_guard lock(mutex_);
    quiet_ += by;
    if (by > 0) error_.clear();
  }
  std::string Error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  static ssize_t Write(void* self, const char* bytes, size_t size) {
    static_cast<Log*>(self)->Take({bytes, size});
    return static_cast<ssize_t>(size);
  }
  void Take(std::string_view text) {
    const uint32_t level = static_cast<uint32_t>(rte_log_cur_msg_loglevel());
    const std::lock_guard lock(mutex_);
    partial_ += text;
    for (size_t end; (end = partial_.find('\n')) != std::string::npos; partial_.erase(0, end + 1))
      Line(level, partial_.substr(0, end));
  }
  void Line(uint32_t level, const std::string& line) {
    using Level = DpdkOptions::Level;
    if (level <= RTE_LOG_ERR && error_.empty()) error_ = line;
    const Level as = quiet_ > 0 || level > RTE_LOG_WARNING ? Level::kDebug : Level::kWarning;
    if (held_) {
      lines_.emplace_back(as, "DPDK: " + line);
    } else {
      say_(as, "DPDK: " + line);
    }
  }

  std::mutex mutex_;  // guards all of it
  decltype(DpdkOptions::say) say_;
  std::string partial_, error_;
  int quiet_ = 0;
  bool held_ = false;
  std::vector<std::pair<DpdkOptions::Level, std::string>> lines_;
};

Log& TheLog() {
  static Log* const log = new Log;  // for good: DPDK's threads may speak until the process has ended
  return *log;
}

// Standard output and error go nowhere: what is wrong with its arguments DPDK prints there, with pages of
// help.
class Silence {
 public:
  Silence() : out_(dup(STDOUT_FILENO)), error_(dup(STDERR_FILENO)) {
    std::fflush(nullptr);
    const Descriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
    dup2(nowhere.get(), STDOUT_FILENO);
    dup2(nowhere.get(), STDERR_FILENO);
  }
  ~Silence() {
    std::fflush(nullptr);
    dup2(out_.get(), STDOUT_FILENO);
    dup2(error_.get(), STDERR_FILENO);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  const Descriptor out_, error_;
};

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool HasAny(const std::vector<std::string>& words, std::initializer_list<std::string_view> options) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return std::ranges::any_of(options, [&](std::string_view option) {
      // "-l0" and "--lcores=0" are such as well.
      return word == option ||
             (word.starts_with(option) && (option.size() == 2 || word[option.size()] == '='));
    });
  });
}

// The first processor that this thread may use.
int OwnProcessor() {
  cpu_set_t usable;
  if (pthread_getaffinity_np(pthread_self(), sizeof usable, &usable) != 0) return 0;
  int first = 0;
  while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &usable)) ++first;
  return first;
}

}  // namespace

std::vector<std::string> EalArguments(const DpdkOptions& options, const std::vector<Device>& devices,
                                      uint64_t bytes, bool huge_pages) {
  const std::vector<std::string> given = Words(options.eal_arguments);
  std::vector<std::string> all = {"epic"};
  if (!HasAny(given, {"-l", "-c", "-S", "--lcores"})) {
    all.push_back("-l");
    all.push_back(std::to_string(OwnProcessor()));
  }
  if (!HasAny(given, {"--telemetry", "--no-telemetry"})) all.push_back("--no-telemetry");
  const bool no_huge = HasAny(given, {"--no-huge"});
  const bool sized = HasAny(given, {"-m"});
  const bool ordinary =
      no_huge || (!huge_pages && !HasAny(given, {"--socket-mem", "--huge-dir", "--legacy-mem"}));
  if (ordinary && !no_huge) all.push_back("--no-huge");
  if (ordinary && !sized) {
    all.push_back("-m");
    all.push_back(std::to_string((bytes + kMib - 1) / kMib));
  }
  // DPDK 22.11 does not take the latter with ordinary memory. Neither leaves files.
  if (!HasAny(given, {"--in-memory", "--no-shconf", "--file-prefix", "--huge-dir", "--proc-type"}))
    all.push_back(ordinary ? "--no-shconf" : "--in-memory");
  if (!HasAny(given, {"-a", "--allow", "-b", "--block", "--no-pci"})) {
    const size_t before = all.size();
    for (const Device& device : devices) {
      if (!device.pci) continue;
      all.push_back("-a");
      all.push_back(device.name + device.arguments);
    }
    if (all.size() == before) all.push_back("--no-pci");
  }
  all.insert(all.end(), given.begin(), given.end());
  return all;
}

uint64_t FreeHugePages(const std::string& sysfs) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(sysfs, error)) {
    // As hugepages-2048kB.
    uint64_t kib = 0, free = 0;
    if (std::sscanf(entry.path().filename().c_str(), "hugepages-%lukB", &kib) != 1) continue;
    if (std::ifstream(entry.path() / "free_hugepages") >> free) bytes += free * kib * 1024;
  }
  return bytes;
}

Status StartEal(const DpdkOptions& options, const std::vector<Device>& devices, uint64_t bytes) {
  const bool huge = FreeHugePages("/sys/kernel/mm/hugepages") >= bytes;
  std::vector<std::string> words = EalArguments(options, devices, bytes, huge);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  // DPDK ties the thread that starts it to a core; ours goes where the kernel likes.
  cpu_set_t processors;
  const bool known = pthread_getaffinity_np(pthread_self(), sizeof processors, &processors) == 0;
  TheLog().Open(options.say);
  WatchForFaults();
  const Quietly quietly;
  int started = -1, error = 0;
  {
    TheLog().Hold();
    const Silence silence;
    started = rte_eal_init(static_cast<int>(argv.size()), argv.data());
    error = rte_errno;
  }
  TheLog().Release();
  if (known) pthread_setaffinity_np(pthread_self(), sizeof processors, &processors);
  if (started < 0) {
    std::string line;
    for (const std::string& word : words) line += " " + word;
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("ports by DPDK: it does not start with{}: {}", line.substr(5),
                                  quietly.Why(rte_strerror(error))));
  }
  const bool memifs = std::ranges::any_of(devices, &Device::memif);
  if (memifs && !ForgiveMemifSends())
    options.say(DpdkOptions::Level::kWarning,
                "DPDK: a peer that goes while its memif connects may end this process");
  if (!huge) {
    const bool pci = std::ranges::any_of(devices, &Device::pci);
    options.say(
        pci ? DpdkOptions::Level::kWarning : DpdkOptions::Level::kInfo,
        fmt::format("DPDK: {} MiB of huge pages are not free, so it takes ordinary memory; cure: sysctl "
                    "vm.nr_hugepages={}",
                    bytes / kMib, (bytes + 2 * kMib - 1) / (2 * kMib)));
  }
  return {};
}

Quietly::Quietly() { TheLog().Quiet(1); }
Quietly::~Quietly() { TheLog().Quiet(-1); }

std::string Quietly::Why(const std::string& otherwise) const {
  const std::string said = TheLog().Error();
  return said.empty() ? otherwise : said;
}

void RegisterThread() {
  thread_local const bool registered = rte_lcore_id() != LCORE_ID_ANY || rte_thread_register() == 0;
  static_cast<void>(registered);
}

}  // namespace epic::io::dpdk
