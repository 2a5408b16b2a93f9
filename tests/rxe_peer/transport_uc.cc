#include "tests/rxe_peer/transport_uc.h"

#include <cstdio>

#include "tests/rxe_peer/ends.h"

namespace epic::rxe_peer {

TransportUc::TransportUc(const EndOptions& end, uint32_t own_qpn, const UcPeerOptions& peer)
    : peer_(peer),
      uc_({.local_ip = Ipv4{end.address}, .local_qpn = Qpn{own_qpn}, .recv_depth = UcExchange::kReceives}) {
  uc_.Modify({.state = roce::QpState::kInit, .remote_write = true});
  uc_.Modify({.state = roce::QpState::kRtr,
              .remote_ip = Ipv4{end.peer_address},
              .remote_qpn = Qpn{peer.qpn},
              .path_mtu = kPathMtu,
              .rq_psn = Psn(kFirstPsn)});
  uc_.Modify({.state = roce::QpState::kRts, .sq_psn = Psn(kFirstPsn)});
  for (int buffer = 0; buffer < UcExchange::kReceives; ++buffer) PostReceive(buffer);
}

void TransportUc::Work(bool may_send, roce::PacketSink& sink) {
  for (roce::Completion done; uc_.NextCompletion(&done);) Take(done);
  if (may_send && exchange_.may_post()) Post(exchange_.Post());
  uc_.Poll(memory_, sink);
}

void TransportUc::Take(const roce::Completion& done) {
  if (!done.ok()) {
    std::printf("unreliable: completion with %s\n", roce::Name(done.status));
    failed_ = true;
  } else if (done.is_recv()) {
    const auto buffer = static_cast<int>(done.wr_id);
    exchange_.OnReceived(buffer, done.bytes, done.has_imm, done.imm);
    PostReceive(buffer);
  } else {
    exchange_.OnCompleted();
  }
}

void TransportUc::PostReceive(int buffer) {
  const roce::Sge sge{UcExchange::ReceiveOf(buffer), UcExchange::kMost, kOurRkey};
  failed_ |= uc_.PostRecv({.wr_id = static_cast<uint64_t>(buffer), .sges = roce::SgeList::Of({&sge, 1})}) !=
             roce::PostResult::kOk;
}

void TransportUc::Post(int k) {
  using Kind = UcExchange::Kind;
  const Kind kind = UcExchange::KindOf(k);
  const roce::Sge sge{UcExchange::kOut, exchange_.BytesOf(k), kOurRkey};
  roce::SendWr wr{.sges = roce::SgeList::Of({&sge, 1}), .imm = static_cast<uint32_t>(k)};
  wr.opcode = kind == Kind::kSend      ? roce::WrOpcode::kSend
              : kind == Kind::kSendImm ? roce::WrOpcode::kSendImm
                                       : roce::WrOpcode::kWriteImm;
  wr.remote_address = peer_.memory + UcExchange::TargetOf(k);
  wr.rkey = peer_.rkey;
  failed_ |= uc_.PostSend(wr) != roce::PostResult::kOk;
}

}  // namespace epic::rxe_peer
