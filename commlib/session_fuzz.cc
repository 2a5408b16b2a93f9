// What the network tells a rank: the manager's messages in a session, and a switch's refusals. Whatever they
// are, the first failure stays and has a code and a reason, what is handed to the queue pair fits into it,
// and a refusal is an error with a sentence.
#include <array>
#include <optional>
#include <string>

#include "base/check.h"
#include "commlib/messages.h"
#include "commlib/session_state.h"
#include "tests/fuzz/message_testing.h"

namespace epic::internal {
namespace {

constexpr uint32_t kRanks = 2;
const fuzz::Words kWords = {"leaf1", "rank 0 is gone"};

proto::ServerMessage Valid(uint8_t how) {
  proto::ServerMessage message;
  switch (how % 5) {
    case 0:
      message.mutable_waiting()->add_missing_ranks(1);
      break;
    case 1: {
      proto::Joined& joined = *message.mutable_joined();
      joined.set_group_id(5);
      joined.set_mode(proto::MODE_TRANSLATED);
      joined.set_remote_qpn(0x100000);
      joined.set_path_mtu(1024);
      joined.set_message_packets(8);
      joined.set_inline_bytes(8128);
      joined.set_window_messages(4);
      joined.set_start_messages(3);
      joined.set_qp_timeout(18);
      joined.set_retry_cnt(7);
      joined.set_rnr_retry(7);
      joined.set_min_rnr_timer(1);
      proto::MulticastGroup& group = *joined.mutable_multicast();
      group.set_address(0xefc00001);
      group.set_qkey(how);
      group.set_receives(512);
      for (uint32_t rank = 0; rank < kRanks; ++rank) group.add_ends()->set_qpn(17 + rank);
      break;
    }
    case 2:
      message.mutable_failure()->set_code(proto::ERROR_RANK_LOST);
      message.mutable_failure()->set_message("rank 0 is gone");
      break;
    case 3:
      message.mutable_probe()->set_ip(0x0a00ff01);
      break;
    default:
      message.mutable_left();
  }
  return message;
}

void CheckJoined(const JoinedInfo& joined) {
  const verbs::ConnectInfo& connect = joined.connect;
  EPIC_CHECK((connect.remote_qpn | connect.send_psn | connect.recv_psn) < 1u << 24);
  EPIC_CHECK(connect.timeout < 32 && connect.retry_cnt < 8 && connect.rnr_retry < 8 &&
             connect.min_rnr_timer < 32);
  EPIC_CHECK(joined.start_messages <= joined.window_messages);
  if (!joined.multicast) return;
  EPIC_CHECK(Raw(joined.multicast->address) >> 28 == 0xe && joined.multicast->qkey < 1u << 31);
  EPIC_CHECK(joined.multicast->ends.size() == kRanks);
  for (const verbs::DatagramSource& end : joined.multicast->ends)
    EPIC_CHECK(end.qpn != 0 && end.qpn < 1u << 24);
}

void RunSession(FuzzInput& in) {
  SessionState state(kRanks);
  std::optional<Error> failure;
  bool joined = false;
  while (!in.empty()) {
    const auto message = fuzz::Received(in, kWords, Valid(in.Next()));
    if (!message) continue;
    const bool left = state.left();
    const bool failed = state.OnMessage(*message);
    const std::optional<Ipv4> probe = state.TakeProbe();
    EPIC_CHECK(probe.has_value() == message->has_probe() && !state.TakeProbe());
    const std::vector<PeerEndInfo> peers = state.TakePeers();
    // What has been told before is passed over.
    EPIC_CHECK(peers.size() <= (message->has_peer() && !failed ? 1u : 0u));
    EPIC_CHECK(state.TakePeers().empty());
    for (const PeerEndInfo& end : peers) EPIC_CHECK(end.qpn < 1u << 24 && end.psn < 1u << 24);
    EPIC_CHECK(!failed || (!failure && !left && state.failure()));
    if (failed) failure = state.failure();
    EPIC_CHECK(state.failure().has_value() == failure.has_value());
    if (failure) EPIC_CHECK(!failure->ok() && state.failure()->code() == failure->code());
    EPIC_CHECK(!joined || state.joined());
    joined = state.joined().has_value();
    if (joined) CheckJoined(*state.joined());
    EPIC_CHECK(!state.waiting().empty());
  }
  EPIC_CHECK(!state.Fail({ErrorCode::kManagerLost, "broke"}) == (failure.has_value() || state.left()));
}

void RunRefusal(FuzzInput& in) {
  const auto header = [&in]() -> std::optional<ControlHeader> {
    std::array<uint8_t, kControlBytes> bytes;
    for (uint8_t& byte : bytes) byte = in.Next();
    return DecodeControl(bytes);
  };
  const auto reply = header(), here = header();
  if (!reply || !here) return;
  const Error error = RefusalError(*reply, *here, in.Next());
  EPIC_CHECK(!error.ok() && !error.message().empty());
  EPIC_CHECK(ErrorName(error.code()) != std::string("unknown error"));
}

}  // namespace
}  // namespace epic::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::FuzzInput in(data, size);
  (in.Next() & 1) != 0 ? epic::internal::RunRefusal(in) : epic::internal::RunSession(in);
  return 0;
}
