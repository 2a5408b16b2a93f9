// What commands print.
#pragma once

#include <string>

namespace epic::manager {

// Writes all of the text to standard output. std::system_error where it cannot be written, at once and not
// when the program ends.
void Write(const std::string& text);

}  // namespace epic::manager
