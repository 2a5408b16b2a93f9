// datagram_peer IFNAME: a queue pair of the host library for the datagrams of a group (commlib/verbs), told
// line by line what to do. Each line has an answer, or "error: ..." in the library's words:
//
//   join ADDRESS QKEY: "joined IP QPN"
//   key QKEY: "key"
//   send FIRST COUNT: "sent", the datagrams with these numbers
//   take FIRST COUNT IP QPN: "took", when the next to come had these numbers and were from there, as sent
//   flush: "flushed N of M", in state ERR, of the receives that were posted
//   leave: "left", without a queue pair from then on
//
// Datagram n has n for immediate data, and its length and bytes follow from n and the sender's queue pair.
// What is not as it ought to be ends the program with 1.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "commlib/verbs/datagram_qp.h"
#include "commlib/verbs/queue_pair.h"

namespace epic::verbs {
namespace {

constexpr uint32_t kReceives = 256, kSends = 64, kMostBytes = 1024;
constexpr size_t kPlace = 2048;  // of a receive
constexpr int kPatienceMs = 20'000;

[[noreturn]] void Die(const std::string& what) {
  std::cout << "wrong: " << what << std::endl;
  std::exit(1);
}

uint32_t BytesOf(uint32_t number) { return 1 + number * 37 % kMostBytes; }
uint8_t ByteOf(uint32_t qpn, uint32_t number, uint32_t at) {
  return static_cast<uint8_t>(qpn * 11 + number * 7 + at);
}

Ipv4 AddressOf(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) Die(text + " is no address");
  return Ipv4{ntohl(address.s_addr)};
}

class Peer {
 public:
  explicit Peer(const std::string& ifname) : memory_(kPlace * (kReceives + 1)) {
    Must(Device::Open(ifname, &device_));
    Must(CompletionQueue::Create(device_, kReceives + kSends, &cq_));
    Must(Memory::Register(device_, memory_.data(), memory_.size(), true, &registered_));
    Must(DatagramQp::Create(device_, cq_, kSends, kReceives, &qp_));
    for (uint32_t place = 0; place < kReceives; ++place) PostReceive(place);
  }

  std::string Join(const std::string& address, uint32_t qkey) {
    const Error error = qp_->Join({.address = AddressOf(address), .qkey = qkey});
    if (!error.ok()) return "error: " + error.message();
    return fmt::format("joined {} {}", ToString(device_->ip()), qp_->qpn());
  }

  std::string SetKey(uint32_t qkey) {
    const Error error = qp_->SetQkey(qkey);
    return error.ok() ? "key" : "error: " + error.message();
  }

  // One at a time: all have the same place.
  std::string Send(uint32_t first, uint32_t count) {
    uint8_t* const place = memory_.data() + kPlace * kReceives;
    for (uint32_t number = first; number < first + count; ++number) {
      for (uint32_t at = 0; at < BytesOf(number); ++at) place[at] = ByteOf(qp_->qpn(), number, at);
      ibv_sge sge{
          .addr = reinterpret_cast<uintptr_t>(place), .length = BytesOf(number), .lkey = registered_->lkey()};
      ibv_send_wr wr{}, *rest = nullptr;
      wr.wr_id = kReceives;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND_WITH_IMM;
      wr.send_flags = IBV_SEND_SIGNALED;
      wr.imm_data = htonl(number);
      if (qp_->PostSends(&wr, &rest) != 0) Die("a send is not posted");
      sent_ = false;
      while (!sent_) Poll();
    }
    return "sent";
  }

  std::string Take(uint32_t first, uint32_t count, const DatagramSource& from) {
    for (uint32_t number = first; number < first + count; ++number) {
      while (come_.empty()) Poll();
      const ibv_wc wc = come_.front();
      come_.pop_front();
      Check(wc, number, from);
      PostReceive(static_cast<uint32_t>(wc.wr_id));
    }
    return "took";
  }

  std::string Leave() {
    qp_->DestroyQp();
    return "left";
  }

  std::string Flush() {
    const uint32_t posted = posted_;
    qp_->ToError();
    while (posted_ > 0) Poll();
    return fmt::format("flushed {} of {}", flushed_, posted);
  }

