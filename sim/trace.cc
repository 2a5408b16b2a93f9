#include "sim/trace.h"

#include <fmt/format.h>

#include "protocol/collectives.h"
#include "protocol/number_blocks.h"

namespace epic::sim {
namespace {

std::string NodeName(const World& world, int node) {
  const int first_host = world.node_of_host(0);
  return node < first_host ? fmt::format("switch{}", node) : fmt::format("host{}", node - first_host);
}

const char* OpcodeName(roce::Opcode opcode) {
  switch (opcode) {
    case roce::Opcode::kRcSendFirst:
      return "send_first";
    case roce::Opcode::kRcSendMiddle:
      return "send_middle";
    case roce::Opcode::kRcSendLast:
      return "send_last";
    case roce::Opcode::kRcSendLastImm:
      return "send_last_imm";
    case roce::Opcode::kRcSendOnly:
      return "send_only";
    case roce::Opcode::kRcSendOnlyImm:
      return "send_only_imm";
    case roce::Opcode::kRcAck:
      return "ack";
    case roce::Opcode::kRcWriteFirst:
      return "write_first";
    case roce::Opcode::kRcWriteMiddle:
      return "write_middle";
    case roce::Opcode::kRcWriteLast:
      return "write_last";
    case roce::Opcode::kRcWriteLastImm:
      return "write_last_imm";
    case roce::Opcode::kRcWriteOnly:
      return "write_only";
    case roce::Opcode::kRcWriteOnlyImm:
      return "write_only_imm";
    case roce::Opcode::kRcReadRequest:
      return "read_request";
    case roce::Opcode::kRcReadResponseFirst:
      return "read_response_first";
    case roce::Opcode::kRcReadResponseMiddle:
      return "read_response_middle";
    case roce::Opcode::kRcReadResponseLast:
      return "read_response_last";
    case roce::Opcode::kRcReadResponseOnly:
      return "read_response_only";
    default:
      return "other";
  }
}

// What an acknowledgement says.
const char* SyndromeName(uint8_t syndrome) {
  if (roce::IsAck(syndrome)) return "ack";
  if (roce::IsRnrNak(syndrome)) return "rnr_nak";
  return roce::IsNak(syndrome) ? "nak" : "other";
}

}  // namespace

const char* Name(Fate fate) {
  switch (fate) {
    case Fate::kDeliver:
      return "deliver";
    case Fate::kDrop:
      return "lose";
    case Fate::kDuplicate:
      return "repeat";
    case Fate::kDelay:
      return "delay";
    case Fate::kCorrupt:
      return "corrupt";
    case Fate::kCut:
      return "cut";
    case Fate::kHold:
      return "hold";
    case Fate::kLinger:
      return "linger";
    case Fate::kFlip:
      return "flip";
  }
  return "other";
}

void Trace::Packet(const World& world, std::string_view event, const LinkPacket& packet,
                   std::string_view fate) {
  const roce::Packet& p = *packet.packet;
  const char* const opcode =
      p.bth.opcode == roce::Opcode::kRcAck ? SyndromeName(p.aeth.syndrome) : OpcodeName(p.bth.opcode);
  sink_(fmt::format(
      R"({{"time":{},"event":"{}","packet":{},"frame":{},"from":"{}","to":"{}","group":{},"opcode":"{}",)"
      R"("psn":{},"qpn":{},"bytes":{},"fate":"{}"}})",
      world.now(), event, packet.number, packet.frame, NodeName(world, packet.from),
      NodeName(world, packet.to), packet.group, opcode, p.bth.psn.raw(), Raw(p.bth.dest_qp), p.payload.size(),
      fate));
}

void Trace::Run(std::string_view replay_line) {
  if (on()) sink_(fmt::format(R"({{"time":0,"event":"run","replay":"{}"}})", replay_line));
}

void Trace::Sent(const World& world, const LinkPacket& packet, Fate fate) {
  if (on()) Packet(world, "sent", packet, Name(fate));
}

void Trace::Arrived(const World& world, const LinkPacket& packet, bool heard) {
  if (on()) Packet(world, "arrived", packet, heard ? "heard" : "unheard");
}

void Trace::Started(Nanos now, int group, int rank, int call, const ControlHeader& header) {
  if (!on()) return;
  sink_(fmt::format(
      R"({{"time":{},"event":"started","group":{},"rank":{},"call":{},"collective":"{}","root":{},"count":{}}})",
      now, group, rank, call, NameOf(header.collective), header.root, CalledElements(header)));
}

void Trace::Ended(Nanos now, int group, int rank, int call, std::string_view how) {
  if (!on()) return;
  sink_(fmt::format(R"({{"time":{},"event":"ended","group":{},"rank":{},"call":{},"how":"{}"}})", now, group,
                    rank, call, how));
}

void Trace::Stopped(Nanos now, int host, Nanos until) {
  if (on())
    sink_(fmt::format(R"({{"time":{},"event":"stopped","host":"host{}","until":{}}})", now, host, until));
}

void Trace::Crashed(const World& world, int node, Nanos until) {
  if (!on()) return;
  sink_(fmt::format(R"({{"time":{},"event":"crashed","node":"{}","until":{}}})", world.now(),
                    NodeName(world, node), until));
}

void Trace::Restarted(const World& world, int node) {
  if (!on()) return;
  sink_(fmt::format(R"({{"time":{},"event":"restarted","node":"{}"}})", world.now(), NodeName(world, node)));
}

void Trace::GroupFailed(Nanos now, int group, std::string_view why) {
  if (on())
    sink_(fmt::format(R"({{"time":{},"event":"group_failed","group":{},"why":"{}"}})", now, group, why));
}

void Trace::Aborted(Nanos now, int group, int rank, std::string_view why) {
  if (!on()) return;
  sink_(fmt::format(R"({{"time":{},"event":"aborted","group":{},"rank":{},"why":"{}"}})", now, group, rank,
                    why));
}

void Trace::GroupMade(Nanos now, int group, int instead_of, int qpns) {
  if (!on()) return;
  sink_(fmt::format(R"({{"time":{},"event":"group_made","group":{},"instead_of":{},"qpns":{}}})", now, group,
                    instead_of, qpns));
}

void Trace::FaultsOff(Nanos now) {
  if (on()) sink_(fmt::format(R"({{"time":{},"event":"faults_off"}})", now));
}

void Trace::Verdict(Nanos now, std::string_view verdict) {
  if (on()) sink_(fmt::format(R"({{"time":{},"event":"verdict","verdict":"{}"}})", now, verdict));
}

}  // namespace epic::sim
