// Included by check/snapshot.h only: the fields of mode VI, in which switches read and write hosts' memory,
// bound by name as those of switches are in check/snapshot_fields.h. A field more does not compile until it
// is named here, and saved or NotSaved.
#pragma once

#include <algorithm>

#include "check/snapshot.h"

namespace epic {

// What queue pairs have that read, or are read, or write, beside what all have.
template <typename A>
void Snapshot::RemoteAccess(A& a, Of<A, roce::QueuePair>& qp) {
  auto& tx = qp.tx_;
  const size_t entries = tx.sends.size();
  for (size_t i = 0; i < entries; ++i) a.Numbers(tx.sends[i].remote_address, tx.sends[i].rkey);
  a.Numbers(tx.reads_in_flight, tx.reads_awaited, tx.reads_late);
  Queue(a, qp.rx_.reads, [&a](auto& record) {
    auto& [opcode, first, last, reth, original] = record;
    NotSaved(original);  // of atomics
    a.Number(first);
    a.Number(last);
    a.Numbers(opcode, reth.virtual_address, reth.rkey, reth.dma_length);
  });
  // Of the Write that is coming in.
  auto& [message, filled, write] = qp.rx_.in;
  NotSaved(filled);  // as of Sends
  if constexpr (A::kReads) write = {};
  if (message == roce::Message::kWrite) a.Numbers(write.virtual_address, write.rkey, write.dma_length);
}

template <typename A>
void Snapshot::Pulled(A& a, Of<A, PulledBuffers>& buffers) {
  auto& [send, recv] = buffers;
  a.Numbers(send.address, send.rkey, recv.address, recv.rkey);
}

// Behind the state of the queue pairs. Of a Read that is under way there is what has come.
template <typename A>
void Snapshot::Reads(A& a, Of<A, engine::TerminatedState>& state,
                     std::span<std::conditional_t<A::kReads, uint8_t, const uint8_t>> memory,
                     uint32_t path_mtu) {
  auto& [hosts, pulled, owed_reply] = *state.initiated;
  NotSaved(pulled);
  Maybe(a, owed_reply, [&a](auto& header) { Header(a, header); });
  for (size_t c = 0; c < hosts.size(); ++c) {
    if (!hosts[c]) continue;
    auto& [read, whole, next, descriptors] = *hosts[c];
    auto& qp = state.children[c].qp;
    Inlined(a, qp);
    RemoteAccess(a, qp);
    Messages(a, read);
    a.Numbers(whole, next.part, next.message);
    for (auto& descriptor : descriptors) {
      auto& [source, destination] = descriptor;
      for (auto* parts : {&source, &destination}) {
        auto& [address, stride, rkey] = *parts;
        a.Numbers(address, stride, rkey);
      }
    }
    for (size_t i = 0; i < whole; ++i) a.Blob(memory.subspan(read.messages_[i].at, read.messages_[i].bytes));
    if (whole == read.messages_.size()) continue;
    const size_t come = static_cast<size_t>(std::max<int64_t>(0, CameOfRead(qp))) * path_mtu;
    a.Blob(memory.subspan(read.messages_[whole].at, come));
  }
}

// Packets of the oldest Read that have come; it may be behind other requests.
inline int64_t Snapshot::CameOfRead(const roce::QueuePair& qp) {
  for (size_t i = 0; i < qp.tx_.sends.size(); ++i) {
    if (qp.tx_.sends[i].opcode == roce::WrOpcode::kRead) return qp.tx_.una - qp.tx_.sends[i].first;
  }
  return 0;
}

}  // namespace epic
