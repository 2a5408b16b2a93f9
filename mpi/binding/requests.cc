// The calls of a communicator that are under way: they start and end in the order in which they were made.
#include "mpi/binding/comm.h"
#include "mpi/binding/process.h"

using epic::mpi::Group;

void EpicMpiComm::Add(EpicMpiRequest* request) {
  const std::lock_guard lock(mutex);
  (oldest == nullptr ? oldest : newest->next) = request;
  newest = request;
  if (waiting == nullptr) waiting = request;
  while (StartWaiting()) continue;
}

int EpicMpiComm::Run(const EpicMpiCall& call, const void* send, void* recv) {
  if (IsIdle()) {
    // And stays so: a communicator's collective calls come one after the other.
    const std::string message = group->Run(call, send, recv);
    const std::lock_guard lock(mutex);
    if (!message.empty()) return FailLocked(message);
    Count(call, place.group_ranks, KindOf(call).way);
    return 0;
  }
  EpicMpiRequest request{this, call, send, recv};
  Add(&request);
  int with_error = 0;
  epic::mpi::ProgressUntil(*mpi, [&] { return EpicMpiTest(&request, &with_error) != 0; });
  return with_error;
}

bool EpicMpiComm::IsIdle() {
  const std::lock_guard lock(mutex);
  return oldest == nullptr;
}

void EpicMpiComm::Progress() {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  while (oldest != nullptr) {
    if (oldest->pending != nullptr) {
      if (!oldest->pending->Test()) break;
      const std::string message = oldest->pending->Result();
      if (!message.empty()) FailLocked(message);
      --pending;
      EndOldest(message.empty() ? 0 : error.load());
    } else if (error != 0) {
      EndOldest(error);
    } else {
      break;  // nothing is pending, and the next has not been started: below
    }
  }
  while (StartWaiting()) continue;
  const bool leaves = freed && oldest == nullptr;
  lock.unlock();
  if (leaves) Leave();
}

void EpicMpiComm::EndOldest(int with_error) {
  EpicMpiRequest* const request = oldest;
  oldest = request->next;
  if (waiting == request) waiting = oldest;
  if (oldest == nullptr) newest = nullptr;
  request->pending = nullptr;
  request->error = with_error;
  if (with_error == 0) Count(request->call, place.group_ranks, KindOf(request->call).way);
  // It is the front end's from here on.
  request->ended.store(true, std::memory_order_release);
}

// Returns whether another one may be started.
bool EpicMpiComm::StartWaiting() {
  if (waiting == nullptr || error != 0 || pending >= kMostPending) return false;
  std::string message;
  switch (group->Start(waiting->call, waiting->send, waiting->recv, &waiting->pending, &message)) {
    case Group::Started::kYes:
      ++pending;
      waiting = waiting->next;
      return true;
    case Group::Started::kLater:
      if (pending > 0) return false;
      break;
    case Group::Started::kFailed:
      break;
  }
  // Other ranks may have started it: they have to learn that it cannot end.
  FailLocked(message);
  return false;
}

EpicMpiComm::Kind EpicMpiComm::KindOf(const EpicMpiCall& call) {
  const bool copies = call.collective == kEpicMpiBcast || call.collective == kEpicMpiAllgather;
  const bool barrier = call.collective == kEpicMpiBarrier;
  const bool scatters =
      call.collective == kEpicMpiReduceScatter || call.collective == kEpicMpiReduceScatterBlock;
  const auto ask = [this](const EpicMpiCall& of) {
    std::string text;
    const bool takes = group->Takes(of, &text);
    return Kind{.way = epic::mpi::WayOf((takes ? "by EPIC, " : "the MPI's own, ") + text), .refused = !takes};
  };
  Kind& kind = copies || barrier ? kinds[0][barrier ? 1 : 0] : kinds[call.type][call.op];
  if (kind.way == 0) {
    EpicMpiCall of_any_length = call;
    if (scatters) of_any_length.collective = kEpicMpiAllreduce;
    kind = ask(of_any_length);
  }
  if (!scatters || group == nullptr || kind.refused) return kind;
  if (scatter.kind.way == 0 || scatter.type != call.type || scatter.op != call.op ||
      scatter.count != call.count)
    scatter = {.type = call.type, .op = call.op, .count = call.count, .kind = ask(call)};
  return scatter.kind;
}

bool EpicMpiComm::Refuses(const EpicMpiCall& call) {
  const std::lock_guard lock(mutex);
  const Kind kind = KindOf(call);
  if (kind.refused) Count(call, place.group_ranks, kind.way);
  return kind.refused;
}

int EpicMpiComm::Fail(const std::string& text) {
  const std::lock_guard lock(mutex);
  return FailLocked(text);
}

int EpicMpiComm::FailLocked(const std::string& text) {
  if (group != nullptr) group->Abort(text);
  if (error == 0) error = mpi->error_code(text.c_str());
  return error;
}
