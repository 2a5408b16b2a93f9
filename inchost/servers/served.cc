#include "inchost/servers/served.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <utility>

#include "commlib/verbs/verbs_error.h"

namespace epic::host {
namespace {

// In wr_id, beside the number of the receive or sum.
constexpr uint64_t kSend = uint64_t{1} << 31;
constexpr uint64_t kNumber = kSend - 1;

size_t MemoryBytes(const proto::MakeServer& request) {
  return LegMemoryBytes(request.path_mtu(), request.sum_mtus());
}

fallback::Group GroupOf(const proto::MakeServer& request) {
  return {.world_size = request.world_size(),
          .path_mtu = request.path_mtu(),
          .message_packets = request.message_packets(),
          .slots = request.slots(),
          .accumulator_mtus = request.sum_mtus()};
}

}  // namespace

Served::Served(const proto::MakeServer& request, uint32_t number)
    : group_(request.group()),
      name_(request.name()),
      wr_id_(uint64_t{number} << 32),
      connect_{.name = "switch " + request.switch_name(),
               .remote_ip = Ipv4{request.remote_ip()},
               .remote_qpn = request.remote_qpn(),
               .send_psn = request.send_psn(),
               .recv_psn = request.recv_psn(),
               .path_mtu = request.path_mtu(),
               .timeout = static_cast<uint8_t>(request.qp_timeout()),
               .retry_cnt = static_cast<uint8_t>(request.retry_cnt()),
               .rnr_retry = static_cast<uint8_t>(request.rnr_retry()),
               .min_rnr_timer = static_cast<uint8_t>(request.min_rnr_timer()),
               .super_frames = request.super_frames()},
      bytes_(new uint8_t[MemoryBytes(request)]),
      leg_(GroupOf(request), {bytes_.get(), MemoryBytes(request)}, this) {}

Error Served::Make(std::shared_ptr<verbs::Device> device, std::shared_ptr<verbs::CompletionQueue> cq,
                   const proto::MakeServer& request, uint32_t number, std::unique_ptr<Served>* served) {
  std::unique_ptr<Served> made(new Served(request, number));
  if (Error e =
          verbs::Memory::Register(device, made->bytes_.get(), MemoryBytes(request), true, &made->memory_);
      !e.ok())
    return e;
  if (Error e =
          verbs::QueuePair::Create(std::move(device), std::move(cq), kLegSums, kLegReceives, &made->qp_);
      !e.ok())
    return e;
  if (!made->leg_.Start()) return {ErrorCode::kInternal, "the queue pair takes no receives"};
  *served = std::move(made);
  return {};
}

bool Served::PostReceive(uint32_t number, std::span<uint8_t> room) {
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(room.data()),
              .length = static_cast<uint32_t>(room.size()),
              .lkey = memory_->lkey()};
  ibv_recv_wr wr{};
  wr.wr_id = wr_id_ | number;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* rest = nullptr;
  return qp_->PostRecvs(&wr, &rest) == 0;
}

bool Served::PostSend(uint32_t number, uint32_t immediate, std::span<const uint8_t> bytes) {
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(bytes.data()),
              .length = static_cast<uint32_t>(bytes.size()),
              .lkey = memory_->lkey()};
  ibv_send_wr wr{};
  wr.wr_id = wr_id_ | kSend | number;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.imm_data = htonl(immediate);
  ibv_send_wr* rest = nullptr;
  return qp_->PostSends(&wr, &rest) == 0;
}

std::optional<Served::End> Served::OnCompletion(const ibv_wc& done) {
  const auto number = static_cast<uint32_t>(done.wr_id & kNumber);
  const bool is_send = (done.wr_id & kSend) != 0;
  if (done.status == IBV_WC_LOC_LEN_ERR && !is_send)
    return End{.field = "length", .message = fmt::format("{} sends more than a sum has", peer())};
  if (done.status != IBV_WC_SUCCESS) {
    return End{
        .field = "",
        .message = fmt::format("the connection to {} failed: {}", peer(), ibv_wc_status_str(done.status))};
  }
  // A message without immediate is of no kind.
  const bool has_immediate = (done.wc_flags & IBV_WC_WITH_IMM) != 0;
  const std::string_view wrong =
      is_send ? leg_.OnSent(number)
              : leg_.OnReceived(number, has_immediate ? ntohl(done.imm_data) : 0, done.byte_len);
  if (wrong.empty()) return std::nullopt;
  return End{.field = std::string(wrong),
             .message = fmt::format("{} sends what may not be: {}", peer(), wrong)};
}

}  // namespace epic::host
