#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "check/node.h"
#include "check/snapshot.h"

namespace epic::check {
namespace {

class SwitchNode final : public Node {
 public:
  SwitchNode(const System& system, int node, Packets& packets, Blobs& blobs)
      : system_(system),
        node_(node),
        packets_(packets),
        blobs_(blobs),
        engine_(system.AddressOf(node), system.ports(node), ArenaOf(system, node)) {
    if (system.has_pool()) EPIC_CHECK(engine_.MakePool(system.PoolOf()).ok());
    Install();
  }

  // The state of a switch without the group is empty.
  void Load(std::string_view state) override {
    now_ = kLoadedAt;
    if (state.empty()) return Crash();
    if (!has_group()) Install();
    Reader reader(state, blobs_, now_);
    Snapshot::Blocks(reader, engine_);
    if (system_.has_pool()) Snapshot::Pool(reader, engine_);
    for (const auto& [id, context] : engine_.groups()) Snapshot::Engine(reader, engine_, id);
    EPIC_CHECK(reader.at_end());
  }

  void LoadRelabelled(std::string_view state, std::span<const int> to) override {
    Load(state);
    if (!has_group()) return;
    // The other's child of each of our ports.
    const int other = static_cast<int>(std::ranges::find(to, node_) - to.begin());
    std::vector<size_t> becomes;  // by the other's child
    for (const engine::EndpointConfig& child : system_.GroupOf(other).children) {
      const int node = to[static_cast<size_t>(system_.EdgeAt(other, child.port).child)];
      const auto& ours = context().children;
      becomes.push_back(static_cast<size_t>(
          std::ranges::find(ours, system_.AddressOf(node), [](const auto& c) { return c.config.remote_ip; }) -
          ours.begin()));
    }
    Snapshot::Relabel(engine_, kGroupId, becomes,
                      [&](std::span<uint8_t> payload) { system_.Relabel(to, payload); });
  }

  void Save(std::string& out) override {
    if (!has_group()) return;
    Writer writer(out, blobs_, now_);
    Snapshot::Blocks<Writer>(writer, engine_);
    if (system_.has_pool()) Snapshot::Pool<Writer>(writer, engine_);
    for (const auto& [id, context] : engine_.groups()) Snapshot::Engine<Writer>(writer, engine_, id);
  }

  Facts Look() const override {
    if (!has_group()) return {.failed = true};
    Facts facts{.heard = std::vector<Index>(system_.ports(node_), 0)};
    for (const auto& [id, ctx] : engine_.groups()) {
      for (const engine::Endpoint& child : ctx.children)
        facts.heard[child.config.port] = child.progress.down_acked_end;
      facts.failed = facts.failed || ctx.state == engine::GroupState::kStopped;
      if (ctx.timer_at != kNever)
        facts.timer_in = std::min(facts.timer_in, std::max<Nanos>(ctx.timer_at - now_, 0));
    }
    for (const auto& [id, block] : engine_.blocks()) facts.holds = facts.holds || block.holder.has_value();
    if (const auto& pool = engine_.pool()) {
      facts.holds = pool->spare() < pool->buffers();
      facts.summing = static_cast<uint8_t>(pool->Summing().size());
    }
    return facts;
  }

  void Deliver(PortId port, const roce::Packet& packet, Effects& effects) override {
    if (packet.dst_ip != system_.AddressOf(node_) && !engine_.Bears(packet)) return Forward(packet, effects);
    Sink sink(*this, effects);
    Act(GroupId(system_.EdgeAt(node_, port).group), effects,
        [&] { engine_.OnPacket(now_, port, packet, sink); });
  }

  void Advance(Nanos time, Effects& effects) override {
    now_ += time;
    Sink sink(*this, effects);
    for (const auto& [id, ctx] : engine_.groups()) {
      if (ctx.timer_at > now_) continue;
      Act(id, effects, [&, group = id] { engine_.OnTimer(now_, engine::TimerId{group}, sink); });
    }
  }

  void Wait(Nanos time) override { now_ += time; }

  void Start(Effects&) override { EPIC_CHECK(false); }
  void Crash() override {
    for (int group = 0; group < system_.groups(); ++group) engine_.Remove(GroupId(group), 0);
  }
  void Evict(uint32_t number, Effects& effects) override {
    Sink sink(*this, effects);
    Snapshot::Evict(engine_, number, now_, sink);
    CheckState(effects);
  }
  void Fail(Effects&) override {
    for (int group = 0; group < system_.groups(); ++group) engine_.Fail(GroupId(group), 0);
  }

 private:
  // Of all groups that do not share it, and of their pool.
  static size_t ArenaOf(const System& system, int node) {
    const size_t bytes = engine::ArenaBytes(system.GroupOf(node)) + 64;
    return system.has_pool() ? static_cast<size_t>(system.groups()) * bytes + system.PoolOf().bytes : bytes;
  }

  // As a daemon does with what is to a host below it and for none of its endpoints, as of a group that it has
  // lost.
  void Forward(const roce::Packet& packet, Effects& effects) {
    for (PortId port = 0; port < system_.ports(node_); ++port) {
      const Edge& edge = system_.EdgeAt(node_, port);
      if (edge.parent == node_ && system_.AddressOf(edge.child) == packet.dst_ip)
        return effects.sent.push_back({port, packets_.Intern(packet)});
    }
  }

  class Sink final : public engine::Effects {
   public:
    Sink(SwitchNode& node, check::Effects& effects) : node_(node), effects_(effects) {}
    void Send(PortId port, const engine::OutPacket& out) override {
      effects_.sent.push_back({port, node_.packets_.Intern(out.packet)});
      if (!effects_.breach) effects_.breach = node_.Judge(port, out.packet);
    }
    void SetTimer(engine::TimerId, Nanos) override {}  // the context knows it: timer_at
    void Drop(PortId, engine::DropReason) override {}

