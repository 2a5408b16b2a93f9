// Runs tests/scenarios/*.txt: packets in, packets out, completions. The format is in
// tests/scenarios/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <variant>

#include "roce/transport/transport_testing.h"
#include "roce/transport/uc.h"

namespace epic::roce::testing {
namespace {

constexpr uint32_t kScriptLkey = 1;
constexpr uint32_t kScriptRkey = 7;
constexpr uint64_t kRemoteRegion = 0x8000;

const std::map<std::string, uint8_t> kSyndromes = {{"ACK", kSyndromeAck},
                                                   {"NAK_SEQUENCE", kSyndromeNakSequence},
                                                   {"NAK_INVALID_REQUEST", kSyndromeNakInvalidRequest},
                                                   {"NAK_REMOTE_ACCESS", kSyndromeNakRemoteAccess},
                                                   {"NAK_REMOTE_OPERATIONAL", kSyndromeNakRemoteOperational}};

std::string Hex(uint64_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return out.str();
}

// Those of unreliable connections have their own: "UC_SEND_ONLY".
std::string WordOf(Opcode opcode) {
  return IsUc(opcode) ? std::string("UC_") + OpcodeName(RcOf(opcode)) : OpcodeName(opcode);
}

// One line, in words: "SEND_ONLY psn=100 len=5 ackreq".
std::string Describe(const Packet& p) {
  std::ostringstream out;
  const OpcodeInfo& info = Info(p.bth.opcode);
  if (p.bth.opcode == Opcode::kRcAck) {
    std::string name = "RNR_NAK";
    for (const auto& [word, syndrome] : kSyndromes) {
      if (syndrome == p.aeth.syndrome) name = word;
    }
    if (IsAck(p.aeth.syndrome)) name = "ACK";
    out << name << " psn=" << p.bth.psn.raw() << " msn=" << p.aeth.msn;
    if (IsAck(p.aeth.syndrome) && p.aeth.syndrome != kSyndromeAck) out << " credits=" << int{p.aeth.syndrome};
    if (IsRnrNak(p.aeth.syndrome)) out << " timer=" << (p.aeth.syndrome & 0x1f);
    return out.str();
  }
  out << WordOf(p.bth.opcode);
  if (p.bth.opcode == Opcode::kCnp) return out.str();
  out << " psn=" << p.bth.psn.raw();
  if (info.payload) out << " len=" << p.payload.size();
  if (info.aeth) out << " msn=" << p.aeth.msn;
  if (info.reth)
    out << " va=" << Hex(p.reth.virtual_address) << " rkey=" << p.reth.rkey << " dma=" << p.reth.dma_length;
  if (info.imm) out << " imm=" << p.imm;
  if (info.ieth) out << " inv=" << p.invalidate_rkey;
  if (info.atomic_eth) {
    out << " va=" << Hex(p.atomic.virtual_address) << " rkey=" << p.atomic.rkey;
    if (p.bth.opcode == Opcode::kRcCompareSwap) out << " compare=" << p.atomic.compare;
    out << (p.bth.opcode == Opcode::kRcCompareSwap ? " swap=" : " add=") << p.atomic.swap_or_add;
  }
  if (info.atomic_ack_eth) out << " original=" << p.original;
  if (p.bth.solicited) out << " solicited";
  if (p.bth.ack_req) out << " ackreq";
  return out.str();
}

std::string Describe(const Completion& c) {
  std::ostringstream out;
  out << (c.is_recv() ? "recv " : "send ") << c.wr_id << ' ' << Name(c.status);
  if (c.ok()) out << " bytes=" << c.bytes;
  if (c.has_imm) out << " imm=" << c.imm;
  if (c.has_invalidated) out << " inv=" << c.invalidated_rkey;
  return out.str();
}

// The words of a line: bare ones, and key=value ones.
struct Words {
  explicit Words(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        bare.push_back(word);
      } else {
        values[word.substr(0, equals)] = std::stoull(word.substr(equals + 1), nullptr, 0);
      }
    }
  }
  uint64_t Get(const std::string& key, uint64_t otherwise = 0) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
  bool Has(const std::string& word) const { return std::ranges::find(bare, word) != bare.end(); }

