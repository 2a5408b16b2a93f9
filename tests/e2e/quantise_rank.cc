// A rank of tests of groups that sum FP32 as INT32. It joins, then calls an AllReduce of float, sum, in
// place, for each VALUE of its command line, with --count elements that all are that, and then Destroy; and
// tells of each as a JSON line:
//   {"did": "init", "error": "mismatch", "message": "..."}       then it makes no calls
//   {"did": "init", "scale": 1000.0, "path": 2}
//   {"did": "0.5", "first": 2.0, "last": 2.0, "saturated_inputs": 0, "saturated_results": 0}
//   {"did": "destroy"}
// Exit status 0 whatever was returned.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "epic/epic.h"

namespace epic {
namespace {

using Json = nlohmann::json;

void Say(Json line, const Error& error) {
  if (!error.ok()) {
    line["error"] = ErrorName(error.code());
    line["message"] = error.message();
  }
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Options options;
  std::vector<std::string> values;
  size_t count = 1000;
  CommandLine line("One rank of a test that sums FP32 as INT32");
  line.Add("--group", &options.group).Required();
  line.Add("--rank", &options.rank).Required();
  line.Add("--size", &options.size).Required();
  line.Add("--count", &count);
  line.Add("values", &values);
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  options.timeout = std::chrono::seconds(60);
  options.join_timeout = std::chrono::seconds(30);
  Communicator comm;
  const Error joined = comm.Init(options);
  Say({{"did", "init"}, {"scale", comm.Quantised().scale}, {"path", static_cast<int>(comm.Path().path)}},
      joined);
  if (!joined.ok()) return 0;
  for (const std::string& value : values) {
    std::vector<float> data(count, std::stof(value));
    // Nobody is in the call before any more when this one's end can be heard of.
    static_cast<void>(Barrier(comm));
    const Error error =
        AllReduce(data.data(), data.data(), data.size(), Datatype::kFloat32, RedOp::kSum, comm);
    const Quantisation quantised = comm.Quantised();
    Say({{"did", value},
         {"first", data.front()},
         {"last", data.back()},
         {"saturated_inputs", quantised.saturated_inputs},
         {"saturated_results", quantised.saturated_results}},
        error);
  }
  Say({{"did", "destroy"}}, comm.Destroy());
  return 0;
}

}  // namespace
}  // namespace epic

int main(int argc, char** argv) { return epic::Main(argc, argv); }