 private:
  static void Must(const Error& error) {
    if (!error.ok()) Die(error.message());
  }

  void PostReceive(uint32_t place) {
    ibv_sge sge{.addr = reinterpret_cast<uintptr_t>(memory_.data() + kPlace * place),
                .length = kGrhBytes + kMostBytes,
                .lkey = registered_->lkey()};
    ibv_recv_wr wr{}, *rest = nullptr;
    wr.wr_id = place;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (qp_->PostRecvs(&wr, &rest) != 0) Die("a receive is not posted");
    ++posted_;
  }

  // Takes what has completed, or waits until something does.
  void Poll() {
    std::array<ibv_wc, 16> completions;
    int count = cq_->Poll(completions);
    if (count == 0) {
      cq_->RequestNotify();
      count = cq_->Poll(completions);
    }
    if (count < 0) Die("the completion queue is broken");
    for (int i = 0; i < count; ++i) OnCompletion(completions[static_cast<size_t>(i)]);
    if (count > 0) return;
    pollfd event{.fd = cq_->channel_fd(), .events = POLLIN, .revents = 0};
    if (poll(&event, 1, kPatienceMs) != 1)
      Die(fmt::format("nothing completes any more, {} receives are posted", posted_));
    cq_->ConsumeEvent();
  }

  void OnCompletion(const ibv_wc& wc) {
    if (wc.wr_id == kReceives) {
      if (wc.status != IBV_WC_SUCCESS) Die(fmt::format("a send: {}", ibv_wc_status_str(wc.status)));
      sent_ = true;
      return;
    }
    --posted_;
    if (wc.status == IBV_WC_WR_FLUSH_ERR) {
      ++flushed_;
    } else if (wc.status == IBV_WC_SUCCESS) {
      come_.push_back(wc);
    } else {
      Die(fmt::format("a receive: {}", ibv_wc_status_str(wc.status)));
    }
  }

  void Check(const ibv_wc& wc, uint32_t number, const DatagramSource& from) const {
    const uint8_t* const bytes = memory_.data() + kPlace * wc.wr_id;
    const auto source = SourceOf(wc, bytes);
    if (!source) Die("a datagram from nobody");
    const uint32_t came = ntohl(wc.imm_data);
    if (*source != from || (wc.wc_flags & IBV_WC_WITH_IMM) == 0 || came != number) {
      Die(fmt::format("datagram {} from {} {} in place of {} from {} {}", came, ToString(source->ip),
                      source->qpn, number, ToString(from.ip), from.qpn));
    }
    if (wc.byte_len != kGrhBytes + BytesOf(number)) Die(fmt::format("{} bytes", wc.byte_len));
    for (uint32_t at = 0; at < BytesOf(number); ++at) {
      if (bytes[kGrhBytes + at] != ByteOf(from.qpn, number, at))
        Die(fmt::format("byte {} of datagram {}", at, number));
    }
  }

  std::vector<uint8_t> memory_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<CompletionQueue> cq_;
  std::shared_ptr<Memory> registered_;
  std::unique_ptr<DatagramQp> qp_;
  std::deque<ibv_wc> come_;
  uint32_t posted_ = 0, flushed_ = 0;
  bool sent_ = false;
};

std::string Obey(Peer& peer, std::istringstream words) {
  std::string verb, address;
  uint32_t first = 0, second = 0, qpn = 0;
  words >> verb;
  if (verb == "join" && words >> address >> first) return peer.Join(address, first);
  if (verb == "key" && words >> first) return peer.SetKey(first);
  if (verb == "send" && words >> first >> second) return peer.Send(first, second);
  if (verb == "take" && words >> first >> second >> address >> qpn)
    return peer.Take(first, second, {.ip = AddressOf(address), .qpn = qpn});
  if (verb == "flush") return peer.Flush();
  if (verb == "leave") return peer.Leave();
  Die("what is " + words.str());
}

}  // namespace
}  // namespace epic::verbs

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: datagram_peer IFNAME\n";
    return 2;
  }
  epic::verbs::Peer peer(argv[1]);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << epic::verbs::Obey(peer, std::istringstream(line)) << std::endl;
  return 0;
}
