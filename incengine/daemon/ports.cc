#include "incengine/daemon/ports.h"

#include <spdlog/spdlog.h>

namespace epic::daemon {
namespace {

// Frames of one port before the next port has its turn.
constexpr int kFramesPerRound = 64;
constexpr Nanos kCheckInterval = kSecond;

void Add(const io::PcapPortCounters& more, io::PcapPortCounters* sum) {
  sum->rx_dropped += more.rx_dropped;
  sum->rx_too_long += more.rx_too_long;
  sum->tx_no_buffer += more.tx_no_buffer;
  sum->tx_too_long += more.tx_too_long;
  sum->tx_failed += more.tx_failed;
}

}  // namespace

StatusOr<std::unique_ptr<Ports>> Ports::Open(const std::vector<std::string>& interfaces, size_t ring_bytes,
                                             io::EventLoop& loop, engine::Switch& sw, Trace* trace) {
  std::unique_ptr<Ports> ports(new Ports(loop, sw, ring_bytes, trace));
  for (const std::string& name : interfaces) ports->ports_.push_back({.name = name});
  for (size_t i = 0; i < interfaces.size(); ++i) {
    const Status status = ports->OpenPort(static_cast<PortId>(i));
    if (status.code() == StatusCode::kUnavailable) {
      spdlog::warn("{}; waiting for it", std::string(status.message()));
    } else if (!status.ok()) {
      return status;
    }
  }
  return ports;
}

Ports::Ports(io::EventLoop& loop, engine::Switch& sw, size_t ring_bytes, Trace* trace)
    : loop_(loop), switch_(sw), ring_bytes_(ring_bytes), trace_(trace) {
  loop_.OnTimer([this](Nanos now, uint64_t id) {
    if (trace_ != nullptr) trace_->OnTimer(now, engine::TimerId{id});
    switch_.OnTimer(now, engine::TimerId{id}, *this);
    FlushAll();
  });
  loop_.CallEvery(kCheckInterval, [this] { CheckInterfaces(); });
}

std::vector<PortState> Ports::States() {
  std::vector<PortState> states;
  for (Port& port : ports_) {
    PortState& state = states.emplace_back();
    state.name = port.name;
    state.interface = io::ReadInterface(port.name);
    state.interface.up &= port.pcap != nullptr;
    state.counters = port.closed;
    if (port.pcap != nullptr) Add(port.pcap->counters(), &state.counters);
    state.times_lost = port.times_lost;
  }
  return states;
}

engine::ProbeAnswer Ports::Probe(const engine::ProbeTarget& target) {
  const engine::ProbeAnswer answer = switch_.Probe(target, *this);
  FlushAll();
  return answer;
}

void Ports::Send(PortId port, std::span<const uint8_t> frame) {
  if (trace_ != nullptr) trace_->OnSend(port, frame);
  if (ports_[port].pcap == nullptr) {
    ++ports_[port].closed.tx_failed;
    return;
  }
  ports_[port].pcap->Send(frame);
}

void Ports::SetTimer(engine::TimerId id, Nanos deadline) {
  loop_.SetTimer(static_cast<uint64_t>(id), deadline);
}

Status Ports::OpenPort(PortId port) {
  auto opened = io::PcapPort::Open(ports_[port].name, ring_bytes_);
  if (!opened.ok()) return opened.status();
  ports_[port].pcap = *std::move(opened);
  ports_[port].up = io::ReadInterface(ports_[port].name).up;
  loop_.Watch(ports_[port].pcap->fd(), [this, port](Nanos now) { return Receive(port, now); });
  return {};
}

void Ports::LosePort(PortId port, const std::string& why) {
  Port& lost = ports_[port];
  spdlog::warn("port {} is lost: {}; waiting for it", lost.name, why);
  ++lost.times_lost;
  Add(lost.pcap->counters(), &lost.closed);
  loop_.Unwatch(lost.pcap->fd());
  lost.pcap.reset();
  lost.up = false;
  lost.waiting = false;
}

bool Ports::Receive(PortId port, Nanos now) {
  struct Batch {
    Ports* ports;
    PortId port;
    Nanos now;
  } batch{this, port, now};
  const auto handle = [](void* user, std::span<const uint8_t> frame) {
    const Batch& b = *static_cast<const Batch*>(user);
    if (b.ports->trace_ != nullptr) b.ports->trace_->OnFrame(b.now, b.port, frame);
    b.ports->switch_.OnFrame(b.now, b.port, frame, *b.ports);
  };
  // It is watched for room as well.
  if (ports_[port].waiting) ports_[port].pcap->Resume();
  const auto received = ports_[port].pcap->Receive(kFramesPerRound, handle, &batch);
  FlushAll();
  if (!received.ok()) {
    LosePort(port, std::string(received.status().message()));
    return false;
  }
  return *received > 0;
}

void Ports::FlushAll() {
  for (Port& port : ports_) {
    if (port.pcap == nullptr) continue;
    port.pcap->Flush();
    NoteWaiting(port);
  }
}

void Ports::NoteWaiting(Port& port) {
  if (port.waiting == port.pcap->waiting()) return;
  port.waiting = port.pcap->waiting();
  loop_.WatchWritable(port.pcap->fd(), port.waiting);
}

void Ports::NoteLink(Port& port, bool up) {
  if (port.up && !up && port.pcap != nullptr) {
    spdlog::warn("port {} is down", port.name);
    ++port.times_lost;
  } else if (!port.up && up) {
    spdlog::info("port {} is up", port.name);
  }
  port.up = up;
}

void Ports::CheckInterfaces() {
  if (trace_ != nullptr) trace_->Flush();
  for (size_t i = 0; i < ports_.size(); ++i) {
    const auto id = static_cast<PortId>(i);
    Port& port = ports_[i];
    const io::InterfaceState state = io::ReadInterface(port.name);
    if (port.pcap != nullptr && !state.exists) {
      LosePort(id, "the interface is gone");
    } else if (port.pcap != nullptr && state.mtu != port.pcap->mtu()) {
      LosePort(id, "its MTU has changed");
    }
    if (port.pcap == nullptr && state.exists && OpenPort(id).ok()) spdlog::info("port {} is back", port.name);
    NoteLink(port, state.up);
  }
}

}  // namespace epic::daemon