   private:
    SwitchNode& node_;
    check::Effects& effects_;
  };

  void Install() {
    for (int group = 0; group < system_.groups(); ++group)
      EPIC_CHECK(engine_.Install(system_.GroupOf(node_, group)).ok());
  }

  bool has_group() const { return engine_.groups().contains(kGroupId); }
  const engine::Context& context() const { return engine_.groups().at(kGroupId); }

  std::optional<Breach> Judge(PortId port, const roce::Packet& packet) const {
    if (packet.bth.opcode == roce::Opcode::kCnp) return {};
    if (system_.EdgeAt(node_, port).kind == Edge::Kind::kLeg)
      return {};  // the server says what is wrong there
    const int64_t taken = Accepted(port);
    if (packet.bth.opcode == roce::Opcode::kRcAck) return system_.JudgeAck(packet, taken);
    return system_.JudgeData(node_, port, packet, taken);
  }

  // A step of a group, and what is wrong after it.
  template <typename Step>
  void Act(uint64_t group, check::Effects& effects, const Step& step) {
    const std::optional<engine::Block> before = BlockNow();
    std::vector<uint8_t> there;
    if (before) there = Bytes(*before);
    step();
    CheckState(effects);
    if (!before || effects.breach || !system_.Judges(Invariant::kHolder)) return;
    const std::optional<engine::Block> after = BlockNow();
    if (before->holder == group || after->holder == group || Bytes(*before) == there) return;
    effects.breach = {Invariant::kHolder, fmt::format("lets group {} write into a block that it has not got",
                                                      group - kGroupId + 1)};
  }

  // Of groups that share one.
  std::optional<engine::Block> BlockNow() const {
    return engine_.blocks().empty() ? std::nullopt : std::optional(engine_.blocks().begin()->second);
  }
  std::vector<uint8_t> Bytes(const engine::Block& block) const {
    const auto bytes = engine_.arena().At(block.offset, block.bytes);
    return {bytes.begin(), bytes.end()};
  }

  // Packets of the direction towards this node that it has taken in order.
  int64_t Accepted(PortId port) const {
    const Edge& edge = system_.EdgeAt(node_, port);
    const engine::Context& ctx = engine_.groups().at(GroupId(edge.group));
    const bool from_parent = edge.child == node_;
    const auto child = static_cast<size_t>(
        std::ranges::find(ctx.children, port, [](const auto& c) { return c.config.port; }) -
        ctx.children.begin());
    if (ctx.terminated) {
      const auto& end = from_parent ? *ctx.terminated->parent : ctx.terminated->children[child];
      return Snapshot::Received(end.qp);
    }
    const Index end = from_parent ? ctx.results_end : ctx.children[child].progress.up_epsn;
    return std::ranges::count_if(from_parent ? edge.down : edge.up,
                                 [end](const Carried& carried) { return carried.index < end; });
  }

  void CheckState(check::Effects& effects) const {
    for (const auto& [id, ctx] : engine_.groups()) {
      if (!effects.breach) effects.breach = BreachOfHolder(ctx);
      if (!effects.breach) effects.breach = BreachOfState(ctx);
    }
  }

  // Who has a block is who the recorder names.
  std::optional<Breach> BreachOfHolder(const engine::Context& ctx) const {
    const std::optional<engine::Block> block = BlockNow();
    if (!block || !system_.Judges(Invariant::kHolder)) return {};
    const uint64_t group = ctx.config.group_id;
    if (ctx.hold.has_memory == (block->holder == group)) return {};
    return Breach{Invariant::kHolder,
                  fmt::format("{} group {} the block, and the recorder says otherwise",
                              ctx.hold.has_memory ? "gives" : "denies", group - kGroupId + 1)};
  }

  // Nothing is held that the buffers have no room for. (A switch that refuses equal calls says so in a
  // packet, which Judge sees.)
  std::optional<Breach> BreachOfState(const engine::Context& ctx) const {
    if (ctx.terminated) return {};
    if (system_.Judges(Invariant::kInvocations) &&
        static_cast<int64_t>(ctx.invocations.size()) > engine::kKeptInvocations) {
      return Breach{Invariant::kInvocations, fmt::format("has {} invocations open and keeps {}",
                                                         ctx.invocations.size(), engine::kKeptInvocations)};
    }
    if (!system_.Judges(Invariant::kSlots)) return {};
    // Slots are taken by data; index `due + slots` would have that of `due`, which is still being summed up.
    const Index due = ctx.is_root() ? ctx.results_end : ctx.parent.out.Next(ctx.up_sent);
    for (const engine::Endpoint& child : ctx.children) {
      const Index accepted = LastData(child);
      if (accepted < due + ctx.config.slots) continue;
      return Breach{Invariant::kSlots, fmt::format("has accepted index {} with {} slots while {} is due",
                                                   accepted, ctx.config.slots, due)};
    }
    return {};
  }

  // The last index of data that a child has had accepted, or -1.
  Index LastData(const engine::Endpoint& child) const {
    const std::vector<Carried>& up = system_.EdgeAt(node_, child.config.port).up;
    Index last = -1;
    for (const Carried& carried : up) {
      if (carried.index >= child.progress.up_epsn) break;
      if (carried.has_data) last = carried.index;
    }
    return last;
  }

  const System& system_;
  int node_;
  Packets& packets_;
  Blobs& blobs_;
  engine::Engine engine_;
  Nanos now_ = kLoadedAt;
};

}  // namespace

std::unique_ptr<Node> MakeSwitchNode(const System& system, int node, Packets& packets, Blobs& blobs) {
  return std::make_unique<SwitchNode>(system, node, packets, blobs);
}

}  // namespace epic::check
