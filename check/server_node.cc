// A group's fallback server: its queue pair, and fallback/'s sums (docs/PROTOCOL-MODE-V.md, section 5).
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "check/node.h"
#include "check/snapshot.h"

namespace epic::check {
namespace {

class ServerNode final : public Node, public roce::Memory {
 public:
  ServerNode(const System& system, int node, Packets& packets, Blobs& blobs)
      : packets_(packets), blobs_(blobs), server_(system.ServerOf(node)) {
    PostReceives();
  }

  void Load(std::string_view state) override {
    now_ = kLoadedAt;
    Reader reader(state, blobs_, now_);
    Snapshot::Server(reader, server_);
    EPIC_CHECK(reader.at_end());
  }
  void LoadRelabelled(std::string_view, std::span<const int>) override { EPIC_CHECK(false); }
  void Save(std::string& out) override {
    Writer writer(out, blobs_, now_);
    Snapshot::Server<Writer>(writer, server_);
  }
  Facts Look() const override {
    const Nanos deadline = server_.qp.next_deadline();
    return {.timer_in = deadline == kNever ? kNever : std::max<Nanos>(deadline - now_, 0)};
  }

  void Deliver(PortId, const roce::Packet& packet, Effects& effects) override {
    server_.qp.OnPacket(now_, packet, *this);
    Run(effects);
  }
  void Advance(Nanos time, Effects& effects) override {
    now_ += time;
    if (server_.qp.next_deadline() <= now_) Run(effects);
  }
  void Wait(Nanos time) override { now_ += time; }
  void Start(Effects&) override { EPIC_CHECK(false); }
  void Crash() override { EPIC_CHECK(false); }
  void Fail(Effects&) override {}

  std::optional<std::span<uint8_t>> Map(roce::Access, uint32_t, uint64_t address, uint32_t length) override {
    return std::span(server_.memory)
        .subspan(address - std::bit_cast<uint64_t>(server_.memory.data()), length);
  }

 private:
  class Sink final : public roce::PacketSink {
   public:
    Sink(ServerNode& node, Effects& effects) : node_(node), effects_(effects) {}
    void Send(const roce::Packet& packet) override {
      effects_.sent.push_back({0, node_.packets_.Intern(packet)});
    }

   private:
    ServerNode& node_;
    Effects& effects_;
  };

  // All come to the same place, and are read as they come.
  void PostReceives() {
    roce::RecvWr wr;
    wr.sges.count = 1;
    wr.sges.sge[0] = {std::bit_cast<uint64_t>(server_.memory.data()), Server::kSlotBytes, 1};
    while (server_.qp.PostRecv(wr) == roce::PostResult::kOk) {
    }
  }

  void Run(Effects& effects) {
    Sink sink(*this, effects);
    do {
      server_.qp.Poll(now_, *this, sink);
      for (roce::Completion done; server_.qp.NextCompletion(&done);) Take(done, effects);
    } while (server_.qp.next_deadline() <= now_);
  }

  void Take(const roce::Completion& done, Effects& effects) {
    if (!done.is_recv() || !done.ok()) return;
    const std::string_view wrong = server_.sums.Take(done.imm, std::span(server_.memory).first(done.bytes));
    if (!wrong.empty() && !effects.breach)
      effects.breach = {Invariant::kPlace, fmt::format("is sent a message that has no place: {}", wrong)};
    for (fallback::Sums::Fetched sum; server_.sums.NextFetched(&sum);) Send(sum);
    std::ranges::fill(std::span(server_.memory).first(done.bytes), uint8_t{0});  // what has been read is gone
    PostReceives();
  }

  void Send(const fallback::Sums::Fetched& sum) {
    const size_t slot = 1 + server_.sent++ % (Server::kSlots - 1);
    const auto at = std::span(server_.memory).subspan(slot * Server::kSlotBytes, sum.bytes.size());
    std::ranges::copy(sum.bytes, at.begin());
    roce::SendWr wr{.opcode = roce::WrOpcode::kSendImm, .sges = {}, .inline_bytes = {}};
    wr.imm = sum.immediate;
    wr.sges.count = 1;
    wr.sges.sge[0] = {std::bit_cast<uint64_t>(at.data()), static_cast<uint32_t>(at.size()), 1};
    EPIC_CHECK(server_.qp.PostSend(wr) == roce::PostResult::kOk);
  }

  Packets& packets_;
  Blobs& blobs_;
  Server server_;
  Nanos now_ = kLoadedAt;
};

}  // namespace

std::unique_ptr<Node> MakeServerNode(const System& system, int node, Packets& packets, Blobs& blobs) {
  return std::make_unique<ServerNode>(system, node, packets, blobs);
}

}  // namespace epic::check
