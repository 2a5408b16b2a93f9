// softnic_wakeup [COUNT]: how long after the arrival of a frame ibv_get_cq_event returns, when everybody was
// asleep before. Prints the distribution of COUNT (1000) Sends of 64 bytes, in microseconds.
//
// Both ends are of this process, and the frames take the loopback interface. A frame's arrival is the
// kernel's time stamp of it, read from a socket that listens as well.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <semaphore>
#include <thread>
#include <vector>

#include "tests/softnic/verbs_testing.h"

using namespace epic::softnic::testing;

namespace {

constexpr int kWarmUp = 20;
constexpr long kPauseNs = 2'000'000;  // between two Sends, for all threads to fall asleep
constexpr uint8_t kSendOnly = 0x04;

int64_t ToNs(const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; }

// The clock of the kernel's time stamps.
int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return ToNs(now);
}

int Listen() {
  const int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
  const sockaddr_ll address{.sll_family = AF_PACKET,
                            .sll_protocol = htons(ETH_P_IP),
                            .sll_ifindex = static_cast<int>(if_nametoindex("lo"))};
  const int one = 1;
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0)
    Die("a packet socket");
  return fd;
}

// When the Send that was heard last had arrived; takes all that waits. 0 if there was none.
int64_t ArrivalOfSend(int fd) {
  int64_t arrival = 0;
  while (true) {
    std::array<uint8_t, 256> frame;
    alignas(cmsghdr) std::array<char, 256> control;
    iovec part{frame.data(), frame.size()};
    msghdr message{
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.data(), .msg_controllen = control.size()};
    if (recvmsg(fd, &message, MSG_DONTWAIT) < 0) return arrival;
    // Ethernet, IPv4 without options and UDP are in front of the opcode.
    if (frame[42] != kSendOnly) continue;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_type == SO_TIMESTAMPNS) arrival = ToNs(*reinterpret_cast<timespec*>(CMSG_DATA(c)));
    }
  }
}

// Waits for `count` completions by events and notes when each event came.
void Receive(Connection& c, int count, std::vector<int64_t>* times, std::binary_semaphore* told) {
  for (int i = 0; i < count; ++i) {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (ibv_get_cq_event(c.b.channel, &cq, &user) != 0) Die("ibv_get_cq_event");
    times->push_back(Now());
    ibv_ack_cq_events(cq, 1);
    if (Await(c.cq_b).status != IBV_WC_SUCCESS) Die("a completion");
    if (PostRecv(c.b, c.qp_b, 0, 0, 64) != 0 || ibv_req_notify_cq(c.cq_b, 0) != 0) Die("arming");
    told->release();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int count = kWarmUp + (argc > 1 ? std::atoi(argv[1]) : 1000);
  if (argc > 2 || count <= kWarmUp) {
    std::printf("usage: softnic_wakeup [COUNT], by epic-run\n");
    return 2;
  }
  Connection c;
  const int listener = Listen();
  if (PostRecv(c.b, c.qp_b, 0, 0, 64) != 0 || ibv_req_notify_cq(c.cq_b, 0) != 0) Die("arming");
  std::vector<int64_t> events, delays;
  std::binary_semaphore told(0);
  std::thread receiver([&] { Receive(c, count, &events, &told); });
  for (int i = 0; i < count; ++i) {
    const timespec pause{0, kPauseNs};
    nanosleep(&pause, nullptr);
    if (PostSend(c.a, c.qp_a, 0, 0, 64) != 0) Die("ibv_post_send");
    told.acquire();  // asleep, so that the CPU is free for the others
    if (Await(c.cq_a).status != IBV_WC_SUCCESS) Die("a Send");
    const int64_t arrival = ArrivalOfSend(listener);
    if (i >= kWarmUp && arrival != 0) delays.push_back(events.back() - arrival);
  }
  receiver.join();
  if (delays.empty()) Die("no time stamps");
  std::ranges::sort(delays);
  const auto at = [&](double part) {
    return static_cast<double>(delays[static_cast<size_t>(part * static_cast<double>(delays.size() - 1))]) /
           1000;
  };
  std::printf(
      "frame to ibv_get_cq_event, %zu times: p50 %.1f us, p90 %.1f us, p99 %.1f us, longest %.1f us\n",
      delays.size(), at(0.5), at(0.9), at(0.99), at(1));
}
