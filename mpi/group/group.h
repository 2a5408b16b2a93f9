// A communicator's group of EPIC, behind an interface: the library that has it is loaded when one is needed,
// so that MPI programs without EPIC load neither it nor what it stands on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "mpi/core/call.h"
#include "mpi/core/join.h"
#include "mpi/core/settings.h"

namespace epic::mpi {

// A call under way. Ends before its group is left.
class Pending {
 public:
  virtual ~Pending() = default;
  // Whether the call has ended; makes progress.
  virtual bool Test() = 0;
  // Of a call that has ended: empty, or what went wrong, which is the end of the group.
  virtual std::string Result() = 0;
};

class Group {
 public:
  enum class Started {
    kYes,
    kLater,   // nothing was sent; when other calls have ended there may be room
    kFailed,  // for good
  };

  // Leaves the group if Leave has not: an abort to the other ranks.
  virtual ~Group() = default;

  // Returns when all ranks have joined, or with why not. Needs no MPI, so any thread may call
  // it. `progress` is of the MPI's messages: Run calls it while it waits. `gives_up`, if it is not empty, is
  // asked every now and then: true ends the join.
  virtual JoinResult Join(const std::string& name, int rank, int ranks, const Settings& settings,
                          void (*progress)(), const std::function<bool()>& gives_up) = 0;

  // Whether the group makes calls of this type and operation; the same on every rank. `text` is which way
  // they go, "through the switches", or "between the hosts: " and why; else why it does not.
  virtual bool Takes(const EpicMpiCall& call, std::string* text) = 0;

  // Starts a call that the group takes. Buffers are as epic.h has them, elements those of `call`; they belong
  // to the group until its Test has been true. Calls end in the order in which they were started. `message`
  // says why it was not started.
  virtual Started Start(const EpicMpiCall& call, const void* send, void* recv,
                        std::unique_ptr<Pending>* pending, std::string* message) = 0;
  // Makes a call that the group takes, to its end; nothing is under way. Empty, or what went wrong, which is
  // the end of the group.
  virtual std::string Run(const EpicMpiCall& call, const void* send, void* recv) = 0;
  // Whether nothing has ended the group, as far as this rank knows. Any thread may ask.
  virtual bool IsWhole() = 0;
  // Ends the group on all ranks.
  virtual void Abort(const std::string& reason) = 0;

  // Leaves when all ranks do, or after so long. Any thread may call it; nothing may be called afterwards.
  virtual void Leave(std::chrono::milliseconds at_most) = 0;
};

// The one function of the library, by this name. Ownership goes to the caller.
using NewGroup = Group* (*)();
inline constexpr const char* kNewGroup = "EpicMpiNewGroup";
inline constexpr const char* kGroupLibrary = "libepic_mpi_group.so";

}  // namespace epic::mpi
