// A verbs program that does what it is told on standard input, a command a line, and answers with a line. Its
// queue pairs have numbers from 0.
//
//   new                            qp N qpn QPN ip A.B.C.D
//   connect N QPN A.B.C.D TIMEOUT RETRIES   connected
//   receive N COUNT                posted
//   send N COUNT                   one line for each completion: "status S after MS ms", S as ibv_wc_status
//   destroy N                      destroyed
//   wait                           "waiting" at once, and "event" when a completion event comes
#include <arpa/inet.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/softnic/verbs_testing.h"

using namespace epic::softnic::testing;

namespace {

constexpr uint32_t kBytes = 64;

class Peer {
 public:
  bool Obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    size_t number = 0;
    words >> command >> number;
    if (command == "new") {
      New();
    } else if (command == "connect") {
      DoConnect(qps_.at(number), words);
    } else if (command == "receive") {
      Receive(qps_.at(number), words);
    } else if (command == "send") {
      Send(qps_.at(number), words);
    } else if (command == "destroy") {
      if (ibv_destroy_qp(qps_.at(number)) != 0) Die("ibv_destroy_qp");
      std::printf("destroyed\n");
    } else if (command == "wait") {
      Wait();
    } else {
      return false;
    }
    return true;
  }

 private:
  void New() {
    ibv_qp* qp = CreateRc(device_, cq_);
    char ip[INET_ADDRSTRLEN];
    const ibv_gid gid = device_.gid();
    inet_ntop(AF_INET, gid.raw + 12, ip, sizeof ip);
    std::printf("qp %zu qpn %u ip %s\n", qps_.size(), qp->qp_num, ip);
    qps_.push_back(qp);
  }

  static void DoConnect(ibv_qp* qp, std::istream& words) {
    uint32_t qpn = 0;
    std::string ip;
    int timeout = 0, retries = 0;
    words >> qpn >> ip >> timeout >> retries;
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    if (inet_pton(AF_INET, ip.c_str(), gid.raw + 12) != 1) Die(ip.c_str());
    Connect(qp, gid, qpn, {},
            {.timeout = static_cast<uint8_t>(timeout), .retry_cnt = static_cast<uint8_t>(retries)});
    std::printf("connected\n");
  }

  void Receive(ibv_qp* qp, std::istream& words) {
    int count = 0;
    words >> count;
    for (; count > 0; --count) {
      if (PostRecv(device_, qp, 0, kBytes, kBytes) != 0) Die("ibv_post_recv");
    }
    std::printf("posted\n");
  }

  void Send(ibv_qp* qp, std::istream& words) {
    int count = 0;
    words >> count;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      if (PostSend(device_, qp, 0, 0, kBytes) != 0) Die("ibv_post_send");
    }
    for (int i = 0; i < count; ++i) {
      const ibv_wc wc = Await(cq_);
      const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
      std::printf("status %d after %.3f ms\n", wc.status, ms.count());
    }
  }

  void Wait() {
    if (ibv_req_notify_cq(cq_, 0) != 0) Die("ibv_req_notify_cq");
    std::printf("waiting\n");
    std::fflush(stdout);
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (ibv_get_cq_event(device_.channel, &cq, &user) != 0) Die("ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    std::printf("event\n");
  }

  Device device_;
  ibv_cq* cq_ = device_.CreateCq(256);
  std::vector<ibv_qp*> qps_;
};

}  // namespace

int main() {
  Peer peer;
  for (std::string line; std::getline(std::cin, line);) {
    if (!peer.Obey(line)) {
      std::printf("no command: %s\n", line.c_str());
      return 1;
    }
    std::fflush(stdout);
  }
  std::_Exit(0);  // its queue pairs go with it
}
