// Included by check/snapshot.h only: the fields of the path between the hosts, bound by name as those of
// switches are in check/snapshot_fields.h. A field more does not compile until it is named here, and saved or
// NotSaved.
#pragma once

#include "check/snapshot.h"

namespace epic {

// Its buffers are the node's, by the call's number.
template <typename A>
void Snapshot::HostsCall(A& a, Of<A, HostCall>& call, Of<A, std::vector<Buffers>>& buffers) {
  auto& [header, send, recv, part_stride, call_bytes, readable] = call;
  Header(a, header);
  a.Numbers(part_stride, call_bytes, readable.address, readable.rkey);
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
void Snapshot::Chunks(A& a, Of<A, ChunkMap>& map) {
  auto& [chunks, words, parts_missing, bits, missing] = map;
  a.Numbers(chunks, words, parts_missing);
  Sequence(a, bits, [&a](auto& word) { a.Numbers(word); });
  Sequence(a, missing, [&a](auto& count) { a.Numbers(count); });
}

template <typename A>
void Snapshot::Multicast(A& a, Of<A, HostMulticast>& multicast, Of<A, std::vector<Buffers>>& buffers) {
  auto& [config, memory_begin, counts, own, is_open, epoch, changes_key, recvs, recvs_done, fetches, call,
         has_own, parts, part_chunks, tokens_in_use, slice, is_beside, chunks, own_next, own_end, own_given,
         own_sent, tokens, here, is_slice_open, own_before, whole, said, awaits_ack, heard, left_address,
         left_rkey, left_own, read_distance, read_chunk, reads, empty_reads_left, right_done, said_done] =
      multicast;
  NotSaved(config, memory_begin, counts, own, left_own);
  a.Numbers(is_open, epoch, changes_key, recvs, recvs_done);
  for (auto& fetch : fetches) {
    auto& [fetch_recvs, fetch_recvs_done, messages, unacked] = fetch;
    a.Numbers(fetch_recvs, fetch_recvs_done, messages);
    Sequence(a, unacked, [&a](auto& sent) { a.Numbers(sent); });
  }
  Maybe(a, call, [&](auto& of) { HostsCall(a, of, buffers); });
  a.Numbers(has_own, parts, part_chunks, tokens_in_use, slice, is_beside, own_next, own_end, own_given,
            own_sent, is_slice_open, own_before, whole, said, awaits_ack, heard, left_address, left_rkey,
            read_distance, read_chunk, empty_reads_left, right_done, said_done);
  Chunks(a, chunks);
  for (auto& token : tokens) a.Numbers(token.visits, token.is_here);
  Sequence(a, here, [&a](auto& token) { a.Numbers(token); });
  Sequence(a, reads, [&a](auto& read) { a.Numbers(read.part, read.run.first, read.run.count); });
}

template <typename A>
void Snapshot::Connection(A& a, Of<A, HostPath::Connection>& connection) {
  auto& [peer, in_cube, connected, ready, recvs, recvs_done, sends, sends_done, messages, exchange_recvs,
         exchange_recvs_done] = connection;
  NotSaved(peer, in_cube);
  a.Numbers(connected, ready, recvs, recvs_done, sends, sends_done, messages, exchange_recvs,
            exchange_recvs_done);
}

template <typename A>
void Snapshot::Ended(A& a, Of<A, Finished>& ended) {
  auto& [op, outcome, reply] = ended;
  a.Numbers(op, outcome);
  Header(a, reply);
}

template <typename A>
void Snapshot::HostsPath(A& a, Of<A, HostPath>& path, Of<A, std::vector<Buffers>>& buffers) {
  auto& [config, exchange, ring, multicast, memory, connections, calls, first_op, phase, exchange_number,
         ahead, next, previous, right, left, datagrams, unopened, unacked, posted, failure, culprit,
         failure_reply, finished] = path;
  NotSaved(config, next, previous, right, left, culprit);
  Exchange(a, exchange, buffers);
  Ring(a, ring, buffers);
  Multicast(a, multicast, buffers);
  a.Blob(memory);
  for (auto& connection : connections) Connection(a, connection);
  Connection(a, datagrams);
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

// Calls that have ended, or are under way, have their buffers; addresses are kept as places in them.
template <typename A>
void Snapshot::Multicast(A& a, Of<A, check::MulticastHost>& host, Of<A, std::vector<Buffers>>& buffers) {
  auto& [system, node, path, recvs, sends, datagram_recvs, datagrams_sent, ended, calls] = host;
  NotSaved(system, node, datagrams_sent);
  a.Numbers(calls);
  Sequence(a, ended, [&a](auto& of_call) { Ended(a, of_call); });
  for (size_t call = 0; call < calls; ++call) a.Blob(buffers[call].recv);
  HostsPath(a, path, buffers);
  check::Regions memory;
  memory.Add(path.memory_);
  for (auto& buffer : buffers) memory.Add(buffer.recv);
  const auto posted = [&](auto& each) {
    auto& [wr_id, address, length, is_read] = each;
    a.Numbers(wr_id, length, is_read);
    const bool has_address = a.Size(address != 0 ? 1 : 0) != 0;
    if constexpr (A::kReads) address = 0;
    if (has_address) a.Address(address, memory);
  };
  for (auto& queue : recvs) Sequence(a, queue, posted);
  for (auto& queue : sends) Sequence(a, queue, posted);
  Sequence(a, datagram_recvs, posted);
}

inline void Snapshot::Renumber(check::MulticastHost& host) {
  HostMulticast& multicast = host.path_.multicast_;
  HostPath::Connection& datagrams = host.path_.datagrams_;
  multicast.recvs_ -= multicast.recvs_done_;
  multicast.recvs_done_ = 0;
  datagrams.recvs -= datagrams.recvs_done;
  datagrams.recvs_done = 0;
  for (size_t i = 0; i < host.datagram_recvs_.size(); ++i) {
    auto& posted = host.datagram_recvs_[i];
    posted.wr_id = i << 1 | 1;
    posted.address = std::bit_cast<uint64_t>(host.path_.memory_.data() + multicast.ReceivePlace(i));
  }
}

}  // namespace epic
