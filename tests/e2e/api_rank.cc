// One rank that does the steps of its command line, one after the other and whatever the one before returned,
// and tells of each as JSON lines:
//   {"pid": 17}
//   {"doing": "allreduce:1000"}                                                     before a step
//   {"did": "allreduce:1000", "us": 812, "at_us": 93211, "wrong": 0}                after it
//   {"did": "wait", "us": 4, "at_us": 93215, "error": "aborted", "message": "..."}
// `us` is the step's time, `at_us` the machine's monotonic clock. Exit status 0: no element was wrong.
//
// Steps, C being "COUNT[,TYPE[,OP[,ROOT]]]" with float, sum and 0 left out:
//   init                 joins the group of the command line
//   init:GROUP           joins another; init:GROUP,RANK,SIZE as another rank
//   allreduce:C ...      a collective; its result is checked
//   start-allreduce:C    the same without waiting; its request goes to the end of the line
//   test, poll           of the first request in the line: Test ("ended"); Test until it has ended
//   wait                 Wait for the first request in the line; the result is checked
//   forget               drops the first request, not its buffers
//   fill                 starts Barriers until one is refused; "started" is how many were not
//   refused:WHAT         a call with an argument that is wrong, or where it may not be made
//   registered:C         an AllReduce in memory that was registered for it
//   path                 Path: "path" and "reason"
//   path:TYPE[,OP]       PathOf; path:allgather,COUNT PathOfAllGather, of floats
//   timeout:MS           SetTimeout
//   option:MS            Options::timeout of later groups; 0: as EPIC_TIMEOUT says
//   async, until-error   AsyncError; the same until it is one
//   abort:WHY            Abort
//   abort-later:WHY      Abort, by another thread, when SIGUSR2 comes
//   destroy, drop        Destroy; the object is replaced by a new one
//   swap, move           it is replaced by a second one, whose group goes on; moved, and the old one called
//   pause                until SIGUSR1 comes
// After a colon, steps without an argument may have a word that tells them apart.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "bench/collective.h"
#include "epic/epic.h"

