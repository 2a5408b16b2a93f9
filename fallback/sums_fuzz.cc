// Messages of the leg as bytes, against a group at its fallback server: no input may break an invariant, read
// or write outside a sum, or make the server hold more than the group's slots. Each step takes a few bytes of
// the input. What is wrong is named, and ends the leg; here the messages go on, which asks more.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "fallback/sums.h"
#include "reduce/reduce.h"

namespace epic::fallback {
namespace {

constexpr Group kFuzzed{.world_size = 3, .path_mtu = 256, .message_packets = 2, .slots = 8};

ControlHeader HeaderFrom(FuzzInput& in, uint64_t invocation) {
  ControlHeader header{.invocation = invocation};
  const uint8_t kind = in.Next();
  header.collective = static_cast<Collective>(1 + kind % 6);
  header.type = static_cast<DataType>(in.Next() % (kDataTypes.size() + 1));
  if (Reduces(header.collective)) header.op = static_cast<ReduceOp>(in.Next() % (kReduceOps.size() + 1));
  header.count = in.Next() * 8u;
  header.parts = HasPartPerRank(header.collective) ? kFuzzed.world_size : 1;
  if ((kind & 0x80) != 0) header.flags = kInlinedFlag;
  if ((kind & 0x40) != 0) header.status = static_cast<ControlStatus>(in.Next() % 6);
  return header;
}

void Run(const uint8_t* data, size_t size) {
  FuzzInput in(data, size);
  Sums sums(kFuzzed);
  ControlHeader header;
  Index next = in.Next() % 2 == 0 ? 0 : (Index{1} << 28) - 2;  // of the next call's control packet
  uint64_t calls = 0;
  std::vector<uint8_t> bytes;
  while (!in.empty()) {
    const uint8_t step = in.Next();
    const auto kind = static_cast<LegMessage>(step % 8);
    const Index index = next + static_cast<int8_t>(in.Next()) / 8;
    if (kind == LegMessage::kOpen) {
      header = HeaderFrom(in, calls++);
      const auto open = EncodeOpen({.header = header, .control_index = index});
      bytes.assign(open.begin(), open.end());
      if ((step & 0x80) != 0) bytes.resize(in.Next());
      if (sums.Take(LegImmediate(kind, index), bytes).empty())
        next = index + LayoutOf(header, kFuzzed.path_mtu, kFuzzed.message_packets).indices();
      continue;
    }
    size_t length = step & 0x80 ? in.Next() * 4u : kFuzzed.path_mtu;
    if (kind == LegMessage::kFetch && (step & 0x80) == 0) length = 0;
    const bool sums_up = Reduces(header.collective) && CanReduce(header.op, header.type);
    if (sums_up && length % ElementBytes(header.type) == 0)
      length = AccumulatorBytes(header.op, header.type, length);
    bytes.assign(length, in.Next());
    const size_t before = sums.size();
    const bool right = sums.Take(LegImmediate(kind, index), bytes).empty();
    EPIC_CHECK(sums.size() <= kFuzzed.slots && sums.size() <= before + 1);
    Sums::Fetched fetched;
    const bool comes = sums.NextFetched(&fetched);
    EPIC_CHECK(comes == (right && kind == LegMessage::kFetch));
    if (!comes) continue;
    EPIC_CHECK(fetched.immediate == LegImmediate(LegMessage::kSum, index));
    EPIC_CHECK(!fetched.bytes.empty() && fetched.bytes.size() <= kFuzzed.path_mtu);
    EPIC_CHECK(sums.size() + 1 == before && !sums.NextFetched(&fetched));
  }
}

}  // namespace
}  // namespace epic::fallback

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::fallback::Run(data, size);
  return 0;
}
