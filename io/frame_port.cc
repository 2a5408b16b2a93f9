#include "io/frame_port.h"

namespace epic::io {

PortCounters FramePort::counters() {
  const SendCounters& sent = sender_->counters();
  return {.rx_dropped = CountDropped(),
          .rx_too_long = rx_too_long_,
          .tx_no_buffer = sent.no_buffer,
          .tx_too_long = sent.too_long,
          .tx_failed = sent.failed,
          .rx_super_frames = rx_super_frames_,
          .tx_super_frames = sent.super_frames};
}

}  // namespace epic::io
