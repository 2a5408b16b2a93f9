#include "check/conform/trace_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace epic::conform {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

// What is wrong with a line; does not leave this file.
class BadLine : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

Ipv4 ToIp(const std::string& text) {
  unsigned byte[4];
  char after;
  if (std::sscanf(text.c_str(), "%3u.%3u.%3u.%3u%c", &byte[0], &byte[1], &byte[2], &byte[3], &after) != 4 ||
      (byte[0] | byte[1] | byte[2] | byte[3]) > 255) {
    throw BadLine(fmt::format("\"{}\" is no IPv4 address", text));
  }
  return Ipv4{byte[0] << 24 | byte[1] << 16 | byte[2] << 8 | byte[3]};
}

uint8_t Nibble(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<uint8_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<uint8_t>(digit - 'a' + 10);
  throw BadLine(fmt::format("'{}' is no hexadecimal digit", digit));
}

PacketBytes ToBytes(const std::string& digits) {
  if (digits.size() % 2 != 0) throw BadLine("the payload ends within a byte");
  PacketBytes bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(Nibble(digits[i]) << 4 | Nibble(digits[i + 1])));
  }
  return bytes;
}

engine::EndpointConfig ToEndpoint(const Json& json) {
  return {.local_qpn = Qpn{json.at("local_qpn").get<uint32_t>()},
          .remote_ip = ToIp(json.at("remote_ip")),
          .remote_qpn = Qpn{json.at("remote_qpn").get<uint32_t>()},
          .borne_ip = json.contains("borne_ip") ? ToIp(json.at("borne_ip")) : Ipv4{},
          .port = json.at("port").get<PortId>(),
          .ingress_port = json.value("ingress_port", kNoPort),
          .in_psn = Psn(json.at("in_psn").get<uint32_t>()),
          .out_psn = Psn(json.at("out_psn").get<uint32_t>()),
          .is_host = json.at("is_host").get<bool>(),
          .ranks = json.at("ranks").get<std::vector<uint32_t>>()};
}

engine::GroupConfig ToGroup(const Json& json) {
  engine::GroupConfig config;
  config.group_id = json.at("group_id");
  config.generation = json.at("generation");
  config.name = json.at("name");
  const int number = json.at("mode");
  const auto mode = ModeOfNumber(number);
  if (!mode) throw BadLine(fmt::format("there is no mode {}", number));
  config.mode = *mode;
  if (IsInPool(*mode)) {
    throw BadLine(
        fmt::format("group \"{}\" has its payloads in a pool, whose rules are not known here", config.name));
  }
  config.world_size = json.at("world_size");
  config.path_mtu = json.at("path_mtu");
  config.message_packets = json.at("message_packets");
  config.window_messages = json.at("window_messages");
  config.slots = json.at("slots");
  config.reproducible = json.at("reproducible");
  // Earlier versions have groups that are narrow or not, or all of one kind.
  config.accumulator_mtus = json.value("accumulator_mtus", json.value("narrow", false) ? 1u : 2u);
  config.prompt_ns = json.at("prompt_ns");
  if (json.contains("block")) {
    throw BadLine(fmt::format(
        "group \"{}\" has memory that other groups own, too, whose rules are not known here", config.name));
  }
  if (json.contains("types")) {
    config.abilities = {};
    for (const std::string type : json.at("types"))
      config.abilities.Add(TypeNamed(type).value_or(DataType::kNone));
    for (const std::string op : json.at("operations"))
      config.abilities.Add(OpNamed(op).value_or(ReduceOp::kNone));
  }
  if (json.contains("parent")) config.parent = ToEndpoint(json.at("parent"));
  for (const Json& child : json.at("children")) config.children.push_back(ToEndpoint(child));
  if (config.path_mtu == 0 || config.message_packets == 0) throw BadLine("path_mtu or message_packets is 0");
  return config;
}

// The payload is put into *bytes, which the packet views.
roce::Packet ToPacket(const Json& json, PacketBytes* bytes) {
  roce::Packet packet;
  packet.src_ip = ToIp(json.at("src"));
  packet.dst_ip = ToIp(json.at("dst"));
  packet.tos = json.at("tos");
  packet.bth.opcode = static_cast<roce::Opcode>(json.at("opcode").get<uint8_t>());
  packet.bth.pkey = json.at("pkey");
  packet.bth.dest_qp = Qpn{json.at("qpn").get<uint32_t>()};
  packet.bth.psn = Psn(json.at("psn").get<uint32_t>());
  packet.bth.ack_req = json.at("ack_req");
  packet.imm = json.value("imm", 0u);
  packet.aeth = {.syndrome = json.value("syndrome", uint8_t{0}), .msn = json.value("msn", 0u)};
  *bytes = ToBytes(json.value("payload", std::string()));
  packet.payload = *bytes;
  return packet;
}

class Reader {
 public:
  void Line(uint64_t number, const std::string& text) {
    const Json json = Json::parse(text);
    const std::string event = json.at("event");
    if (!monitor_) return Header(event, json);
    if (result_.cut) throw BadLine("there is something after the line that says that the trace was cut");
    PacketBytes bytes;
    if (event == "in") {
      ++result_.steps;
      monitor_->OnPacketIn(json.at("port"), ToPacket(json, &bytes));
    } else if (event == "out") {
      monitor_->OnPacketOut(number, json.at("port"), ToPacket(json, &bytes));
    } else if (event == "timer") {
      ++result_.steps;
      monitor_->OnTimer(json.at("group_id"));
    } else if (event == "install") {
      ++result_.groups;
      monitor_->OnInstall(ToGroup(json.at("group")));
    } else if (event == "remove") {
      monitor_->OnRemove(json.at("group_id"), json.at("generation"));
    } else if (event == "fail") {
      monitor_->OnFail(json.at("group_id"), json.at("generation"));
    } else if (event == "cut") {
      result_.cut = true;
    } else {
      throw BadLine(fmt::format("there is no event \"{}\"", event));
    }
  }

  TraceResult Result(uint64_t lines) {
    if (!monitor_) throw BadLine("the trace is empty");
    result_.lines = lines;
    result_.verdict = monitor_->verdict();
    return result_;
  }

 private:
  void Header(const std::string& event, const Json& json) {
    if (event != "trace") throw BadLine("a trace begins with the event \"trace\"");
    const int version = json.at("version");
    if (version != kVersion) throw BadLine(fmt::format("version {} is not {}", version, kVersion));
    result_.switch_name = json.at("switch");
    monitor_.emplace(ToIp(json.at("address")));
  }

  std::optional<Monitor> monitor_;
  TraceResult result_;
};

}  // namespace

StatusOr<TraceResult> JudgeTrace(std::istream& trace) {
  Reader reader;
  uint64_t number = 0;
  try {
    for (std::string text; std::getline(trace, text);) reader.Line(++number, text);
    return reader.Result(number);
  } catch (const std::exception& error) {  // ours, and those of the JSON library
    return MakeStatus(StatusCode::kInvalidArgument, fmt::format("line {}: {}", number, error.what()));
  }
}

}  // namespace epic::conform
