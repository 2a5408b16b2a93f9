// The kernels on operands in the first-level cache: bytes_per_second counts payload in wire form.
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "reduce/reduce.h"

namespace epic {
namespace {

constexpr std::pair<ReduceOp, const char*> kOps[] = {
    {ReduceOp::kSum, "SUM"}, {ReduceOp::kMin, "MIN"}, {ReduceOp::kMax, "MAX"}};
constexpr std::pair<DataType, const char*> kTypes[] = {{DataType::kFloat32, "FP32"},
                                                       {DataType::kInt32, "INT32"},
                                                       {DataType::kFloat16, "FP16"},
                                                       {DataType::kBFloat16, "BF16"}};

// Ones in FP32 are 0x3f800000: neither they nor their halves are special in any type.
struct Operands {
  Operands(ReduceOp op, DataType type, size_t bytes) : wire(bytes), acc(AccumulatorBytes(op, type, bytes)) {
    for (size_t i = 0; i < bytes; ++i) wire[i] = i % 4 == 3 ? 0x3f : i % 4 == 2 ? 0x80 : 0;
    Load(op, type, acc, wire);
  }
  std::vector<uint8_t> wire;
  std::vector<uint8_t> acc;
};

template <typename Kernel>
void Measure(const std::string& name, ReduceOp op, DataType type, Kernel kernel) {
  const auto run = [=](benchmark::State& state) {
    Operands operands(op, type, static_cast<size_t>(state.range(0)));
    for (auto _ : state) {
      kernel(operands);
      benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->Arg(1024)->Arg(4096)->ArgName("payload");
}

void RegisterAll() {
  for (const auto& [type, type_name] : kTypes) {
    const DataType t = type;
    const std::string suffix = std::string("/") + type_name;
    for (const auto& [op, op_name] : kOps) {
      const ReduceOp o = op;
      Measure(std::string("Accumulate/") + op_name + suffix, o, t,
              [=](Operands& x) { Accumulate(o, t, x.acc, x.wire); });
    }
    Measure("Load" + suffix, ReduceOp::kSum, t, [=](Operands& x) { Load(ReduceOp::kSum, t, x.acc, x.wire); });
    Measure("Store" + suffix, ReduceOp::kSum, t,
            [=](Operands& x) { Store(ReduceOp::kSum, t, x.acc, x.wire); });
    Measure("ScaleToAverage" + suffix, ReduceOp::kSum, t, [=](Operands& x) { ScaleToAverage(t, x.wire, 1); });
  }
}

}  // namespace
}  // namespace epic

int main(int argc, char** argv) {
  epic::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
