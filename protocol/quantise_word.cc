#include "protocol/quantise_word.h"

#include "base/number.h"
#include "protocol/types.h"

namespace epic {

std::string ReadQuantise(std::string_view text, float* scale, bool* int8) {
  float read = 0;
  if (text == "int8") {
    *int8 = true;
  } else if (ReadNumber(text, &read) && IsScale(read)) {
    *scale = read;
  } else {
    return std::string(text) + " is not a number from 1e-20 to 1e+20, nor int8";
  }
  return {};
}

}  // namespace epic
