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
        rank_(system.RankAt(node)),
        group_(system.GroupAt(node)),
        packets_(packets),
        blobs_(blobs),
        host_(system.HostOf(node)) {
    if (system.asks())
      host_.AddHosts(system.UnconnectedPathOf(node), [](const GroupCalls::Request&) { EPIC_CHECK(false); });
    for (size_t call = 0; call < calls().size(); ++call) {
      buffers_.emplace_back();
      buffers_.back().send = system.SendBuffer(call, rank_, group_);
      buffers_.back().recv.resize(RecvBytes(calls()[call], rank_));
      expected_.push_back(system.Expected(call, rank_, group_));
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
    Snapshot::Relabel(host_, [&](std::span<uint8_t> data) { system_.Relabel(to, data); });
  }

  void Save(std::string& out) override {
    Writer writer(out, blobs_, now_);
    Snapshot::Host<Writer>(writer, host_, buffers_);
  }

  Facts Look() const override {
    const Nanos deadline = host_.next_deadline();
    const bool failed = !host_.alive();
    const Answers answers = AnswersSoFar();
    const bool ends = answers.busy != 0 ? host_.core().idle() : host_.all_closed();
    size_t ended = 0;
    while (ended < host_.calls() && host_.state(static_cast<int>(ended)) != sim::CallState::kRunning) ++ended;
    return {.acknowledged = Snapshot::Acknowledged(host_.qp()),
            .received = Snapshot::Received(host_.qp()),
            .calls = host_.calls(),
            .ended = ended,
            .granted = answers.granted,
            .busy = answers.busy,
            .failed = failed,
            .may_call = MayCall(),
            .done = ends && (failed || !MayCallAgain()),
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

  void Wait(Nanos time) override { now_ += time; }

  void Crash() override { EPIC_CHECK(false); }

  void Fail(Effects& effects) override {
    host_.Abort(now_);
    CheckCalls(effects);
  }

  void Start(Effects& effects) override {
    do {
      const size_t call = host_.calls();
      std::ranges::fill(buffers_[call].recv, uint8_t{0xee});
      // What is small enough the library inlines by itself, and lets parts take turns.
      ControlHeader header = calls()[call];
      header.flags &= ~kInlinedFlag;
      header.turn = 0;
      host_.Start(header, buffers_[call].send, buffers_[call].recv, !system_.config().bounces);
    } while (system_.config().calls_made == CallsMade::kTogether && MayCall());
    Run(effects);
  }

 private:
  class Sink final : public roce::PacketSink {
   public:
    Sink(HostNode& node, Effects& effects) : node_(node), effects_(effects) {}
    void Send(const roce::Packet& packet) override {
      effects_.sent.push_back({0, node_.packets_.Intern(packet)});
      if (!effects_.breach) effects_.breach = Judge(packet);
    }

   private:
    std::optional<Breach> Judge(const roce::Packet& packet) const {
      if (packet.bth.opcode == roce::Opcode::kCnp) return {};
      const int64_t taken = Snapshot::Received(node_.host_.qp());
      if (packet.bth.opcode == roce::Opcode::kRcAck) return node_.system_.JudgeAck(packet, taken);
      return node_.system_.JudgeData(node_.node_, 0, packet, taken);
    }

    HostNode& node_;
    Effects& effects_;
  };

  const std::vector<ControlHeader>& calls() const { return system_.config().calls; }

  // Calls that have asked, and been answered so: a bit for each, by number.
  struct Answers {
    uint64_t granted = 0;
    uint64_t busy = 0;
  };
  Answers AnswersSoFar() const {
    Answers answers;
    for (size_t call = 0; system_.asks() && call < host_.calls(); ++call) {
      const bool has_ended = host_.state(static_cast<int>(call)) != sim::CallState::kRunning;
      const ControlHeader& header =
          has_ended ? calls()[call] : Snapshot::HeaderOf(host_.core(), CallNumber(call));
      const uint64_t bit = uint64_t{1} << call;
      if (CallBytes(header) > 0 && (has_ended || IsGranted(header))) answers.granted |= bit;
      if (IsByHosts(header)) answers.busy |= bit;
    }
    return answers;
  }

  // Of whom one has been told BUSY, his call goes between the hosts, and none follows here.
  bool MayCallAgain() const {
    return host_.alive() && host_.calls() < calls().size() && AnswersSoFar().busy == 0;
  }
  bool MayCall() const {
    return MayCallAgain() && (system_.config().calls_made != CallsMade::kAfterResults || host_.all_done());
  }

  void Run(Effects& effects) {
    Sink sink(*this, effects);
    do {
      if (system_.config().changes_windows && host_.alive()) host_.SetSendWindow(SendWindow());
      host_.Poll(now_, sink);
    } while (host_.wants_poll() || host_.next_deadline() <= now_);
    CheckCalls(effects);
  }

  // Follows from the state, so that it is explored as what the host does by itself.
  uint32_t SendWindow() const {
    const SystemConfig& config = system_.config();
    const int64_t messages = Snapshot::Acknowledged(host_.qp()) / config.message_packets;
    return static_cast<uint32_t>(config.window_messages - messages % config.window_messages);
  }

  // What has ended has ended right; in an error only when the group has failed.
  void CheckCalls(Effects& effects) const {
    host_.core().CheckInvariants();
    for (size_t call = 0; call < host_.calls() && !effects.breach; ++call) {
      const sim::CallState state = host_.state(static_cast<int>(call));
      if (state == sim::CallState::kFailed && host_.alive() && system_.Judges(Invariant::kOutcome))
        effects.breach = {Invariant::kOutcome, fmt::format("ended call {} in an error", call)};
      if (state == sim::CallState::kDone && buffers_[call].recv != expected_[call] &&
          system_.Judges(Invariant::kResult))
        effects.breach = {Invariant::kResult, fmt::format("ended call {} with a wrong result", call)};
    }
  }

  const System& system_;
  int node_;
  uint32_t rank_;
  int group_;
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
