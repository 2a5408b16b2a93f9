#include "commlib/core/block_data.h"

#include "protocol/number_blocks.h"
#include "reduce/blocks.h"
#include "reduce/reduce.h"

namespace epic {

void LoadParts(const ControlHeader& header, const uint8_t* send, uint64_t part_stride, uint32_t parts, uint8_t* to) {
  const uint64_t own = CalledBytes(header), blocks = header.count * kBlockBytes;
  const uint64_t stride = part_stride == 0 ? own : part_stride;
  for (uint64_t part = 0; part < parts; ++part)
    QuantiseBlocks(header.called, {to + part * blocks, blocks}, {send + part * stride, own});
}

void StorePart(const ControlHeader& header, const uint8_t* blocks, uint32_t world_size, uint8_t* recv) {
  const uint64_t own = CalledBytes(header);
  DequantiseBlocks(header.called, {recv, own}, {blocks, header.count * kBlockBytes});
  if ((header.flags & kAverageFlag) != 0) ScaleToAverage(header.called, {recv, own}, world_size);
}

}  // namespace epic
