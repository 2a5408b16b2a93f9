// Calls of switch.proto as they reach the engine, one after the other, with packets and time between them.
// Whatever they are:
//   - a call that is refused has one of the codes of switch.proto, a reason, and changes nothing that Dump
//   shows;
//   - what Install has accepted satisfies Validate, and takes the arena bytes that the reply says;
//   - when all groups are removed, the arena is whole again.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "incengine/daemon/control.h"
#include "tests/fuzz/message_testing.h"

namespace epic::daemon {
namespace {

const PortNames kPorts = {"p0", "p1", "p2"};
const std::string kMac("\x02\0\0\0\0\1", 6);
const fuzz::Words kWords = {"p0", "p1", "p2", "job", kMac, std::string("\x03\0\0\0\0\1", 6), "p9"};
constexpr size_t kArena = 1 << 18;
constexpr size_t kMaxSteps = 16;
constexpr Ipv4 kAddress{0x0a00ff01};

class NoFrames final : public engine::Effects {
 public:
  void Send(PortId port, const engine::OutPacket& out) override {
    EPIC_CHECK(port < kPorts.size());
    for (const uint8_t byte : out.packet.payload) sum_ = static_cast<uint8_t>(sum_ + byte);
  }
  void SetTimer(engine::TimerId, Nanos) override {}
  void Drop(PortId, engine::DropReason) override {}

 private:
  uint8_t sum_ = 0;  // of every byte, so that AddressSanitizer sees what would be sent
};

constexpr uint32_t kHosts = 0x0a000001;  // the first child's address

proto::EndpointConfig ValidEndpoint(uint32_t qpn, uint32_t number, bool is_host) {
  proto::EndpointConfig endpoint;
  endpoint.set_local_qpn(qpn);
  endpoint.set_remote_ip(kHosts + number);
  endpoint.set_remote_qpn(0x11);
  endpoint.set_remote_mac(kMac);
  endpoint.set_port(kPorts[number]);
  endpoint.set_in_psn(0xfffff0);
  endpoint.set_out_psn(5);
  endpoint.set_is_host(is_host);
  return endpoint;
}

class FrameCheck final : public engine::FrameSink {
 public:
  void Send(PortId port, std::span<const uint8_t> frame) override {
    EPIC_CHECK(port < kPorts.size() && !frame.empty());
  }
  void SetTimer(engine::TimerId, Nanos) override {}
};

class Trial {
 public:
  Trial(const uint8_t* data, size_t size) : in_(data, size) {}

  void Run() {
    for (size_t steps = 0; !in_.empty() && steps < kMaxSteps; ++steps) Step();
    const proto::EngineInfo info = control_.Describe();
    for (const uint64_t id : info.group_ids()) {
      proto::RemoveRequest request;
      request.set_group_id(id);
      request.set_generation(switch_.engine().groups().at(id).config.generation);
      EPIC_CHECK(control_.Remove(request).ok());
    }
    EPIC_CHECK(switch_.engine().groups().empty() && switch_.engine().arena().free_bytes() == kArena);
  }

 private:
  void Step() {
    switch (in_.Next() % 8) {
      case 0:
        return Check(Call<proto::RemoveRequest>(SomeGroup<proto::RemoveRequest>(), [this](const auto& r) {
          return control_.Remove(r).status();
        }));
      case 1:
        return Check(Call<proto::FailRequest>(SomeGroup<proto::FailRequest>(),
                                              [this](const auto& r) { return control_.Fail(r).status(); }));
      case 2:
        return Check(Call<proto::SetForwardingRequest>(
            ValidForwarding(), [this](const auto& r) { return control_.SetForwarding(r).status(); }));
      case 4:
        return Check(Call<proto::ProbeRequest>(ValidProbe(),
                                               [this](const auto& r) { return control_.Probe(r).status(); }));
      case 5:
        return Check(Call<proto::LocateRequest>(
            ValidLocate(), [this](const auto& r) { return control_.Locate(r).status(); }));
      case 3:
        Packet();
        shown_ = State();
        return;
      default:
        return Check(
            Call<proto::InstallRequest>(ValidInstall(), [this](const auto& r) { return Install(r); }));
    }
  }

