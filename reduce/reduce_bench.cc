// The kernels by type and operation, beside a copy of as many bytes: operands in the first-level cache, and
// 16 MiB of payload, which memory bounds. bytes_per_second counts payload in wire form.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "reduce/quantise.h"
#include "reduce/reduce.h"

namespace epic {
namespace {

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
  auto* const made = benchmark::RegisterBenchmark(name.c_str(), run);
  made->Arg(1024)->Arg(4096)->Arg(16 << 20)->ArgName("payload")->MinTime(0.1);
}

void RegisterAll() {
  Measure("Copy", ReduceOp::kSum, DataType::kInt32,
          [](Operands& x) { std::memcpy(x.acc.data(), x.wire.data(), x.wire.size()); });
  // Of small numbers, none of which is at a limit.
  Measure("Quantise", ReduceOp::kSum, DataType::kFloat32,
          [](Operands& x) { benchmark::DoNotOptimize(Quantise(1e6f, x.acc, x.wire.data())); });
  Measure("Dequantise", ReduceOp::kSum, DataType::kInt32,
          [](Operands& x) { benchmark::DoNotOptimize(Dequantise(1e6, x.acc, x.wire.data())); });
  Measure("FirstNotFinite", ReduceOp::kSum, DataType::kFloat32,
          [](Operands& x) { benchmark::DoNotOptimize(FirstNotFinite(x.wire)); });
  for (const TypeInfo& row : kDataTypes) {
    const DataType t = row.type;
    if (!CanReduce(ReduceOp::kSum, t)) continue;
    const std::string suffix = "/" + std::string(row.name);
    for (const OpInfo& op : kReduceOps) {
      const ReduceOp o = op.op;
      if (!CanReduce(o, t)) continue;
      Measure("Accumulate/" + std::string(op.name) + suffix, o, t,
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
