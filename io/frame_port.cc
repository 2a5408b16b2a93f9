#include "io/frame_port.h"

namespace epic::io {

PortCounters FramePort::counters() {
  PortCounters sum = received_;
  sum.rx_dropped = CountDropped();
  AddCounters(kPortCounters, sender_->counters(), &sum);
  return sum;
}

}  // namespace epic::io
