// What all tables of the command line are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/switch.pb.h"

namespace epic::manager {

// Rows of equal length, at least one, as lines with columns of equal width; the first is the head. Each line
// begins with indent.
std::string Table(const std::vector<std::vector<std::string>>& rows, const std::string& indent = "");

// "II (translated)"; of what is no mode "-".
std::string ModeName(proto::Mode number);

// What stands in cells: an IPv4 address, and a MAC address by its bytes.
std::string Ip(uint32_t raw);
std::string MacText(const std::string& bytes);

}  // namespace epic::manager
