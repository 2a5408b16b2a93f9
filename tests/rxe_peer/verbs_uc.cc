#include "tests/rxe_peer/verbs_uc.h"

#include <arpa/inet.h>

#include <cstdlib>

namespace epic::rxe_peer {

VerbsUc::VerbsUc(int side)
    : connection_(Open(std::aligned_alloc(4096, (UcExchange::kBytes + 4095) / 4096 * 4096),
                       UcExchange::kBytes, IBV_QPT_UC)),
      exchange_(side, {connection_.memory(), UcExchange::kBytes}) {
  for (int buffer = 0; buffer < UcExchange::kReceives; ++buffer) PostReceive(buffer);
}

void VerbsUc::Connect(const char* address, const UcPeer& peer) {
  peer_ = peer;
  rxe_peer::Connect(connection_, address, peer.qpn, {});
}

bool VerbsUc::Take() {
  for (ibv_wc wc; ibv_poll_cq(connection_.cq, 1, &wc) > 0;) {
    if (wc.status != IBV_WC_SUCCESS) {
      std::printf("unreliable: completion with %s\n", ibv_wc_status_str(wc.status));
      return false;
    }
    if ((wc.opcode & IBV_WC_RECV) == 0) {
      exchange_.OnCompleted();
      continue;
    }
    const auto buffer = static_cast<int>(wc.wr_id);
    exchange_.OnReceived(buffer, wc.byte_len, (wc.wc_flags & IBV_WC_WITH_IMM) != 0, ntohl(wc.imm_data));
    PostReceive(buffer);
  }
  return true;
}

void VerbsUc::Send() {
  using Kind = UcExchange::Kind;
  if (!exchange_.may_post()) return;
  const int k = exchange_.Post();
  const Kind kind = UcExchange::KindOf(k);
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(connection_.memory()) + UcExchange::kOut,
              .length = exchange_.BytesOf(k),
              .lkey = connection_.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = kind == Kind::kSend      ? IBV_WR_SEND
              : kind == Kind::kSendImm ? IBV_WR_SEND_WITH_IMM
                                       : IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htonl(static_cast<uint32_t>(k));
  if (kind == Kind::kWriteImm) {
    wr.wr.rdma.rkey = peer_.rkey;
    wr.wr.rdma.remote_addr = peer_.memory + UcExchange::TargetOf(k);
  }
  if (ibv_post_send(connection_.qp, &wr, &bad)) Die("ibv_post_send");
}

void VerbsUc::PostReceive(int buffer) {
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(connection_.memory()) + UcExchange::ReceiveOf(buffer),
              .length = UcExchange::kMost,
              .lkey = connection_.mr->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = static_cast<uint64_t>(buffer);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (ibv_post_recv(connection_.qp, &wr, &bad)) Die("ibv_post_recv");
}

}  // namespace epic::rxe_peer
