// The kernels by type and operation, beside a copy of as many bytes: operands in the first-level cache, and
// 16 MiB of payload, which memory bounds. bytes_per_second counts payload in wire form, as blocks where there
// are.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "reduce/blocks.h"
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

// Of `bytes` of blocks; and numbers that fill them, ones as above.
struct BlockOperands {
  BlockOperands(DataType type, size_t bytes)
      : blocks(bytes), others(bytes), acc(bytes / kBlockBytes * kBlockAccumulatorBytes) {
    const size_t elements = bytes / kBlockBytes * kBlockElements;
    numbers = Operands(ReduceOp::kSum, type, elements * ElementBytes(type)).wire;
    QuantiseBlocks(type, blocks, numbers);
    others = blocks;
    LoadBlocks(acc, blocks);
  }
  std::vector<uint8_t> numbers, blocks, others, acc;
};

template <typename Made, typename Kernel>
void Register(const std::string& name, const Made& made, Kernel kernel) {
  const auto run = [=](benchmark::State& state) {
    auto operands = made(static_cast<size_t>(state.range(0)));
    for (auto _ : state) {
      kernel(operands);
      benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
  };
  auto* const registered = benchmark::RegisterBenchmark(name.c_str(), run);
  registered->Arg(1024)->Arg(4096)->Arg(16 << 20)->ArgName("payload")->MinTime(0.1);
}

template <typename Kernel>
void Measure(const std::string& name, ReduceOp op, DataType type, Kernel kernel) {
  Register(
      name, [=](size_t bytes) { return Operands(op, type, bytes); }, kernel);
}

void RegisterBlocks() {
  using Kernel = void (*)(BlockOperands&);
  const auto measure = [](const std::string& name, DataType type, auto kernel) {
    Register(
        name, [=](size_t bytes) { return BlockOperands(type, bytes); }, kernel);
  };
  for (const DataType t : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const std::string suffix = "/" + std::string(NameOf(t));
    measure("QuantiseBlocks" + suffix, t, [=](BlockOperands& x) { QuantiseBlocks(t, x.blocks, x.numbers); });
    measure("DequantiseBlocks" + suffix, t,
            [=](BlockOperands& x) { DequantiseBlocks(t, x.numbers, x.blocks); });
  }
  const std::pair<const char*, Kernel> kernels[] = {
      {"LoadBlocks", [](BlockOperands& x) { LoadBlocks(x.acc, x.blocks); }},
      {"AccumulateBlocks", [](BlockOperands& x) { AccumulateBlocks(x.acc, x.blocks); }},
      {"StoreBlocks", [](BlockOperands& x) { StoreBlocks(x.acc, x.blocks); }},
      {"CombineBlocks", [](BlockOperands& x) { CombineBlocks(x.blocks, x.others.data(), x.others.data()); }}};
  for (const auto& [name, kernel] : kernels) measure(name, DataType::kFloat32, kernel);
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
  for (const TypeInfo& row : kCallerTypes) {
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
  epic::RegisterBlocks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
