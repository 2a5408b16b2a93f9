// A host of a system without switches, in the explored model.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "check/node.h"
#include "check/snapshot.h"

namespace epic::check {
namespace {

class PathNode final : public Node {
 public:
  PathNode(const System& system, int node, Packets& packets, Blobs& blobs)
      : system_(system), node_(node), packets_(packets), blobs_(blobs), host_(system, node) {
    const auto rank = static_cast<uint32_t>(node);
    for (size_t call = 0; call < system.config().calls.size(); ++call) {
      buffers_.push_back({.send = system.SendBuffer(call, rank), .recv = {}});
      buffers_.back().recv.resize(RecvBytes(system.CallOf(call, rank), rank));
      expected_.push_back(system.Expected(call, rank));
    }
  }

  void Load(std::string_view state) override {
    now_ = kLoadedAt;
    Reader reader(state, blobs_, now_);
    Snapshot::Path(reader, host_, buffers_);
    EPIC_CHECK(reader.at_end());
  }

  void LoadRelabelled(std::string_view, std::span<const int>) override { EPIC_CHECK(false); }

  void Save(std::string& out) override {
    Writer writer(out, blobs_, now_);
    Snapshot::Path<Writer>(writer, host_, buffers_);
  }

  Facts Look() const override {
    const Nanos deadline = host_.next_deadline();
    const bool called = host_.has_left() || host_.calls() == buffers_.size();
    Facts facts{.calls = host_.calls(),
                .ended = host_.ended().size(),
                .failed = host_.has_left(),
                .may_call = MayCall(),
                .done = called && host_.ended().size() == host_.calls() && host_.is_released(),
                .timer_in = deadline == kNever ? kNever : std::max<Nanos>(deadline - now_, 0)};
    // Of queue pairs that are closed nothing is saved.
    if (host_.has_left()) return facts;
    for (const roce::QueuePair& qp : host_.queue_pairs()) {
      facts.acknowledged += Snapshot::Acknowledged(qp);
      facts.received += Snapshot::Received(qp);
    }
    return facts;
  }

  void Deliver(PortId port, const roce::Packet& packet, Effects& effects) override {
    if (host_.has_left()) return;
    Sink sink(*this, effects);
    host_.OnPacket(now_, port, packet, sink);
    Run(sink, effects);
  }

  void Advance(Nanos time, Effects& effects) override {
    now_ += time;
    if (host_.next_deadline() > now_) return;
    Sink sink(*this, effects);
    Run(sink, effects);
  }

  void Wait(Nanos time) override { now_ += time; }

  void Crash() override { EPIC_CHECK(false); }

  void Fail(Effects& effects) override {
    host_.Abort();
    CheckCalls(effects);
  }

  void Start(Effects& effects) override {
    do {
      Snapshot::Buffers& buffers = buffers_[host_.calls()];
      std::ranges::fill(buffers.recv, uint8_t{0xee});
      host_.Start(buffers.send.data(), buffers.recv.data());
    } while (system_.config().calls_made == CallsMade::kTogether && MayCall());
    Sink sink(*this, effects);
    Run(sink, effects);
  }

 private:
  class Sink final : public roce::PacketSink {
   public:
    Sink(PathNode& node, Effects& effects) : node_(node), effects_(effects) {}
    void Send(const roce::Packet& packet) override {
      const PortId port = node_.PortTo(packet.dst_ip);
      effects_.sent.push_back({port, node_.packets_.Intern(packet)});
      if (!effects_.breach) effects_.breach = Judge(port, packet);
    }

   private:
    std::optional<Breach> Judge(PortId port, const roce::Packet& packet) const {
      if (packet.bth.opcode == roce::Opcode::kCnp) return {};
      const int64_t taken = Snapshot::Received(node_.host_.queue_pairs()[port]);
      if (packet.bth.opcode == roce::Opcode::kRcAck) return node_.system_.JudgeAck(packet, taken);
      return node_.system_.JudgeData(node_.node_, port, packet, taken);
    }

    PathNode& node_;
    Effects& effects_;
  };

  PortId PortTo(Ip address) const {
    PortId port = 0;
    for (;; ++port) {
      const Edge& edge = system_.EdgeAt(node_, port);
      if (system_.AddressOf(edge.child == node_ ? edge.parent : edge.child) == address) return port;
    }
  }

  bool MayCall() const {
    if (host_.has_left() || host_.calls() == buffers_.size()) return false;
    return system_.config().calls_made != CallsMade::kAfterResults || host_.ended().size() == host_.calls();
  }

  void Run(Sink& sink, Effects& effects) {
    host_.Run(now_, sink);
    CheckCalls(effects);
  }

  void CheckCalls(Effects& effects) const {
    for (size_t call = 0; call < host_.ended().size() && !effects.breach; ++call) {
      const Finished& ended = host_.ended()[call];
      if (system_.Judges(Invariant::kOutcome) && !IsOutcome(call, ended)) {
        effects.breach = {Invariant::kOutcome, fmt::format("ended call {} {}", call, HowEnded(ended))};
      } else if (ended.outcome == Outcome::kOk && !system_.RefusalOf(call) &&
                 buffers_[call].recv != expected_[call] && system_.Judges(Invariant::kResult)) {
        effects.breach = {Invariant::kResult, fmt::format("ended call {} with a wrong result", call)};
      }
    }
  }

  // Where one rank's call differs, every rank's ends with the same words, or is ended by the control plane,
  // which has them from a rank that was refused.
  bool IsOutcome(size_t call, const Finished& ended) const {
    const auto refusal = system_.RefusalOf(call);
    if (!refusal) return ended.outcome == Outcome::kOk;
    return ended.outcome == Outcome::kAborted ||
           (ended.outcome == Outcome::kRefused && ended.reply == *refusal);
  }

  static std::string HowEnded(const Finished& ended) {
    switch (ended.outcome) {
      case Outcome::kOk:
        return "well, though another rank's differs";
      case Outcome::kRefused:
        return "in a refusal with other words than the ranks' calls say";
      default:
        return "in an error";
    }
  }

  const System& system_;
  int node_;
  Packets& packets_;
  Blobs& blobs_;
  PathHost host_;
  std::vector<Snapshot::Buffers> buffers_;
  std::vector<std::vector<uint8_t>> expected_;
  Nanos now_ = kLoadedAt;
};

}  // namespace

std::unique_ptr<Node> MakePathNode(const System& system, int node, Packets& packets, Blobs& blobs) {
  return std::make_unique<PathNode>(system, node, packets, blobs);
}

}  // namespace epic::check