  // What the switch has, as Dump shows it.
  std::string State() const { return control_.Dump().SerializeAsString(); }

  template <typename Request, typename Handler>
  Status Call(const Request& valid, const Handler& handler) {
    const auto request = fuzz::Received(in_, kWords, valid);
    return request ? handler(*request) : absl::OkStatus();
  }

  void Check(const Status& status) {
    std::string after = State();
    if (status.ok()) {
      shown_ = std::move(after);
      return;
    }
    constexpr std::array kCodes = {StatusCode::kInvalidArgument, StatusCode::kAlreadyExists,
                                   StatusCode::kResourceExhausted};
    EPIC_CHECK(std::ranges::find(kCodes, status.code()) != kCodes.end());
    EPIC_CHECK(!status.message().empty() && shown_ == after);
  }

  Status Install(const proto::InstallRequest& request) {
    const size_t free = switch_.engine().arena().free_bytes();
    const auto reply = control_.Install(request);
    if (!reply.ok()) return reply.status();
    if (reply->has_refusal()) {
      const proto::Refusal& refusal = reply->refusal();
      const bool is_memory = refusal.kind() == proto::REFUSAL_MEMORY;
      EPIC_CHECK(request.takes_refusal() && reply->arena_bytes() == 0);
      EPIC_CHECK(refusal.kind() != proto::REFUSAL_UNSPECIFIED && is_memory == (refusal.needed_bytes() != 0));
      return MakeStatus(is_memory ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument,
                        refusal.message());
    }
    const engine::Context& group = switch_.engine().groups().at(request.group().group_id());
    EPIC_CHECK(engine::Validate(group.config, kPorts.size()).ok());
    EPIC_CHECK(reply->arena_bytes() == group.arena_bytes);
    if (group.config.block == 0) {
      EPIC_CHECK(free - switch_.engine().arena().free_bytes() == engine::Arena::RoundUp(group.arena_bytes));
    }
    CheckArena();
    return absl::OkStatus();
  }

  // All that is taken is some group's own, or a block.
  void CheckArena() {
    const engine::Engine& engine = switch_.engine();
    size_t taken = 0;
    for (const auto& [id, group] : engine.groups()) {
      if (group.config.block == 0) taken += engine::Arena::RoundUp(group.arena_bytes);
    }
    for (const auto& [id, block] : engine.blocks()) taken += block.bytes;
    EPIC_CHECK(engine.arena().size() - engine.arena().free_bytes() == taken);
  }

  // A root or a leaf over two children, in any mode.
  proto::InstallRequest ValidInstall() {
    const uint8_t how = in_.Next();
    const uint32_t number = next_group_++;
    proto::InstallRequest request;
    proto::GroupConfig& group = *request.mutable_group();
    group.set_group_id(number);
    group.set_generation(1);
    group.set_name("job");
    group.set_mode(static_cast<proto::Mode>(1 + how % kModesOfOwnMemory.size()));
    group.set_path_mtu(256u << (how >> 2) % 5);
    group.set_message_packets(2);
    group.set_window_messages(2);
    group.set_slots(8);
    group.set_prompt_ns(1'000'000);
    if ((how & 0x60) == 0x60 && group.mode() != proto::MODE_TERMINATED) {
      group.set_block(1 + number % 2);
      group.set_block_bytes(size_t{8} * 2 * 4 * group.path_mtu());
    }
    group.set_reproducible((how & 0x80) != 0);
    group.set_world_size((how & 0x40) != 0 ? 4 : 2);
    for (uint32_t i = 0; i < 2; ++i) {
      *group.add_children() = ValidEndpoint(0x100 + 4 * number + i, i, true);
      proto::EndpointConfig& child = *group.mutable_children(static_cast<int>(i));
      child.add_ranks(i);
      if (kModesOfOwnMemory[how % kModesOfOwnMemory.size()].bears_hosts)
        child.set_borne_ip(kHosts + 1 - i);  // the other's
    }
    if (group.world_size() == 4) *group.mutable_parent() = ValidEndpoint(0x102 + 4 * number, 2, false);
    return request;
  }

