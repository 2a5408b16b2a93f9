// A group for tests that make no calls.
#pragma once

#include <memory>
#include <string>

#include "mpi/group/group.h"

namespace epic::mpi {

class NoGroup : public Group {
 public:
  explicit NoGroup(bool is_whole = true) : is_whole_(is_whole) {}
  JoinResult Join(const std::string&, int, int, const Settings&, void (*)(), const std::function<bool()>&) override {
    return {};
  }
  bool Takes(const EpicMpiCall&, std::string*) override { return true; }
  Started Start(const EpicMpiCall&, const void*, void*, std::unique_ptr<Pending>*, std::string*) override {
    return Started::kFailed;
  }
  std::string Run(const EpicMpiCall&, const void*, void*) override { return ""; }
  bool IsWhole() override { return is_whole_; }
  void Abort(const std::string&) override {}
  void Leave(std::chrono::milliseconds) override {}

 private:
  const bool is_whole_;
};

}  // namespace epic::mpi
