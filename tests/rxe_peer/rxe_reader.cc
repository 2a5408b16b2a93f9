// The rdma_rxe end of a Write and a Read behind it, which begin when a line comes. Prints what both ended
// with and how many bytes of the Read are not what the other end has; an operation that has not ended after
// 20 s ended with "nothing". Stays until its input ends.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/rxe_connection.h"

namespace epic::rxe_peer {
namespace {

constexpr uint64_t kWriteId = 1, kReadId = 2;
constexpr uint32_t kReadTo = 4096;  // in our own memory

void Post(const Connection& connection, uint64_t id, ibv_wr_opcode opcode, uint32_t at, uint32_t bytes,
          uint64_t peer_at) {
  ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(connection.memory()) + at,
              .length = bytes,
              .lkey = connection.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.wr.rdma.rkey = kOurRkey;
  wr.wr.rdma.remote_addr = peer_at;
  if (ibv_post_send(connection.qp, &wr, &bad)) Die("ibv_post_send");
}

void WriteAndRead(const Connection& connection, uint32_t read_bytes) {
  uint8_t* const read = connection.memory() + kReadTo;
  std::memset(read, kUnwritten, read_bytes);
  Post(connection, kWriteId, IBV_WR_RDMA_WRITE, 0, kWriteBytes, kWriteAt);
  Post(connection, kReadId, IBV_WR_RDMA_READ, kReadTo, read_bytes, 0);
  std::string written = "nothing", was_read = "nothing";
  const auto start = std::chrono::steady_clock::now();
  for (int ended = 0; ended < 2 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20);) {
    ibv_wc wc;
    if (ibv_poll_cq(connection.cq, 1, &wc) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    (wc.wr_id == kWriteId ? written : was_read) = ibv_wc_status_str(wc.status);
    ++ended;
  }
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < read_bytes; ++i) wrong += read[i] != OurByte(i);
  std::printf("write: %s\nread: %s\nwrong bytes: %u\n", written.c_str(), was_read.c_str(), wrong);
  std::fflush(stdout);
}

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  const uint32_t read_bytes = argc == 4 ? static_cast<uint32_t>(std::atoi(argv[2])) : 0;
  if (read_bytes == 0 || read_bytes > kMostReadBytes) {
    std::fprintf(stderr, "usage: rxe_reader PEER-ADDRESS BYTES RETRIES\n");
    return 2;
  }
  constexpr size_t kBytes = kReadTo + kMostReadBytes;
  static_assert(kBytes % 4096 == 0);
  const Connection connection = Open(std::aligned_alloc(4096, kBytes), kBytes);
  // 268 ms: a machine that stands still for a while does not use up the retries.
  Announce(connection);
  Connect(connection, argv[1], kOurQpn,
          {.timeout = 16, .retry_cnt = static_cast<uint8_t>(std::atoi(argv[3]))});
  WaitForLine();
  WriteAndRead(connection, read_bytes);
  WaitForEndOfInput();
  return 0;
}
