#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "check/node.h"
#include "check/snapshot.h"

namespace epic::check {
namespace {

class HostNode final : public Node {
 public:
  HostNode(const System& system, int node, Packets& packets, Blobs& blobs)
      : system_(system),
        node_(node),
        rank_(static_cast<uint32_t>(node - system.switches())),
        packets_(packets),
        blobs_(blobs),
        host_(system.HostOf(node)) {
    for (size_t call = 0; call < calls().size(); ++call) {
      buffers_.push_back({.send = system.SendBuffer(call, rank_), .recv = {}});
      buffers_.back().recv.resize(RecvBytes(calls()[call], rank_));
      expected_.push_back(system.Expected(call, rank_));
    }
  }

  void Load(std::string_view state) override {
    now_ = kLoadedAt;
    Reader reader(state, blobs_, now_);
    Snapshot::Host(reader, host_, buffers_);
    EPIC_CHECK(reader.at_end());
  }

  void LoadRelabelled(std::string_view state, std::span<const int> to) override {
    Load(state);
    for (Snapshot::Buffers& buffer : buffers_) system_.Relabel(to, buffer.recv);
  }

  void Save(std::string& out) override {
    Writer writer(out, blobs_, now_);
    Snapshot::Host<Writer>(writer, host_, buffers_);
  }

  Facts Look() const override {
    const Nanos deadline = host_.next_deadline();
    const bool failed = !host_.alive();
    const bool started = failed || host_.calls() == calls().size();
    return {.acknowledged = Snapshot::Acknowledged(host_.qp()),
            .failed = failed,
            .started = started,
            .done = started && host_.all_done(),
            .timer_in = failed || deadline == kNever ? kNever : std::max<Nanos>(deadline - now_, 0)};
  }

  void Deliver(PortId, const roce::Packet& packet, Effects& effects) override {
    // A NIC hands packets to the queue pair that they name.
    if (!host_.alive() || packet.bth.dest_qp != host_.qp().config().local_qpn) return;
    host_.OnPacket(now_, packet);
    Run(effects);
  }

  void Advance(Nanos time, Effects& effects) override {
    now_ += time;
    if (host_.alive() && host_.next_deadline() <= now_) Run(effects);
  }

  void Crash() override { EPIC_CHECK(false); }

  void Fail(Effects& effects) override {
    host_.Abort(now_);
    CheckCalls(effects);
  }

  void Start(Effects& effects) override {
    for (size_t call = 0; call < calls().size(); ++call) {
      std::ranges::fill(buffers_[call].recv, uint8_t{0xee});
      host_.Start(calls()[call], buffers_[call].send, buffers_[call].recv);
    }
    Run(effects);
  }

 private:
  class Sink final : public roce::PacketSink {
   public:
    Sink(HostNode& node, Effects& effects) : node_(node), effects_(effects) {}
    void Send(const roce::Packet& packet) override {
      effects_.sent.push_back({0, node_.packets_.Intern(packet)});
      if (!effects_.violation.empty()) return;
      int64_t named = 0;
      effects_.violation = node_.system_.Judge(node_.node_, 0, packet, &named);
      if (effects_.violation.empty() && named > Snapshot::Received(node_.host_.qp()))
        effects_.violation = fmt::format("acknowledges {} packets, which have not come", named);
    }

   private:
    HostNode& node_;
    Effects& effects_;
  };

  const std::vector<ControlHeader>& calls() const { return system_.config().calls; }

  void Run(Effects& effects) {
    Sink sink(*this, effects);
    do {
      host_.Poll(now_, sink);
    } while (host_.wants_poll() || host_.next_deadline() <= now_);
    CheckCalls(effects);
  }

  // What has ended has ended right; in an error only when the group has failed.
  void CheckCalls(Effects& effects) const {
    for (size_t call = 0; call < host_.calls() && effects.violation.empty(); ++call) {
      const sim::CallState state = host_.state(static_cast<int>(call));
      if (state == sim::CallState::kFailed && host_.alive())
        effects.violation = fmt::format("call {} ended in an error", call);
      if (state == sim::CallState::kDone && buffers_[call].recv != expected_[call])
        effects.violation = fmt::format("call {} ended with a wrong result", call);
    }
  }

  const System& system_;
  int node_;
  uint32_t rank_;
  Packets& packets_;
  Blobs& blobs_;
  sim::Host host_;
  std::vector<Snapshot::Buffers> buffers_;
  std::vector<std::vector<uint8_t>> expected_;
  Nanos now_ = kLoadedAt;
};

}  // namespace

std::unique_ptr<Node> MakeHostNode(const System& system, int node, Packets& packets, Blobs& blobs) {
  return std::make_unique<HostNode>(system, node, packets, blobs);
}

}  // namespace epic::check
