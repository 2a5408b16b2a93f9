// A library that asks the C library for something.
#include <unistd.h>

extern "C" __attribute__((visibility("default"))) int EpicAskAccess(const char* path) {
  return access(path, F_OK);
}
