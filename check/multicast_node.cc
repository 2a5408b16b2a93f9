// A host whose calls go by multicast, in the explored model. What each message must say is not computed:
// judged are results, how calls end, and that a Read finds what is whole.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "check/node.h"
#include "check/snapshot.h"
#include "commlib/core/rank_calls.h"

namespace epic::check {
namespace {

class MulticastNode final : public Node {
 public:
  MulticastNode(const System& system, int node, Packets& packets, Blobs& blobs)
      : system_(system), node_(node), packets_(packets), blobs_(blobs), host_(system, node) {
    for (size_t call = 0; call < calls().size(); ++call) {
      buffers_.push_back({.send = system.SendBuffer(call, rank()), .recv = {}});
      buffers_.back().recv.resize(RecvBytes(calls()[call], rank()));
      expected_.push_back(system.Expected(call, rank()));
    }
  }

  void Load(std::string_view state) override {
    Reader reader(state, blobs_, kLoadedAt);
    Snapshot::Multicast(reader, host_, buffers_);
    EPIC_CHECK(reader.at_end());
  }

  void LoadRelabelled(std::string_view, std::span<const int>) override { EPIC_CHECK(false); }

  void Save(std::string& out) override {
    Snapshot::Renumber(host_);
    Writer writer(out, blobs_, kLoadedAt);
    Snapshot::Multicast<Writer>(writer, host_, buffers_);
  }

  Facts Look() const override {
    const bool ended = host_.calls() == calls().size() && host_.ended().size() == host_.calls();
    return {.calls = host_.calls(),
            .ended = host_.ended().size(),
            .may_call = MayCall(),
            .done = ended && host_.is_released()};
  }

  void Deliver(PortId port, const roce::Packet& packet, Effects& effects) override {
    const MulticastHost::Send send = SendTo(effects);
    if (const auto request = ReadRequestOf(packet)) return Answer(port, *request, send, effects);
    host_.OnPacket(port, packet, send);
    Run(send, effects);
  }

  // Nothing here has a timer.
  void Advance(Nanos, Effects&) override {}
  void Wait(Nanos) override {}
  void Crash() override { EPIC_CHECK(false); }
  void Fail(Effects&) override { EPIC_CHECK(false); }

  void Start(Effects& effects) override {
    do {
      const ControlHeader& header = calls()[host_.calls()];
      Snapshot::Buffers& buffers = buffers_[host_.calls()];
      std::ranges::fill(buffers.recv, uint8_t{0xee});
      CopyOwnPart(header, rank(), buffers.send.data(), buffers.recv.data());
      host_.Start(buffers.send.data(), buffers.recv.data());
    } while (system_.config().calls_made == CallsMade::kTogether && MayCall());
    Run(SendTo(effects), effects);
  }

 private:
  uint32_t rank() const { return static_cast<uint32_t>(node_); }
  const std::vector<ControlHeader>& calls() const { return system_.config().calls; }

  MulticastHost::Send SendTo(Effects& effects) {
    return [this, &effects](PortId port, const roce::Packet& packet) {
      effects.sent.push_back({port, packets_.Intern(packet)});
    };
  }

  bool MayCall() const {
    if (host_.calls() == calls().size()) return false;
    return system_.config().calls_made != CallsMade::kAfterResults || host_.ended().size() == host_.calls();
  }

  // The NIC reads whatever the process does.
  void Answer(PortId port, const ReadRequest& request, const MulticastHost::Send& send, Effects& effects) {
    const size_t call = request.call;
    EPIC_CHECK(call < host_.calls());
    const bool is_root = calls()[call].collective == Collective::kBroadcast && calls()[call].root == rank();
    const std::vector<uint8_t>& memory = is_root ? buffers_[call].send : buffers_[call].recv;
    EPIC_CHECK(uint64_t{request.offset} + request.length <= memory.size());
    const auto found = std::span(memory).subspan(request.offset, request.length);
    const auto whole = std::span(expected_[call]).subspan(request.offset, request.length);
    host_.Answer(port, found, send);
    if (!system_.Judges(Invariant::kPayload)) return;
    if (call < host_.ended().size()) {
      effects.breach = {Invariant::kPayload, fmt::format("answers a Read of call {}, which has ended", call)};
    } else if (!std::ranges::equal(found, whole)) {
      effects.breach = {Invariant::kPayload,
                        fmt::format("answers a Read of call {} that finds no whole part", call)};
    }
  }

  void Run(const MulticastHost::Send& send, Effects& effects) {
    host_.Run(send);
    if (host_.failed() && system_.Judges(Invariant::kOutcome))
      effects.breach = {Invariant::kOutcome, fmt::format("ended call {} in an error", host_.ended().size())};
    for (size_t call = 0; call < host_.ended().size() && !effects.breach; ++call) {
      if (buffers_[call].recv != expected_[call] && system_.Judges(Invariant::kResult))
        effects.breach = {Invariant::kResult, fmt::format("ended call {} with a wrong result", call)};
    }
  }

  const System& system_;
  int node_;
  Packets& packets_;
  Blobs& blobs_;
  MulticastHost host_;
  std::vector<Snapshot::Buffers> buffers_;
  std::vector<std::vector<uint8_t>> expected_;
};

}  // namespace

std::unique_ptr<Node> MakeMulticastNode(const System& system, int node, Packets& packets, Blobs& blobs) {
  return std::make_unique<MulticastNode>(system, node, packets, blobs);
}

}  // namespace epic::check
