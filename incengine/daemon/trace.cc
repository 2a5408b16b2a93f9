#include "incengine/daemon/trace.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "roce/frame.h"
#include "roce/view.h"

namespace epic::daemon {
namespace {

constexpr int kVersion = 1;
constexpr size_t kBufferBytes = 256 << 10;
constexpr uint16_t kVlanIdMask = 0x0fff;

std::string Dotted(Ipv4 ip) {
  const uint32_t raw = Raw(ip);
  return fmt::format("{}.{}.{}.{}", raw >> 24, raw >> 16 & 0xff, raw >> 8 & 0xff, raw & 0xff);
}

void AppendHex(std::span<const uint8_t> bytes, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const uint8_t byte : bytes) {
    out->push_back(kDigits[byte >> 4]);
    out->push_back(kDigits[byte & 15]);
  }
}

nlohmann::ordered_json ToJson(const engine::EndpointConfig& endpoint) {
  nlohmann::ordered_json json = {{"local_qpn", Raw(endpoint.local_qpn)},
                                 {"remote_ip", Dotted(endpoint.remote_ip)},
                                 {"remote_qpn", Raw(endpoint.remote_qpn)},
                                 {"port", endpoint.port},
                                 {"ingress_port", engine::IngressPort(endpoint)},
                                 {"in_psn", endpoint.in_psn.raw()},
                                 {"out_psn", endpoint.out_psn.raw()},
                                 {"is_host", endpoint.is_host},
                                 {"ranks", endpoint.ranks}};
  if (endpoint.borne_ip != Ipv4{}) json["borne_ip"] = Dotted(endpoint.borne_ip);
  return json;
}

nlohmann::ordered_json ToJson(const engine::GroupConfig& config) {
  nlohmann::ordered_json group = {{"group_id", config.group_id},
                                  {"generation", config.generation},
                                  {"name", config.name},
                                  {"mode", static_cast<int>(config.mode)},
                                  {"world_size", config.world_size},
                                  {"path_mtu", config.path_mtu},
                                  {"message_packets", config.message_packets},
                                  {"window_messages", config.window_messages},
                                  {"slots", config.slots},
                                  {"reproducible", config.reproducible},
                                  {"accumulator_mtus", config.accumulator_mtus},
                                  {"prompt_ns", config.prompt_ns}};
  if (config.block != 0) {
    group["block"] = config.block;
    group["block_bytes"] = config.block_bytes;
  }
  // Only where calls are refused for it.
  if (engine::AbilitiesOf(config) != Abilities::All().Within(config.accumulator_mtus)) {
    group["types"] = nlohmann::ordered_json::array();
    for (const TypeInfo& row : kDataTypes) {
      if (config.abilities.Has(row.type)) group["types"].push_back(row.name);
    }
    group["operations"] = nlohmann::ordered_json::array();
    for (const OpInfo& row : kReduceOps) {
      if (config.abilities.Has(row.op)) group["operations"].push_back(row.name);
    }
  }
  if (config.parent) group["parent"] = ToJson(*config.parent);
  group["children"] = nlohmann::ordered_json::array();
  for (const engine::EndpointConfig& child : config.children) group["children"].push_back(ToJson(child));
  return group;
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

StatusOr<std::unique_ptr<Trace>> Trace::Open(const std::string& path, uint64_t limit_bytes,
                                             const std::string& name, const engine::SwitchConfig& sw) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("--trace {}: cannot be written: {}", path, std::strerror(errno)));
  }
  std::setvbuf(file, nullptr, _IONBF, 0);  // lines are collected here, so that the file ends with a whole one
  std::unique_ptr<Trace> trace(new Trace(file, path, limit_bytes, sw));
  trace->Line(
      0,
      Dump({{"event", "trace"}, {"version", kVersion}, {"switch", name}, {"address", Dotted(sw.address)}}));
  trace->Flush();
  if (trace->file_ == nullptr) {
    return MakeStatus(StatusCode::kInvalidArgument, fmt::format("--trace {}: cannot be written", path));
  }
  return StatusOr<std::unique_ptr<Trace>>(std::move(trace));
}

Trace::Trace(std::FILE* file, std::string path, uint64_t limit_bytes, const engine::SwitchConfig& sw)
    : file_(file), path_(std::move(path)), limit_(limit_bytes), switch_(sw) {
  buffer_.reserve(kBufferBytes);
}

Trace::~Trace() {
  Flush();
  if (file_ != nullptr) std::fclose(file_);
}

void Trace::Flush() {
  if (file_ == nullptr || buffer_.empty()) return;
  if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_) != buffer_.size()) {
    spdlog::error("trace {}: cannot be written: {}; it ends here", path_, std::strerror(errno));
    std::fclose(file_);
    file_ = nullptr;
  }
  buffer_.clear();
}

