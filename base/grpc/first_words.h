// How a connection of gRPC begins (RFC 9113, section 3.4), as far as who answers it has to know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace epic {

inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr size_t kHttp2FrameHeader = 9;
// A client says its preface and its first settings at once, and waits for nobody before.
inline constexpr size_t kFirstWords = kHttp2Preface.size() + kHttp2FrameHeader;
inline constexpr uint8_t kHttp2Settings = 4;
inline constexpr uint8_t kHttp2Ack = 1;

enum class FirstWords : uint8_t { kMore, kGood, kWrong };

// Of the first bytes that have come, kFirstWords of them or more if there are.
inline FirstWords Judge(std::string_view heard) {
  const size_t preface = std::min(heard.size(), kHttp2Preface.size());
  if (heard.substr(0, preface) != kHttp2Preface.substr(0, preface)) return FirstWords::kWrong;
  if (heard.size() < kFirstWords) return FirstWords::kMore;
  return static_cast<uint8_t>(heard[kHttp2Preface.size() + 3]) == kHttp2Settings ? FirstWords::kGood
                                                                                  : FirstWords::kWrong;
}

// What a client says first: the preface, and settings without any.
inline std::string HelloOfHttp2() {
  return std::string(kHttp2Preface) + std::string("\0\0\0\4\0\0\0\0\0", kHttp2FrameHeader);
}

// Whether the frames that a server has sent so far have one that acknowledges settings: it has read what was
// said.
inline bool HasSettingsAck(std::string_view heard) {
  while (heard.size() >= kHttp2FrameHeader) {
    const auto byte = [&heard](size_t i) { return static_cast<uint8_t>(heard[i]); };
    if (byte(3) == kHttp2Settings && (byte(4) & kHttp2Ack) != 0) return true;
    const size_t length = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
    if (heard.size() - kHttp2FrameHeader < length) return false;
    heard.remove_prefix(kHttp2FrameHeader + length);
  }
  return false;
}

}  // namespace epic
