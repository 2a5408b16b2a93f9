// Our end as the responder to rxe_reader's Write and Read, with one of two troubles:
//
//   --lose          the answers to each request get lost once, but for the first --late packets of them:
//   those
//                   come just before the answers to the repetitions. None leaves before the Read is repeated.
//   --cut-after N   the memory that is read goes away when N packets of it have been sent.
//
// Prints how many answers it kept back, and of what requests.
#include <cstdio>
#include <optional>
#include <set>

#include "base/command_line.h"
#include "tests/rxe_peer/ends.h"
#include "tests/rxe_peer/wire_end.h"

namespace epic::rxe_peer {
namespace {

struct Options {
  EndOptions end;
  bool lose = false;
  uint32_t late = 0;
  std::optional<uint32_t> cut_after;
};

// What may be read is there until it is taken away.
class ReadableMemory final : public FlatMemory {
 public:
  ReadableMemory() : FlatMemory(kWriteAt + kWriteBytes) {
    for (uint32_t i = 0; i < kMostReadBytes; ++i) bytes[i] = OurByte(i);
  }
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    if (access == roce::Access::kRemoteRead && gone) return std::nullopt;
    return FlatMemory::Map(access, key, address, length);
  }
  bool gone = false;
};

class AnsweringEnd final : public WireEnd {
 public:
  AnsweringEnd(const Options& options, ReadableMemory& memory, io::PcapPort& port, io::EventLoop& loop)
      : WireEnd(options.end, memory, port, loop), options_(options), memory_(memory), holds_(options.lose) {}

  void Send(const roce::Packet& packet) override {
    std::vector<uint8_t> frame = FrameOf(packet);
    if (holds_) return (is_repetition_ ? repeated_answers_ : first_answers_).push_back(std::move(frame));
    Transmit(frame);
    if (packet.bth.opcode != roce::Opcode::kRcAck && ++sent_of_read_ == options_.cut_after)
      memory_.gone = true;
  }

  int Report() override {
    std::printf("kept %zu then %zu\n", first_answers_.size(), repeated_answers_.size());
    return 0;
  }

 private:
  void Hear(const roce::Packet& packet) override {
    is_repetition_ = !heard_psns_.insert(packet.bth.psn.raw()).second;
    if (packet.bth.opcode == roce::Opcode::kRcReadRequest) {
      if (options_.cut_after == 0) memory_.gone = true;
      if (is_repetition_ && holds_) Release();
    }
    WireEnd::Hear(packet);
    // At once, so that what is sent answers this packet.
    Work();
  }

  void Use(roce::QueuePair& qp) override {
    for (roce::Completion ignored; qp.NextCompletion(&ignored);) {
    }
  }

  // Some of the first answers come late, the rest is lost, and all later ones pass.
  void Release() {
    holds_ = false;
    for (size_t i = 0; i < first_answers_.size() && i < options_.late; ++i) Transmit(first_answers_[i]);
    for (const auto& frame : repeated_answers_) Transmit(frame);
  }

  const Options& options_;
  ReadableMemory& memory_;
  bool holds_;
  bool is_repetition_ = false;
  std::set<uint32_t> heard_psns_;
  std::vector<std::vector<uint8_t>> first_answers_, repeated_answers_;
  uint32_t sent_of_read_ = 0;
};

}  // namespace
}  // namespace epic::rxe_peer

int main(int argc, char** argv) {
  using namespace epic::rxe_peer;
  Options options;
  epic::CommandLine line(
      "The responder to a Write and a Read of an rdma_rxe host, in trouble; needs CAP_NET_RAW");
  options.end.AddTo(line);
  line.AddFlag("--lose", &options.lose, "lose the first answer to each request");
  line.Add("--late", &options.late, "of the lost packets, so many come late");
  line.Add("--cut-after", &options.cut_after, "packets of the Read, after which its memory is gone");
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  ReadableMemory memory;
  return RunEnd(options.end.interface, [&](epic::io::PcapPort& port, epic::io::EventLoop& loop) {
    return std::make_unique<AnsweringEnd>(options, memory, port, loop);
  });
}
