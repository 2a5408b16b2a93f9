// A manager that does not lead: it serves the manager's port, and answers everything with who does
// (PROTOCOL-CONTROL.md, 16).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace epic::manager {

class Standby {
 public:
  // Serves on listen (as ListenAddress takes it) until it goes. words: of the answer, as "stands by: b:7400
  // leads"; called on threads of its own. deaf, and errors: as ManagerServer's.
  static StatusOr<std::unique_ptr<Standby>> Start(const std::string& listen,
                                                  std::function<std::string()> words,
                                                  std::function<void(const std::string& why)> deaf);
  ~Standby();
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;

  int port() const;

 private:
  struct Impl;
  explicit Standby(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace epic::manager
