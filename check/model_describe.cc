// What actions do, in words.
#include <fmt/format.h>

#include <array>

#include "check/model.h"
#include "check/multicast_host.h"

namespace epic::check {
namespace {

const char* SyndromeName(uint8_t syndrome) {
  return roce::IsAck(syndrome) ? "ack" : roce::IsRnrNak(syndrome) ? "rnr_nak" : "nak";
}

// Of a call by multicast (docs/PROTOCOL-MULTICAST.md, section 5).
std::string MessageName(const Edge& edge, const roce::Packet& p) {
  if (const auto asked = ReadRequestOf(p))
    return fmt::format("Read of bytes {} to {} of call {}", asked->offset, asked->offset + asked->length - 1,
                       asked->call);
  switch (p.bth.opcode) {
    case roce::Opcode::kUdSendOnlyImm:
      return fmt::format("datagram of call {}, chunk {}", p.imm >> 16, p.imm & 0xffff);
    case roce::Opcode::kRcReadResponseOnly:
      return "response of a Read";
    case roce::Opcode::kRcAck:
      return "acknowledgement";
    default:
      break;
  }
  if (edge.kind == Edge::Kind::kOnly) return "message of the exchange";
  constexpr std::array kWords = {"", "TOKEN", "WHOLE", "DONE"};
  const uint8_t kind = p.payload.front();
  return fmt::format("{}({})", kind < kWords.size() ? kWords[kind] : "?", p.payload[2]);
}

// On an edge by which a switch reads and writes.
std::string PulledName(const roce::Packet& p) {
  const roce::OpcodeInfo& info = roce::Info(p.bth.opcode);
  const std::string where =
      info.reth ? fmt::format(" of {} bytes at {:#x}", p.reth.dma_length, p.reth.virtual_address)
                : std::string();
  if (p.bth.opcode == roce::Opcode::kRcReadRequest) return "Read" + where;
  if (p.bth.opcode >= roce::Opcode::kRcReadResponseFirst && p.bth.opcode <= roce::Opcode::kRcReadResponseOnly)
    return "response of a Read";
  if (p.bth.opcode >= roce::Opcode::kRcWriteFirst && p.bth.opcode <= roce::Opcode::kRcWriteOnly)
    return "Write" + where;
  return "control";
}

}  // namespace

std::string Model::Describe(std::span<const Word> state, Action action) const {
  switch (action.kind) {
    case ActionKind::kStart:
      return fmt::format("{} {}", system().NodeName(action.object),
                         system().config().calls_made == CallsMade::kTogether
                             ? "makes its calls"
                             : fmt::format("makes call {}", FactsOf(state, action.object).calls));
    case ActionKind::kTime:
      return "time passes until the next timer";
    case ActionKind::kTimeout:
      return fmt::format("{}: timer, early", system().NodeName(action.object));
    case ActionKind::kLate:
      return fmt::format("time passes until the next timer, and that of {} is late",
                         system().NodeName(action.object));
    case ActionKind::kRun:
      return fmt::format("{}: timer, late", system().NodeName(action.object));
    case ActionKind::kCrash:
      return fmt::format("{} crashes", system().NodeName(action.object));
    case ActionKind::kEvict:
      return fmt::format("a sum at {} loses its place, the {}. of those that may",
                         system().NodeName(action.object), action.place + 1);
    case ActionKind::kFail:
      return fmt::format("the control plane ends the group at {}", system().NodeName(action.object));
    case ActionKind::kRegroup:
      return "a new group";
    default:
      break;
  }
  constexpr std::array kVerbs = {"deliver", "lose", "repeat", "swap with the next"};
  const Edge& edge = system().edges()[action.object / 2];
  const bool up = action.object % 2 == 0;
  const roce::Packet& p = packets_[contents_.At(state[ChannelWord(action.object)], action.place)];
  const int32_t at = p.bth.psn.DistanceFrom(Psn(system().config().first_psn));
  const bool stray = p.bth.dest_qp != SystemOf(state).QpnAtPeer(up ? edge.child : edge.parent, edge);
  const bool shared = system().groups() > 1 && !system().is_host(edge.child);
  const std::string head = fmt::format(
      "{} {} -> {}: {}{}", kVerbs[static_cast<size_t>(action.kind)],
      system().NodeName(up ? edge.child : edge.parent), system().NodeName(up ? edge.parent : edge.child),
      stray ? "of an earlier group, " : "", shared ? fmt::format("of group {}, ", edge.group + 1) : "");
  if (system().by_multicast()) return head + MessageName(edge, p);
  if (p.bth.opcode == roce::Opcode::kCnp) return head + "cnp";
  if (p.bth.opcode == roce::Opcode::kRcAck)
    return head + fmt::format("{} of packet {}", SyndromeName(p.aeth.syndrome), at);
  if (system().IsPulled(edge)) return head + fmt::format("packet {}, {}", at, PulledName(p));
  const std::vector<Carried>& carried = up ? edge.up : edge.down;
  const bool known = at >= 0 && at < static_cast<int32_t>(carried.size());
  // Between the hosts every message has immediate data.
  // As its reply says.
  const bool busy = known && std::ranges::equal(p.payload, carried[static_cast<size_t>(at)].busy);
  const bool asks = known && system().groups() > 1 && carried[static_cast<size_t>(at)].is_request;
  const bool is_piece = system().by_hosts() && known && carried[static_cast<size_t>(at)].has_data;
  return head + fmt::format("packet {}, index {}, {}{}", at,
                            known ? carried[static_cast<size_t>(at)].index : -1,
                            is_piece ? "data"
                            : asks   ? busy ? "request, busy" : "request"
                            : p.bth.opcode == roce::Opcode::kRcSendOnlyImm ? "control"
                            : p.bth.opcode == roce::Opcode::kRcSendLastImm ? "end of control"
                                                                           : "data",
                            p.bth.ack_req ? ", asks for an ack" : "");
}

std::string Model::Standing(std::span<const Word> state) const {
  std::string text;
  if (CallsEnded(state)) {
    for (int n = 0; n < system().switches(); ++n) {
      if (FactsOf(state, n).holds) text += (text.empty() ? "" : ", ") + system().NodeName(n);
    }
    return text;
  }
  for (int n = system().switches(); n < system().nodes(); ++n) {
    const Facts& facts = FactsOf(state, n);
    if (facts.done) continue;
    text += fmt::format("{}{} {} call {}, {} acknowledged and {} received", text.empty() ? "" : "; ",
                        system().NodeName(n), facts.ended < facts.calls ? "in" : "before", facts.ended,
                        facts.acknowledged, facts.received);
  }
  return text;
}

}  // namespace epic::check