  std::vector<std::string> bare;
  std::map<std::string, uint64_t> values;
};

OwnedPacket ParsePacket(const Words& words) {
  OwnedPacket out;
  Packet& p = out.head;
  p.src_ip = Ipv4{static_cast<uint32_t>(words.Get("src", Raw(kRemoteIp)))};
  p.dst_ip = kLocalIp;
  p.bth.dest_qp = kLocalQpn;
  const std::string& name = words.bare.at(0);
  for (int byte = 0; byte < 256; ++byte) {
    if (name == WordOf(Opcode{static_cast<uint8_t>(byte)})) p.bth.opcode = Opcode{static_cast<uint8_t>(byte)};
  }
  p.aeth.syndrome = kSyndromeAck;
  if (const auto found = kSyndromes.find(name); found != kSyndromes.end()) {
    p.bth.opcode = Opcode::kRcAck;
    p.aeth.syndrome = found->second;
  } else if (name == "RNR_NAK") {
    p.bth.opcode = Opcode::kRcAck;
    p.aeth.syndrome = static_cast<uint8_t>(kSyndromeRnrNak | words.Get("timer"));
  }
  EXPECT_EQ(Describe(p).substr(0, name.size()), name) << "unknown packet";
  if (words.values.contains("credits")) p.aeth.syndrome = static_cast<uint8_t>(words.Get("credits"));
  p.bth.psn = Psn(static_cast<uint32_t>(words.Get("psn")));
  p.aeth.msn = static_cast<uint32_t>(words.Get("msn"));
  const OpcodeInfo& info = Info(p.bth.opcode);
  const auto rkey = static_cast<uint32_t>(words.Get("rkey"));
  if (info.reth) p.reth = {words.Get("va"), rkey, static_cast<uint32_t>(words.Get("dma"))};
  if (info.atomic_eth) {
    p.atomic = {.virtual_address = words.Get("va"),
                .rkey = rkey,
                .swap_or_add = words.Get("swap", words.Get("add")),
                .compare = words.Get("compare")};
  }
  if (info.atomic_ack_eth) p.original = words.Get("original");
  p.imm = static_cast<uint32_t>(words.Get("imm"));
  p.invalidate_rkey = static_cast<uint32_t>(words.Get("inv"));
  p.tos = words.Has("marked") ? 3 : 0;
  p.bth.ack_req = words.Has("ackreq");
  out.payload.assign(words.Get("len"), uint8_t{0xab});
  return out;
}

Nanos ParseDuration(const std::string& text) {
  size_t used = 0;
  const auto number = static_cast<Nanos>(std::stoull(text, &used));
  const std::string unit = text.substr(used);
  return number * (unit == "s" ? kSecond : unit == "ms" ? kMillisecond : unit == "us" ? kMicrosecond : 1);
}

// Of an unreliable connection, with the addresses and numbers of the other.
UcQueuePair ConnectedUc(const Wiring& wiring) {
  UcQueuePair qp({.local_ip = kLocalIp, .local_qpn = kLocalQpn});
  EXPECT_EQ(qp.Modify({.state = QpState::kInit, .remote_write = true}), ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kRtr,
                       .remote_ip = kRemoteIp,
                       .remote_qpn = kRemoteQpn,
                       .path_mtu = wiring.path_mtu,
                       .rq_psn = Psn(wiring.rq_psn)}),
            ModifyResult::kOk);
  EXPECT_EQ(qp.Modify({.state = QpState::kRts, .sq_psn = Psn(wiring.sq_psn)}), ModifyResult::kOk);
  return qp;
}

class Runner {
  // Of whichever kind it is.
  template <typename Action>
  auto Do(const Action& action) {
    return std::visit(action, qp_);
  }

