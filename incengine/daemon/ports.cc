#include "incengine/daemon/ports.h"

#include <spdlog/spdlog.h>

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"
#include "io/clock.h"
#include "roce/super_frame.h"

namespace epic::daemon {
namespace {

// Packets of one port before the next port has its turn.
constexpr int kPacketsPerRound = 64;
// Packets of all ports before what they have led to leaves, so that it need not wait for every port's turn.
constexpr int kPacketsPerFlush = 128;
// Between two looks at the interfaces, if the kernel does not tell of them; and between hellos.
constexpr Nanos kCheckInterval = engine::Neighbours::kHelloInterval;

void Add(const io::PortCounters& more, io::PortCounters* sum) { AddCounters(io::kPortCounters, more, sum); }

bool LiesIn(std::span<const uint8_t> bytes, std::span<const uint8_t> whole) {
  const std::less_equal<const uint8_t*> le;
  return le(whole.data(), bytes.data()) && le(bytes.data() + bytes.size(), whole.data() + whole.size());
}

}  // namespace

StatusOr<std::unique_ptr<Ports>> Ports::Open(const Options& options, io::EventLoop& loop, engine::Switch& sw,
                                             Trace* trace) {
  std::unique_ptr<Ports> ports(new Ports(options, loop, sw, trace));
  for (const std::string& name : options.interfaces) {
    io::PortSource& source = ports->SourceOf(name);
    if (const std::string wrong = source.Wrong(name); !wrong.empty())
      return MakeStatus(StatusCode::kInvalidArgument, "port " + wrong);
    ports->ports_.push_back({.name = name, .source = &source});
  }
  for (size_t i = 0; i < options.interfaces.size(); ++i) {
    const Status status = ports->OpenPort(static_cast<PortId>(i));
    if (status.code() == StatusCode::kUnavailable) {
      if (ports->Reports()) spdlog::warn("{}; waiting for it", std::string(status.message()));
    } else if (!status.ok()) {
      return status;
    }
  }
  return ports;
}

Ports::Ports(const Options& options, io::EventLoop& loop, engine::Switch& sw, Trace* trace)
    : loop_(loop), switch_(sw), options_(options), trace_(trace) {
  loop_.OnTimer([this](Nanos now, uint64_t id) {
    if (trace_ != nullptr) trace_->OnTimer(now, engine::TimerId{id});
    switch_.OnTimer(now, engine::TimerId{id}, *this);
  });
  loop_.AfterRound([this] { EndRound(); });
  switch_.engine().BeforeMoves([this] { Flush(); });
  loop_.CallEvery(kCheckInterval, [this] {
    if (trace_ != nullptr) trace_->Flush();
    CheckInterfaces();
    if (Reports()) switch_.OnHelloTime(io::MonotonicNow(), *this);
  });
  WatchLinks();
}

void Ports::WatchLinks() {
  auto links = io::LinkWatch::Open();
  if (!links.ok()) {
    if (Reports()) spdlog::warn("{}; ports are looked at each second", std::string(links.status().message()));
    return;
  }
  links_ = *std::move(links);
  loop_.Watch(links_->fd(), [this](Nanos) {
    const auto on_change = [](void* self, const io::InterfaceChange& change) {
      static_cast<Ports*>(self)->OnLink(change);
    };
    const bool heard_all = links_->ReadChanges(on_change, this);
    if (std::exchange(links_changed_, false) || !heard_all) CheckInterfaces();
    return false;
  });
}

void Ports::OnLink(const io::InterfaceChange& change) {
  for (Port& port : ports_) {
    if (port.name != change.name || port.source != &kernel_) continue;
    links_changed_ = true;
    NoteTimesDown(port, change.times_down);
  }
}

void Ports::NoteTimesDown(Port& port, std::optional<uint32_t> times_down) {
  // What was so before the port was opened is no news.
  if (!times_down || times_down <= port.times_down) return;
  port.was_down |= port.times_down.has_value();
  port.times_down = times_down;
}

std::vector<PortState> Ports::States() {
  std::vector<PortState> states;
  for (Port& port : ports_) {
    PortState& state = states.emplace_back();
    state.name = port.name;
    state.interface = port.source->State(port.name);
    state.interface.up &= port.open != nullptr;
    state.counters = port.closed;
    if (port.open != nullptr) Add(port.open->counters(), &state.counters);
    state.super_frames = port.open != nullptr && port.open->super_frames();
    state.times_lost = port.times_lost;
    state.rate_mbps = port.rate_mbps;
  }
  return states;
}

engine::ProbeAnswer Ports::Probe(const engine::ProbeTarget& target) { return switch_.Probe(target, *this); }

bool Ports::Locate(Ipv4 ip) { return switch_.Locate(io::MonotonicNow(), ip, *this); }

void Ports::Send(PortId port, std::span<const uint8_t> frame) {
  if (trace_ != nullptr) trace_->OnSend(port, frame);
  if (ports_[port].open == nullptr) return void(++ports_[port].closed.tx_failed);
  ports_[port].open->sender().Send(frame);
}

void Ports::SendPacket(PortId port, const roce::FramePieces& packet, bool joins) {
  if (trace_ != nullptr) trace_->OnSend(port, roce::Join(packet));
  if (ports_[port].open == nullptr) return void(++ports_[port].closed.tx_failed);
  // A slot is hardly ever needed for anything else before all ports are flushed: who could make it so has not
  // got yet what waits here, and the engine says when it moves slots. A repeat may wait beside newer data;
  // what is changed then has a wrong ICRC (ADR 10).
  const bool stays = switch_.engine().arena().Holds(packet.payload) || LiesIn(packet.payload, kept_);
  ports_[port].open->sender().Send(packet, {.joins = joins, .stays = stays});
}

bool Ports::SendSuperFrame(PortId port, const roce::SuperFrameView& frame) {
  EPIC_CHECK(trace_ == nullptr);  // with a trace they come one by one
  if (ports_[port].open == nullptr || !ports_[port].open->super_frames()) return false;
  ports_[port].open->sender().Send(frame, LiesIn(frame.bytes(), kept_));
  return true;
}

void Ports::SetTimer(engine::TimerId id, Nanos deadline) {
  loop_.SetTimer(static_cast<uint64_t>(id), deadline);
}

io::PortSource& Ports::SourceOf(const std::string& name) {
  if (options_.devices != nullptr && options_.devices->Has(name)) return *options_.devices;
  return kernel_;
}

io::PortRequest Ports::RequestFor(const std::string& name) const {
  io::PortRequest request{
      .name = name, .ring_bytes = options_.ring_bytes, .single_frames = options_.single_frames};
  if (options_.shards > 1) {
    request.shard = io::FrameShard{.number = options_.shard,
                                   .count = options_.shards,
                                   .mac = switch_.config().mac,
                                   .address = switch_.config().address};
  }
  return request;
}

Status Ports::OpenPort(PortId id) {
  Port& port = ports_[id];
  auto opened = port.source->Open(RequestFor(port.name));
  if (!opened.ok()) return opened.status();
  const std::string wrong = port.source->Wrong(port.name);
  if (!wrong.empty() && Reports()) spdlog::error("port {}", wrong);  // of one that has come back
  port.open = *std::move(opened);
  port.times_down = port.source->TimesDown(port.name);
  port.was_down = false;
  port.up = port.source->State(port.name).up;
  Watch(id);
  TellOfPort(id);
  return {};
}

void Ports::Watch(PortId id) {
  const auto receive = [this, id](Nanos now) { return Receive(id, now); };
  for (const int fd : ports_[id].open->fds()) loop_.Watch(fd, receive);
  if (ports_[id].open->polled())
    loop_.Poll(id, {.look = receive, .arm = [this, id] { return ports_[id].open->Arm(); }});
}

void Ports::Unwatch(const Port& port, PortId id) {
  for (const int fd : port.open->fds()) loop_.Unwatch(fd);
  if (port.open->polled()) loop_.EndPolling(id);
}

void Ports::LosePort(PortId port, const std::string& why) {
  Port& lost = ports_[port];
  EndRound();  // its ring may hold what others send
  if (Reports()) {
    spdlog::warn("port {} is lost: {}; waiting for it", lost.name, why);
    ++lost.times_lost;
  }
  Add(lost.open->counters(), &lost.closed);
  Unwatch(lost, port);
  lost.open.reset();
  lost.up = false;
  lost.waiting = false;
  TellOfPort(port);
}

void Ports::OnFrame(Nanos now, PortId port, const io::ReceivedFrame& frame) {
  if (frame.segment_bytes == 0) {
    if (trace_ != nullptr) trace_->OnFrame(now, port, frame.bytes);
    return switch_.OnFrame(now, port, frame.bytes, *this);
  }
  if (trace_ != nullptr) return TraceSuperFrame(now, port, frame);
  switch_.OnSuperFrame(now, port, frame.bytes, frame.segment_bytes, *this);
}

// A trace has what comes in beside what follows from it, packet by packet.
void Ports::TraceSuperFrame(Nanos now, PortId port, const io::ReceivedFrame& frame) {
  roce::SuperFrameView view;
  if (roce::SuperFrameView::Of(frame.bytes, frame.segment_bytes, &view) != roce::ParseResult::kOk)
    return switch_.OnSuperFrame(now, port, frame.bytes, frame.segment_bytes, *this);
  kept_ = {};
  for (size_t k = 0; k < view.packets(); ++k) {
    std::vector<uint8_t> alone(frame.bytes.size());
    alone.resize(view.Write(k, alone));
    if (!alone.empty()) OnFrame(now, port, {.bytes = alone});
  }
}

bool Ports::Receive(PortId port, Nanos now) {
  struct Batch {
    Ports* ports;
    PortId port;
    Nanos now;
  } batch{this, port, now};
  const auto handle = [](void* user, const io::ReceivedFrame& frame) {
    const Batch& b = *static_cast<const Batch*>(user);
    if (b.ports->ports_[b.port].open->keeps_received()) b.ports->kept_ = frame.bytes;
    b.ports->OnFrame(b.now, b.port, frame);
    b.ports->kept_ = {};
  };
  // It is watched, or polled, for room as well.
  if (ports_[port].waiting) ports_[port].open->sender().Resume();
  ports_[port].taken_from = true;
  const auto received = ports_[port].open->Receive(kPacketsPerRound, handle, &batch);
  if (!received.ok()) {
    LosePort(port, std::string(received.status().message()));
    return false;
  }
  taken_ += *received;
  if (taken_ >= kPacketsPerFlush) EndRound();
  return *received > 0;
}

void Ports::Flush() {
  for (Port& port : ports_) {
    if (port.open == nullptr) continue;
    port.open->sender().Flush();
    NoteWaiting(port);
  }
}

void Ports::EndRound() {
  taken_ = 0;
  Flush();
  for (Port& port : ports_) {
    if (std::exchange(port.taken_from, false) && port.open != nullptr) port.open->Release();
  }
  if (std::exchange(changed_, false)) on_change_();
}

void Ports::NoteWaiting(Port& port) {
  if (port.waiting == port.open->sender().waiting()) return;
  port.waiting = port.open->sender().waiting();
  if (!port.open->polled()) loop_.WatchWritable(port.open->fds().front(), port.waiting);
}

void Ports::NoteLink(PortId id, bool up) {
  Port& port = ports_[id];
  if (port.up == up) return;
  if (Reports() && port.up && !up && port.open != nullptr) {
    spdlog::warn("port {} is down", port.name);
    ++port.times_lost;
  } else if (Reports() && !port.up && up) {
    spdlog::info("port {} is up", port.name);
  }
  port.up = up;
  TellOfPort(id);
}

void Ports::TellOfPort(PortId id) {
  changed_ = true;
  const bool up = ports_[id].up && ports_[id].open != nullptr;
  // For one who asks what the shards see, the first of them answers.
  if (up && Reports()) ports_[id].rate_mbps = ports_[id].source->RateMbps(ports_[id].name);
  if (Reports()) switch_.OnPort(io::MonotonicNow(), id, up, *this);
}

void Ports::CheckInterfaces() {
  for (size_t i = 0; i < ports_.size(); ++i) {
    const auto id = static_cast<PortId>(i);
    Port& port = ports_[i];
    const io::InterfaceState state = port.source->State(port.name);
    if (port.open != nullptr && !state.exists) {
      LosePort(id, "the interface is gone");
    } else if (port.open != nullptr && state.mtu != port.open->mtu()) {
      LosePort(id, "its MTU has changed");
    }
    if (port.open == nullptr && state.exists) {
      const Status opened = OpenPort(id);
      if (opened.ok()) {
        if (Reports()) spdlog::info("port {} is back", port.name);
        port.why_closed.clear();
        continue;  // opening it looked at the link later than this has
      }
      std::string why(opened.message());
      if (Reports() && port.why_closed != why) spdlog::warn("{}; waiting for it", why);
      port.why_closed = std::move(why);
    }
    // The kernel says so by itself; to ask it takes long.
    if (port.source != &kernel_) NoteTimesDown(port, port.source->TimesDown(port.name));
    // Down and up again between two looks: who was heard there may be at another port now.
    if (std::exchange(port.was_down, false) && state.up) NoteLink(id, false);
    NoteLink(id, state.up);
  }
}

}  // namespace epic::daemon