  // Of a group that is there, if there is one.
  template <typename Request>
  Request SomeGroup() {
    Request request;
    const auto& groups = switch_.engine().groups();
    if (groups.empty()) return request;
    const auto it = std::next(groups.begin(), static_cast<std::ptrdiff_t>(in_.Next() % groups.size()));
    request.set_group_id(it->first);
    request.set_generation(it->second.config.generation);
    return request;
  }

  static proto::SetForwardingRequest ValidForwarding() {
    proto::SetForwardingRequest request;
    for (uint8_t i = 0; i < 3; ++i) {
      proto::ForwardingEntry& entry = *request.mutable_table()->add_entries();
      entry.set_mac(kMac.substr(0, 5) + static_cast<char>(i));
      entry.set_ip(0x0a000001u + i);
      entry.set_port(kPorts[i]);
      request.mutable_table()->add_flood_ports(kPorts[i]);
      proto::GroupPorts& group = *request.mutable_table()->add_groups();
      group.set_mac(std::string("\x01\x00\x5e\x40\x00", 5) + static_cast<char>(i));
      group.add_ports(kPorts[i]);
    }
    return request;
  }

  static proto::ProbeRequest ValidProbe() {
    proto::ProbeRequest request;
    request.set_ip(0x0a00ff02);
    request.set_mac(kMac);
    request.set_port(kPorts[1]);
    return request;
  }

  static proto::LocateRequest ValidLocate() {
    proto::LocateRequest request;
    request.set_ip(0x0a000001);
    return request;
  }

  // Something moves: a packet that is due at some endpoint of a group, or its timer.
  void Packet() {
    const auto& groups = switch_.engine().groups();
    if (groups.empty()) return;
    const auto& [id, group] =
        *std::next(groups.begin(), static_cast<std::ptrdiff_t>(in_.Next() % groups.size()));
    NoFrames effects;
    const uint8_t how = in_.Next();
    if (how < 0x20) {
      now_ += (1 + how) * kMillisecond * 10;
      return switch_.engine().OnTimer(now_, engine::TimerId{id}, effects);
    }
    const engine::EndpointConfig from = how < 0x40 && group.config.parent
                                            ? *group.config.parent
                                            : group.config.children[how % group.config.children.size()];
    roce::Packet packet;
    packet.src_ip = from.remote_ip;
    packet.dst_ip = kAddress;
    packet.bth.opcode = roce::Opcode{static_cast<uint8_t>(in_.Next() % 6)};
    packet.bth.dest_qp = from.local_qpn;
    packet.bth.psn = from.in_psn + in_.Next() / 64;
    const std::vector<uint8_t> payload((how & 1) != 0 ? group.config.path_mtu : in_.Next(), how);
    packet.payload = payload;
    switch_.engine().OnPacket(now_, engine::IngressPort(from), packet, effects);
  }

  FuzzInput in_;
  Nanos now_ = kSecond;
  uint32_t next_group_ = 1;
  FrameCheck frames_;
  engine::Switch switch_{
      {.address = kAddress, .mac = {2, 0, 0, 0, 0, 9}, .port_count = kPorts.size(), .arena_bytes = kArena}};
  SwitchControl control_{{"s1", "1.2.3", 77},
                         kPorts,
                         switch_,
                         [] {
                           std::vector<PortState> states;
                           for (const std::string& name : kPorts) states.push_back({.name = name});
                           return states;
                         },
                         nullptr,
                         [this](const engine::ProbeTarget& target) { return switch_.Probe(target, frames_); },
                         [this](Ipv4 ip) { return switch_.Locate(now_, ip, frames_); }};
  std::string shown_ = State();  // before the call
};

}  // namespace
}  // namespace epic::daemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::off);
  epic::daemon::Trial(data, size).Run();
  return 0;
}