 public:
  Runner() : qp_(Connected({})) {
    memory_.Add(kScriptLkey, 0, 0x10000);
    memory_.Add(kScriptRkey, kRemoteRegion, 0x1000, /*remote=*/true);
  }

  // Does what a line says; records a failure if it expects what did not come.
  void Line(const std::string& line) {
    const std::string verb = line.substr(0, line.find(' '));
    const std::string rest = verb == line ? "" : line.substr(verb.size() + 1);
    if (verb == ">") return Expect(&packets_, rest);
    if (verb == "complete") return Expect(&completions_, rest);
    if (verb == "state") {
      EXPECT_EQ(static_cast<int>(Do([](auto& qp) { return qp.state(); })), std::stoi(rest));
      return;
    }
    Finish();
    const Words words(rest);
    if (verb == "qp") return Configure(words);
    if (verb == "post") {
      Post(words);
    } else if (verb == "<") {
      const OwnedPacket packet = ParsePacket(words);
      if (rc() != nullptr) {
        rc()->OnPacket(now_, packet.packet(), memory_);
      } else {
        std::get<UcQueuePair>(qp_).OnPacket(packet.packet(), memory_);
      }
    } else if (verb == "time") {
      const Nanos until = now_ + ParseDuration(rest.substr(1));
      while (rc() != nullptr && rc()->next_deadline() <= until) {
        now_ = std::max(now_, rc()->next_deadline());
        Poll();
      }
      now_ = until;
    } else if (verb == "word") {
      uint64_t value = 0;
      const auto at = memory_.Map(Access::kLocalRead, static_cast<uint32_t>(words.Get("key", kScriptLkey)),
                                  words.Get("at"), sizeof value);
      ASSERT_TRUE(at);
      std::memcpy(&value, at->data(), sizeof value);
      EXPECT_EQ(value, words.Get("is"));
    } else if (verb == "window") {
      memory_.AddWindow(static_cast<uint32_t>(words.Get("key")));
    } else if (verb == "deregister") {
      memory_.Remove(static_cast<uint32_t>(words.Get("key")));
    } else if (verb == "modify") {
      const QpChange change{.state = static_cast<QpState>(words.Get("state"))};
      EXPECT_EQ(Do([&](auto& qp) { return qp.Modify(change); }), ModifyResult::kOk);
    } else {
      ADD_FAILURE() << "unknown verb " << verb;
    }
    Poll();
  }

  // Nothing may be left that the scenario did not expect.
  void Finish() {
    for (const std::string& packet : packets_) ADD_FAILURE() << "unexpected: > " << packet;
    for (const std::string& completion : completions_) ADD_FAILURE() << "unexpected: complete " << completion;
    packets_.clear();
    completions_.clear();
  }

 private:
  // Null if the scenario is about an unreliable connection.
  QueuePair* rc() { return std::get_if<QueuePair>(&qp_); }