void Trace::Line(Nanos now, const std::string& line) {
  if (file_ == nullptr || cut_) return;
  written_ += line.size() + 1;
  cut_ = written_ > limit_;
  if (cut_) {
    buffer_ += fmt::format("{{\"event\":\"cut\",\"time\":{},\"limit\":{}}}", now, limit_);
    spdlog::warn("trace {}: {} bytes are full, it is cut", path_, limit_);
  } else {
    buffer_ += line;
  }
  buffer_ += '\n';
  if (cut_ || buffer_.size() >= kBufferBytes) Flush();
}

void Trace::Packet(Nanos now, const char* event, PortId port, const roce::Packet& packet) {
  if (file_ == nullptr || cut_) return;
  const roce::Bth& bth = packet.bth;
  const roce::OpcodeInfo& info = roce::Info(bth.opcode);
  std::string line;
  line.reserve(256 + 2 * packet.payload.size());
  fmt::format_to(std::back_inserter(line),
                 "{{\"event\":\"{}\",\"time\":{},\"port\":{},\"src\":\"{}\",\"dst\":\"{}\",\"tos\":{},"
                 "\"opcode\":{},\"pkey\":{},\"qpn\":{},\"psn\":{},\"ack_req\":{}",
                 event, now, port, Dotted(packet.src_ip.v4()), Dotted(packet.dst_ip.v4()), packet.tos,
                 static_cast<int>(bth.opcode), bth.pkey, Raw(bth.dest_qp), bth.psn.raw(), bth.ack_req);
  if (info.imm) fmt::format_to(std::back_inserter(line), ",\"imm\":{}", packet.imm);
  if (info.aeth) {
    fmt::format_to(std::back_inserter(line), ",\"syndrome\":{},\"msn\":{}", packet.aeth.syndrome,
                   packet.aeth.msn);
  }
  if (info.payload) {
    line += ",\"payload\":\"";
    AppendHex(packet.payload, &line);
    line += '"';
  }
  line += '}';
  Line(now, line);
}

void Trace::OnFrame(Nanos now, PortId port, std::span<const uint8_t> frame) {
  now_ = now;
  timer_.reset();
  // What Switch::OnFrame hands to the engine.
  const auto ethernet = roce::EthernetView::Of(frame);
  if (!ethernet || ethernet->src() == switch_.mac) return;
  if (ethernet->dst() != switch_.mac && bearing_.empty()) return;
  roce::FrameAddress address;
  roce::Packet packet;
  if (roce::ParseFrame(frame, &address, &packet) != roce::ParseResult::kOk) return;
  if ((address.vlan.value_or(0) & kVlanIdMask) != 0) return;
  if (!IsOurs(packet.dst_ip.v4(), packet.src_ip.v4(), &engine::EndpointConfig::local_qpn, packet.bth.dest_qp))
    return;
  Packet(now, "in", port, packet);
}

void Trace::OnTimer(Nanos now, engine::TimerId id) {
  now_ = now;
  timer_ = id;
}

void Trace::OnSend(PortId port, std::span<const uint8_t> frame) {
  const auto ethernet = roce::EthernetView::Of(frame);
  if (!ethernet || ethernet->src() != switch_.mac) return;
  roce::FrameAddress address;
  roce::Packet packet;
  if (roce::ParseFrame(frame, &address, &packet) != roce::ParseResult::kOk) return;
  if (!IsOurs(packet.src_ip.v4(), packet.dst_ip.v4(), &engine::EndpointConfig::remote_qpn,
              packet.bth.dest_qp))
    return;
  if (timer_) {
    Line(now_, fmt::format("{{\"event\":\"timer\",\"time\":{},\"group_id\":{}}}", now_,
                           static_cast<uint64_t>(*timer_)));
    timer_.reset();
  }
  Packet(now_, "out", port, packet);
}

bool Trace::IsOurs(Ipv4 local, Ipv4 remote, Qpn engine::EndpointConfig::*qpn, Qpn of_packet) const {
  if (local == switch_.address) return true;
  return std::ranges::any_of(bearing_, [&](const auto& group) {
    return std::ranges::any_of(group.second, [&](const engine::EndpointConfig& end) {
      return end.borne_ip == local && end.remote_ip == remote && end.*qpn == of_packet;
    });
  });
}

void Trace::OnInstall(Nanos now, const engine::GroupConfig& config) {
  for (const engine::EndpointConfig& child : config.children) {
    if (child.borne_ip != Ipv4{}) bearing_[config.group_id].push_back(child);
  }
  Line(now, Dump({{"event", "install"}, {"time", now}, {"group", ToJson(config)}}));
}

void Trace::OnRemove(Nanos now, uint64_t group_id, uint32_t generation) {
  bearing_.erase(group_id);
  Line(now, Dump({{"event", "remove"}, {"time", now}, {"group_id", group_id}, {"generation", generation}}));
}

void Trace::OnFail(Nanos now, uint64_t group_id, uint32_t generation) {
  Line(now, Dump({{"event", "fail"}, {"time", now}, {"group_id", group_id}, {"generation", generation}}));
}

}  // namespace epic::daemon
