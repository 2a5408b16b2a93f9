// What a loaded library imports, replaced: for libraries that look past verbs for what softnic has not.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace epic {

struct Import {
  const char* name;
  void* function;  // of the same type
};

// Whether anything can be replaced on this processor.
#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool kReplacesImports = true;
#else
inline constexpr bool kReplacesImports = false;
#endif

// From now on those loaded libraries whose files' names start with `prefix` call these functions in place of
// those that they import by these names. What holds the functions has to stay loaded. Returns how many
// imports were replaced, or had been.
size_t ReplaceImports(std::string_view prefix, std::span<const Import> imports);

// The name of a file without its folders.
std::string_view FileNameOf(std::string_view path);

}  // namespace epic
