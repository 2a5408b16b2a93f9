// Every rank contributes a million ones; each gets the number of ranks. One per host is started by
// epic-run --hosts a,b,c,d --manager 10.0.0.1:7400 ./allreduce, on the test bed by scripts/testbed run
// ./allreduce, or by hand: EPIC_RANK=0 EPIC_SIZE=4 EPIC_MANAGER=10.0.0.1:7400 ./allreduce
#include <epic/epic.h>

#include <cstdio>
#include <vector>

int main() {
  epic::Communicator comm;
  std::vector<float> data(1 << 20, 1.0f);
  epic::Error error = comm.Init();
  if (error.ok()) {
    error = epic::AllReduce(data.data(), data.data(), data.size(), epic::Datatype::kFloat32,
                            epic::RedOp::kSum, comm);
  }
  if (error.ok()) error = comm.Destroy();
  std::printf("%s: sum is %g\n", error.ok() ? "ok" : error.message().c_str(), data[0]);
  return error.ok() ? 0 : 1;
}
