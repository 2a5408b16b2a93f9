// A verbs program that does what it is told on standard input, a command a line, and answers with a line. Its
// queue pairs have numbers from 0.
//
//   new                            qp N qpn QPN ip A.B.C.D
//   connect N QPN A.B.C.D TIMEOUT RETRIES   connected
//   receive N COUNT                posted
//   send N COUNT                   one line for each completion: "status S after MS ms", S as ibv_wc_status
//   destroy N                      destroyed
//   counter                        counter VALUE address A rkey K: a number in its memory, at first 0
//   add COUNT A K                  adds 1 to the counter there so many times, by all its queue pairs at once:
//                                  "added COUNT distinct N", N being how many different values they found, or
//                                  "status S"
//   wait                           "waiting" at once, and "event" when a completion event comes
#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <set>
#include <sstream>
#include <string>

#include "tests/softnic/verbs_testing.h"

using namespace epic::softnic::testing;

namespace {

constexpr uint32_t kBytes = 64;
constexpr size_t kCounterAt = 4096, kFoundAt = 8192;
constexpr uint64_t kAdding = 16;

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
    } else if (command == "counter") {
      std::printf("counter %llu address %llu rkey %u\n", static_cast<unsigned long long>(Counter()),
                  static_cast<unsigned long long>(device_.address(kCounterAt)), device_.mr->rkey);
    } else if (command == "add") {
      Add(number, words);
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
    Connect(qp, gid, qpn, {.access = IBV_ACCESS_REMOTE_ATOMIC},
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

  // What has arrived is there when a call into the device has returned.
  uint64_t Counter() {
    ibv_wc wc;
    if (ibv_poll_cq(cq_, 1, &wc) != 0) Die("a completion that nobody expected");
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(device_.at(kCounterAt))).load();
  }

  // Request k is of queue pair k mod their number; each has kAdding of them under way.
  void Add(uint64_t count, std::istream& words) {
    Remote there;
    words >> there.address >> there.rkey;
    const uint64_t under_way = std::min<uint64_t>(count, qps_.size() * kAdding);
    const auto post = [&](uint64_t k) {
      if (PostAtomic(device_, qps_[k % qps_.size()], IBV_WR_ATOMIC_FETCH_AND_ADD, k,
                     kFoundAt + k % under_way * 8, there, 1) != 0)
        Die("ibv_post_send");
    };
    for (uint64_t k = 0; k < under_way; ++k) post(k);
    std::set<uint64_t> found;
    for (uint64_t done = 0; done < count; ++done) {
      const ibv_wc wc = AwaitAsleep();
      if (wc.status != IBV_WC_SUCCESS) return void(std::printf("status %d\n", wc.status));
      found.insert(*reinterpret_cast<uint64_t*>(device_.at(kFoundAt + wc.wr_id % under_way * 8)));
      if (wc.wr_id + under_way < count) post(wc.wr_id + under_way);
    }
    std::printf("added %llu distinct %zu\n", static_cast<unsigned long long>(count), found.size());
  }

  // As Await, without a processor: one that is polled for minutes is missing to a guest, or to who carries
  // the frames, for seconds, and they count as dead.
  ibv_wc AwaitAsleep() {
    ibv_wc wc{};
    while (true) {
      if (ibv_req_notify_cq(cq_, 0) != 0) Die("ibv_req_notify_cq");
      const int count = ibv_poll_cq(cq_, 1, &wc);
      if (count < 0) Die("ibv_poll_cq");
      if (count == 1) return wc;
      TakeEvent();
    }
  }

  void Wait() {
    if (ibv_req_notify_cq(cq_, 0) != 0) Die("ibv_req_notify_cq");
    std::printf("waiting\n");
    std::fflush(stdout);
    TakeEvent();
    std::printf("event\n");
  }

  void TakeEvent() {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (ibv_get_cq_event(device_.channel, &cq, &user) != 0) Die("ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
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