namespace epic::perf {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr unsigned kChildSeconds = 30;

int64_t Micros(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

void Say(const Json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

// Blocked in every thread, so that they wait until somebody asks for them.
void BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void AwaitSignal(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  int got = 0;
  sigwait(&set, &got);
}

// A call with its buffers. They are never empty, so that there is an address even without elements.
struct Pending {
  Job job;
  uint32_t run = 0;
  std::vector<uint8_t> send, recv;
  Request request;

  Buffers buffers() { return {.send = send.data(), .recv = recv.data()}; }
};

// Of an argument "A,B"; those that it does not have are as given.
std::vector<std::string> Words(const std::string& argument, std::vector<std::string> words) {
  std::istringstream in(argument);
  std::string word;
  for (size_t i = 0; i < words.size() && std::getline(in, word, ','); ++i) words[i] = word;
  return words;
}

class Rank {
 public:
  explicit Rank(Options options) : options_(std::move(options)) {}

  // True if no element was wrong.
  bool Run(const std::vector<std::string>& steps) {
    for (const std::string& step : steps) {
      Say({{"doing", step}});
      Json line = {{"did", step}};
      const Clock::time_point begin = Clock::now();
      const Error error = Do(step, &line);
      const Clock::time_point end = Clock::now();
      line["us"] = Micros(end - begin);
      line["at_us"] = Micros(end.time_since_epoch());
      if (!error.ok()) {
        line["error"] = ErrorName(error.code());
        line["message"] = error.message();
      }
      Say(line);
    }
    if (aborter_.joinable()) aborter_.join();
    return wrong_ == 0;
  }

 private:
  Error Do(const std::string& step, Json* line) {
    const size_t colon = step.find(':');
    const std::string verb = step.substr(0, colon);
    const std::string argument = colon == std::string::npos ? "" : step.substr(colon + 1);
    const std::string prefix = "start-";
    if (ParseKind(verb)) return Call(MakeCall(verb, argument), line);
    if (verb == "swap") return std::swap(comm_, other_), Error();
    if (verb.starts_with(prefix)) return StartCall(MakeCall(verb.substr(prefix.size()), argument));
    const auto found = kSteps.find(verb);
    if (found == kSteps.end()) throw std::invalid_argument("no step " + step);
    return (this->*found->second)(argument, line);
  }

  std::unique_ptr<Pending> MakeCall(const std::string& kind, const std::string& argument) const {
    const std::vector<std::string> words = Words(argument, {"1", "float", "sum", "0"});
    auto call = std::make_unique<Pending>();
    call->job = {.kind = ParseKind(kind).value(),
                 .type = ParseType(words.at(1)).value(),
                 .op = ParseOp(words.at(2)).value(),
                 .count = std::stoull(words.at(0)),
                 .root = std::stoi(words.at(3)),
                 .rank = options_.rank,
                 .ranks = options_.size};
    call->run = calls_;
    call->send.assign(call->job.total_bytes() + 8, 0xee);
    call->recv.assign(call->job.total_bytes() + 8, 0xee);
    Fill(call->job, call->run, call->send.data());
    return call;
  }

  Error Call(const std::unique_ptr<Pending>& call, Json* line) {
    if (Error error = perf::Run(call->job, call->buffers(), comm_); !error.ok()) return error;
    ++calls_;
    return Checked(call.get(), line);
  }

  Error StartCall(std::unique_ptr<Pending> call) {
    Error error = Start(call->job, call->buffers(), comm_, &call->request);
    calls_ += error.ok() ? 1 : 0;
    if (error.ok()) pending_.push_back(std::move(call));
    return error;
  }

  Error Checked(Pending* call, Json* line) {
    const uint64_t wrong = Wrong(call->job, call->run, call->recv.data());
    (*line)["wrong"] = wrong;
    wrong_ += wrong;
    return {};
  }

  Error Init(const std::string& argument, Json*) {
    const std::vector<std::string> words =
        Words(argument, {options_.group, std::to_string(options_.rank), std::to_string(options_.size)});
    options_.group = words[0];
    options_.rank = std::stoi(words[1]);
    options_.size = std::stoi(words[2]);
    calls_ = 0;
    return comm_.Init(options_);
  }

  Error Test(const std::string&, Json* line) {
    (*line)["ended"] = pending_.front()->request.Test();
    return {};
  }

  Error Poll(const std::string&, Json* line) {
    int64_t tests = 1;
    while (!pending_.front()->request.Test()) ++tests;
    (*line)["tests"] = tests;
    return {};
  }

  Error Wait(const std::string&, Json* line) {
    const std::unique_ptr<Pending> call = std::move(pending_.front());
    pending_.pop_front();
    if (Error error = call->request.Wait(); !error.ok()) return error;
    return Checked(call.get(), line);
  }

  Error Forget(const std::string&, Json*) {
    forgotten_.push_back(std::move(pending_.front()));
    pending_.pop_front();
    forgotten_.back()->request = Request();
    return {};
  }

  Error FillLine(const std::string&, Json* line) {
    for (int64_t started = 0;; ++started) {
      if (Error error = StartCall(MakeCall("barrier", "")); !error.ok()) {
        (*line)["started"] = started;
        return error;
      }
    }
  }

  Error Refused(const std::string& what, Json*) {
    std::vector<float> data(8, 1.0f), other(8);
    constexpr size_t kTooMany = (size_t{1} << 46) / sizeof(float) + 1;
    const auto sum = [&](const void* send, void* recv, size_t count, int type, int op) {
      return AllReduce(send, recv, count, static_cast<Datatype>(type), static_cast<RedOp>(op), comm_);
    };
    if (what == "no-sendbuff") return sum(nullptr, other.data(), 8, 1, 1);
    if (what == "no-recvbuff") return sum(data.data(), nullptr, 8, 1, 1);
    if (what == "overlap") return sum(data.data(), &data[1], 4, 1, 1);
    if (what == "size") return sum(data.data(), other.data(), kTooMany, 1, 1);
    if (what == "type") return sum(data.data(), other.data(), 8, 77, 1);
    if (what == "bytes") return sum(data.data(), other.data(), 8, static_cast<int>(Datatype::kByte), 1);
    if (what == "operation") return sum(data.data(), other.data(), 8, 1, 77);
    if (what == "root")
      return Broadcast(data.data(), other.data(), 8, Datatype::kFloat32, options_.size, comm_);
    if (what == "no-request") return BarrierAsync(comm_, nullptr);
    if (what == "no-memory") return Register(comm_, nullptr, 8, nullptr);
    if (what == "no-registration") return Register(comm_, data.data(), 8, nullptr);
    if (what == "second-init") return comm_.Init(options_);
    if (what == "forked-init") return ForkedInit();
    throw std::invalid_argument("nothing to refuse: " + what);
  }

  // What Init returns in a child. One that hangs in it is ended by an alarm.
  Error ForkedInit() const {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    const pid_t child = fork();
    if (child == 0) {
      alarm(kChildSeconds);
      Communicator comm;
      const Error error = comm.Init(options_);
      const std::string told = static_cast<char>(error.code()) + error.message();
      _exit(write(ends[1], told.data(), told.size()) == static_cast<ssize_t>(told.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string told(4096, '\0');
    const ssize_t bytes = read(ends[0], told.data(), told.size());
    close(ends[0]);
    waitpid(child, nullptr, 0);
    if (bytes < 1) return {ErrorCode::kInternal, "the child has said nothing"};
    return {static_cast<ErrorCode>(told[0]), told.substr(1, static_cast<size_t>(bytes) - 1)};
  }

  Error Registered(const std::string& argument, Json* line) {
    const auto call = MakeCall("allreduce", argument);
    Registration send, recv;
    if (Error error = Register(comm_, call->send.data(), call->send.size(), &send); !error.ok()) return error;
    if (Error error = Register(comm_, call->recv.data(), call->recv.size(), &recv); !error.ok()) return error;
    Error error = Call(call, line);
    send.Reset();
    return error;
  }

  Error PathOf(const std::string& argument, Json* line) {
    const std::vector<std::string> words = Words(argument, {"", ""});
    PathTaken taken = comm_.Path();
    if (words[0] == "allgather") {
      taken = comm_.PathOfAllGather(std::stoull(words[1]), Datatype::kFloat32);
    } else if (const auto type = ParseType(words[0])) {
      taken = words[1].empty() ? comm_.PathOf(*type) : comm_.PathOf(*type, ParseOp(words[1]).value());
    }
    const char* const path = taken.path == PathChoice::kDefault ? "none" : PathName(taken.path);
    line->update({{"path", path}, {"reason", taken.reason}});
    return {};
  }

  Error SetTimeout(const std::string& ms, Json*) {
    comm_.SetTimeout(std::chrono::milliseconds(std::stoll(ms)));
    return {};
  }

  Error SetOption(const std::string& ms, Json*) {
    options_.timeout = std::chrono::milliseconds(std::stoll(ms));
    return {};
  }

  Error Async(const std::string&, Json*) { return comm_.AsyncError(); }

  Error UntilError(const std::string&, Json*) {
    while (comm_.AsyncError().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return comm_.AsyncError();
  }

  Error Abort(const std::string& why, Json*) {
    comm_.Abort(why);
    return {};
  }

  Error AbortLater(const std::string& why, Json*) {
    aborter_ = std::thread([this, why] {
      AwaitSignal(SIGUSR2);
      comm_.Abort(why);
    });
    return {};
  }

  Error Destroy(const std::string&, Json*) { return comm_.Destroy(); }

  Error Drop(const std::string&, Json*) {
    comm_ = Communicator();
    return {};
  }

  // The error of the object that was moved from; the other one goes on.
  Error Move(const std::string&, Json*) {
    Communicator moved = std::move(comm_);
    Error error = Barrier(comm_);  // NOLINT(bugprone-use-after-move): what it then says is what is asked for
    comm_ = std::move(moved);
    return error;
  }

  Error Pause(const std::string&, Json*) {
    AwaitSignal(SIGUSR1);
    return {};
  }

  using Step = Error (Rank::*)(const std::string& argument, Json* line);
  static const std::map<std::string, Step> kSteps;
  Options options_;
  Communicator comm_, other_;
  std::deque<std::unique_ptr<Pending>> pending_;
  std::vector<std::unique_ptr<Pending>> forgotten_;
  std::thread aborter_;
  uint32_t calls_ = 0;  // of this group, the same on all ranks; tells their data apart
  uint64_t wrong_ = 0;
};

const std::map<std::string, Rank::Step> Rank::kSteps = {
    {"init", &Rank::Init},          {"test", &Rank::Test},
    {"poll", &Rank::Poll},          {"wait", &Rank::Wait},
    {"forget", &Rank::Forget},      {"fill", &Rank::FillLine},
    {"refused", &Rank::Refused},    {"registered", &Rank::Registered},
    {"timeout", &Rank::SetTimeout}, {"option", &Rank::SetOption},
    {"async", &Rank::Async},        {"until-error", &Rank::UntilError},
    {"abort", &Rank::Abort},        {"abort-later", &Rank::AbortLater},
    {"destroy", &Rank::Destroy},    {"drop", &Rank::Drop},
    {"move", &Rank::Move},          {"pause", &Rank::Pause},
    {"path", &Rank::PathOf}};

int Main(int argc, char** argv) {
  Options options;
  std::vector<std::string> steps;
  int64_t timeout_ms = 60'000, join_timeout_ms = 30'000;
  CommandLine app(
      "One rank of a test that does the steps of its command line and tells of each as JSON lines");
  app.Add("--group", &options.group).Required();
  app.Add("--rank", &options.rank).Required();
  app.Add("--size", &options.size).Required();
  app.Add("--manager", &options.manager);
  app.Add("--ifname", &options.ifname);
  app.Add("--timeout-ms", &timeout_ms, "As the step option");
  app.Add("--join-timeout-ms", &join_timeout_ms);
  app.Add("steps", &steps).Required();
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  options.timeout = std::chrono::milliseconds(timeout_ms);
  options.join_timeout = std::chrono::milliseconds(join_timeout_ms);
  Say({{"pid", getpid()}});
  try {
    return Rank(options).Run(steps) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "api_rank: {}\n", error.what());
    return 2;
  }
}

}  // namespace
}  // namespace epic::perf

int main(int argc, char** argv) {
  epic::perf::BlockSignals();
  return epic::perf::Main(argc, argv);
}
