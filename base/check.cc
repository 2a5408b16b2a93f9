#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace epic::internal {
namespace {

CheckHandler g_handler = nullptr;

}  // namespace

void CheckFailed(const char* file, int line, const char* condition) {
  if (g_handler != nullptr) g_handler(file, line, condition);
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

void SetCheckHandler(CheckHandler handler) { g_handler = handler; }

}  // namespace epic::internal
