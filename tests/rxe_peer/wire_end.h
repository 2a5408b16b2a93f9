// Our end of a connection with an rdma_rxe host: roce/transport's queue pair on one interface through
// libpcap. Answers ARP for its address. Prints "there" when it listens, and goes on until standard input
// ends, so that the host gets its answers for as long as it may want them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "io/event_loop.h"
#include "io/pcap_port.h"
#include "roce/arp.h"
#include "roce/frame.h"
#include "roce/transport/queue_pair.h"

namespace epic::rxe_peer {

struct EndOptions {
  std::string interface;
  uint32_t address = 0, peer_address = 0;
  std::string peer_mac;
  uint32_t peer_qpn = 0;

  void AddTo(const Command& line);
};

// Of an end that does something to the peer's memory, and loses frames.
struct ExchangeOptions {
  EndOptions end;
  uint32_t peer_rkey = 0;
  uint64_t peer_memory = 0;
  uint32_t loss_per_mille = 0;
  uint64_t seed = 1;

  void AddTo(const Command& line);
};

// Which frames are lost, by seed.
class Losses {
 public:
  explicit Losses(const ExchangeOptions& options)
      : per_mille_(options.loss_per_mille), random_(options.seed) {}
  // Whether the next one is.
  bool Next() {
    const bool lost = random_() % 1000 < per_mille_;
    count_ += lost;
    return lost;
  }
  int count() const { return count_; }

 private:
  uint32_t per_mille_;
  std::mt19937_64 random_;
  int count_ = 0;
};

// What the peer may read and write, at addresses from 0.
class FlatMemory : public roce::Memory {
 public:
  explicit FlatMemory(size_t size) : bytes(size) {}
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override;
  std::vector<uint8_t> bytes;
};

class WireEnd : public roce::PacketSink {
 public:
  WireEnd(const EndOptions& options, roce::Memory& memory, io::PcapPort& port, io::EventLoop& loop);

  void OnFrame(std::span<const uint8_t> frame);
  // Everything that can be done now; sets the timer for the rest.
  void Work();
  // At the end of input: what has happened, as the program's exit status.
  virtual int Report() = 0;

 protected:
  // A packet for us; the base hands it to the queue pair.
  virtual void Hear(const roce::Packet& packet);
  // Takes completions, posts requests.
  virtual void Use(roce::QueuePair& qp) = 0;

  std::vector<uint8_t> FrameOf(const roce::Packet& packet);
  void Transmit(std::span<const uint8_t> frame) { port_.sender().Send(frame); }
  roce::QueuePair& qp() { return qp_; }
  // Whether anything has come from the peer.
  bool heard() const { return heard_; }

 private:
  void AnswerArp(const roce::Arp& arp);

  const EndOptions& options_;
  roce::Memory& memory_;
  io::PcapPort& port_;
  io::EventLoop& loop_;
  roce::QueuePair qp_;
  roce::MacAddress peer_mac_{};
  uint16_t ip_id_ = 0;
  bool heard_ = false;
};

// Runs the end that `make` makes; the process's exit status.
int RunEnd(const std::string& interface,
           const std::function<std::unique_ptr<WireEnd>(io::PcapPort&, io::EventLoop&)>& make);

}  // namespace epic::rxe_peer
