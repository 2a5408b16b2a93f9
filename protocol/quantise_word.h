// How a group is asked to send floating-point numbers as whole ones, as people write it.
#pragma once

#include <string>
#include <string_view>

namespace epic {

// Of "int8" *int8 becomes true: sums travel as blocks of INT8. Of a scale (IsScale), by std::from_chars, *scale
// becomes that: FP32 travels as INT32. Else what is wrong with it, "2x is not a number from 1e-20 to 1e+20, nor
// int8"; empty if nothing is.
std::string ReadQuantise(std::string_view text, float* scale, bool* int8);

}  // namespace epic