  void Configure(const Words& words) {
    Wiring w;
    if (words.Has("rxe")) w.policy = RxeLike();
    w.path_mtu = static_cast<uint32_t>(words.Get("mtu", w.path_mtu));
    w.sq_psn = static_cast<uint32_t>(words.Get("sq_psn", w.sq_psn));
    w.rq_psn = static_cast<uint32_t>(words.Get("rq_psn", w.rq_psn));
    w.timeout = static_cast<uint8_t>(words.Get("timeout", w.timeout));
    w.retry_cnt = static_cast<uint8_t>(words.Get("retry_cnt", w.retry_cnt));
    w.rnr_retry = static_cast<uint8_t>(words.Get("rnr_retry", w.rnr_retry));
    w.rd_atomic = static_cast<uint8_t>(words.Get("rd_atomic", w.rd_atomic));
    w.remote_atomic = !words.Has("no_atomic");
    w.policy.max_outstanding = static_cast<int32_t>(words.Get("outstanding", 128));
    w.policy.give_credits = words.Has("credits");
    w.policy.ack_after = static_cast<int>(words.Get("ack_after", 1));
    w.policy.ack_delay_ns = static_cast<Nanos>(words.Get("ack_delay_us", 0)) * kMicrosecond;
    w.policy.rate.line_rate_bps = static_cast<int64_t>(words.Get("line_mbps", 100'000)) * 1'000'000;
    if (words.Has("uc")) {
      qp_ = ConnectedUc(w);
    } else {
      qp_ = Connected(w);
    }
  }

  void Post(const Words& words) {
    const std::string& what = words.bare.at(0);
    const uint64_t wr_id = words.Get("id");
    const auto length = static_cast<uint32_t>(words.Get("len"));
    const auto lkey = static_cast<uint32_t>(words.Get("lkey", kScriptLkey));
    if (what == "recv") {
      const RecvWr recv{.wr_id = wr_id, .sges = OneSge(0x4000, length, lkey)};
      EXPECT_EQ(Do([&](auto& qp) { return qp.PostRecv(recv); }), PostResult::kOk);
      return;
    }
    static const std::map<std::string, WrOpcode> kOpcodes = {
        {"send", WrOpcode::kSend},          {"send_imm", WrOpcode::kSendImm},
        {"write", WrOpcode::kWrite},        {"write_imm", WrOpcode::kWriteImm},
        {"read", WrOpcode::kRead},          {"compare_swap", WrOpcode::kCompareSwap},
        {"fetch_add", WrOpcode::kFetchAdd}, {"send_inv", WrOpcode::kSendInv},
        {"local_inv", WrOpcode::kLocalInv}, {"bind", WrOpcode::kBindMw}};
    SendWr wr{.wr_id = wr_id, .opcode = kOpcodes.at(what)};
    wr.signaled = !words.Has("unsignaled");
    wr.fence = words.Has("fence");
    wr.solicited = words.Has("solicited");
    wr.sges = OneSge(0, length, lkey);
    wr.imm = static_cast<uint32_t>(words.Get("imm"));
    wr.remote_address = words.Get("va");
    wr.rkey = static_cast<uint32_t>(words.Get("rkey"));
    wr.compare_add = words.Get("compare", words.Get("add"));
    wr.swap = words.Get("swap");
    wr.invalidate_rkey = static_cast<uint32_t>(words.Get("inv"));
    wr.bind.emplace().rkey = wr.rkey;
    EXPECT_EQ(Do([&](auto& qp) { return qp.PostSend(wr); }), PostResult::kOk);
  }

  void Poll() {
    KeepingSink sink;
    if (rc() != nullptr) {
      rc()->Poll(now_, memory_, sink);
    } else {
      std::get<UcQueuePair>(qp_).Poll(memory_, sink);
    }
    for (const OwnedPacket& packet : sink.sent) packets_.push_back(Describe(packet.packet()));
    for (Completion c; Do([&](auto& qp) { return qp.NextCompletion(&c); });)
      completions_.push_back(Describe(c));
  }

  static void Expect(std::deque<std::string>* have, const std::string& want) {
    const std::string got = have->empty() ? "(nothing)" : have->front();
    EXPECT_EQ(got, want);
    if (!have->empty()) have->pop_front();
  }

  FlatMemory memory_;
  std::variant<QueuePair, UcQueuePair> qp_;
  Nanos now_ = 0;
  std::deque<std::string> packets_;
  std::deque<std::string> completions_;
};

std::vector<std::filesystem::path> Scenarios() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(EPIC_SCENARIO_DIR)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

class ScenarioTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ScenarioTest, GoesAsWritten) {
  std::ifstream in(GetParam());
  ASSERT_TRUE(in);
  Runner runner;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    line.erase(line.find_last_not_of(" \t") + 1);
    if (line.empty()) continue;
    SCOPED_TRACE(::testing::Message() << GetParam().filename().string() << ":" << number << ": " << line);
    runner.Line(line);
  }
  SCOPED_TRACE(GetParam().filename().string() + ", at its end");
  runner.Finish();
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest, ::testing::ValuesIn(Scenarios()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace epic::roce::testing
