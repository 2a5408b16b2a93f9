// Included by check/snapshot.h only: the fields of the path between the hosts, bound by name as those of
// switches are in check/snapshot_fields.h. A field more does not compile until it is named here, and saved or
// NotSaved.
#pragma once

#include "check/snapshot.h"

namespace epic {

// Its buffers are the node's, by the call's number.
template <typename A>
void Snapshot::HostsCall(A& a, Of<A, HostCall>& call, Of<A, std::vector<Buffers>>& buffers) {
  auto& [header, send, recv, part_stride] = call;
  Header(a, header);
  a.Numbers(part_stride);
  const bool has_buffers = a.Size(send != nullptr || recv != nullptr ? 1 : 0) != 0;
  if constexpr (A::kReads) {
    Buffers& own = buffers[header.invocation];
    send = has_buffers ? own.send.data() : nullptr;
    recv = has_buffers ? own.recv.data() : nullptr;
  }
}

template <typename A>
void Snapshot::Exchange(A& a, Of<A, HostExchange>& exchange, Of<A, std::vector<Buffers>>& buffers) {
  auto& [own_rank, cube, inline_bytes, rounds, memory_bytes, call, invocation, begun, block, round_number,
         sent, message, is_shared, is_delivered] = exchange;
  NotSaved(own_rank, cube, inline_bytes, memory_bytes);
  for (auto& round : rounds) {
    auto& [kind, peer, bit, sends, receives, place, arrived] = round;
    NotSaved(kind, peer, bit, sends, receives, place);
    a.Numbers(arrived[0], arrived[1]);
  }
  HostsCall(a, call, buffers);
  {
    auto& [header, begin, end] = block;
    Header(a, header);
    a.Numbers(begin, end);
  }
  a.Numbers(invocation, begun, round_number, sent, message, is_shared, is_delivered);
}

template <typename A>
void Snapshot::Ring(A& a, Of<A, HostRing>& ring, Of<A, std::vector<Buffers>>& buffers) {
  auto& [config, call, element_bytes, sends, receives, is_chain, first_step, pieces, piece_bytes, block_bytes,
         lag, end, posted, received, sent] = ring;
  NotSaved(config);
  HostsCall(a, call, buffers);
  a.Numbers(element_bytes, sends, receives, is_chain, first_step, pieces, piece_bytes, block_bytes, lag, end,
            posted, received, sent);
}

template <typename A>
void Snapshot::Ended(A& a, Of<A, Finished>& ended) {
  auto& [op, outcome, reply] = ended;
  a.Numbers(op, outcome);
  Header(a, reply);
}

template <typename A>
void Snapshot::HostsPath(A& a, Of<A, HostPath>& path, Of<A, std::vector<Buffers>>& buffers) {
  auto& [config, exchange, ring, memory, connections, calls, first_op, phase, exchange_number, ahead, next,
         previous, unopened, unacked, posted, failure, failure_reply, finished] = path;
  NotSaved(config, next, previous);
  Exchange(a, exchange, buffers);
  Ring(a, ring, buffers);
  a.Blob(memory);
  for (auto& connection : connections) {
    auto& [peer, in_cube, connected, ready, recvs, recvs_done, sends, sends_done, exchange_recvs,
           exchange_recvs_done] = connection;
    NotSaved(peer, in_cube);
    a.Numbers(connected, ready, recvs, recvs_done, sends, sends_done, exchange_recvs, exchange_recvs_done);
  }
  Sequence(a, calls, [&](auto& call) { HostsCall(a, call, buffers); });
  a.Numbers(first_op, phase, exchange_number, ahead, unopened, unacked, posted);
  Maybe(a, failure, [&a](auto& outcome) { a.Numbers(outcome); });
  Header(a, failure_reply);
  Sequence(a, finished, [&a](auto& ended) { Ended(a, ended); });
}

// Of one that has left nothing is left but how its calls ended. What a call that ended in an error has in its
// buffer is of no account.
template <typename A>
void Snapshot::Path(A& a, Of<A, check::PathHost>& host, Of<A, std::vector<Buffers>>& buffers) {
  auto& [system, node, path, queue_pairs, ended, calls, has_left] = host;
  NotSaved(system, node);
  a.Numbers(calls, has_left);
  Sequence(a, ended, [&a](auto& of_call) { Ended(a, of_call); });
  for (size_t call = 0; call < calls; ++call) {
    if (call >= ended.size() || ended[call].outcome == Outcome::kOk) a.Blob(buffers[call].recv);
  }
  if (has_left) return;
  HostsPath(a, path, buffers);
  check::Regions memory;
  memory.Add(path.memory_);
  for (auto& buffer : buffers) {
    memory.Add(buffer.send);
    memory.Add(buffer.recv);
  }
  for (auto& qp : queue_pairs) QueuePair(a, qp, memory);
}

}  // namespace epic
