// Random bytes that nobody can foretell, from the system; for secrets, and for numbers that must differ
// between processes. What a seed is to repeat takes a generator of its own.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace epic {

// So many bytes; empty if the system gives none. Waits only on a machine that has just been started.
inline std::string SystemRandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t got = 0; got < count;) {
    const ssize_t more = getrandom(bytes.data() + got, count - got, 0);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return {};
    got += static_cast<size_t>(more);
  }
  return bytes;
}

// A number that is not 0; nothing if the system gives none.
inline std::optional<uint64_t> SystemRandom() {
  for (;;) {
    const std::string bytes = SystemRandomBytes(sizeof(uint64_t));
    if (bytes.empty()) return std::nullopt;
    uint64_t number = 0;
    for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
    if (number != 0) return number;
  }
}

}  // namespace epic
