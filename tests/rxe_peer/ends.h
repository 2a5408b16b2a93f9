// What both ends of a connection know of each other without being told.
#pragma once

#include <cstdint>

namespace epic::rxe_peer {

// Our end's; the guest's are chosen by rdma_rxe, and its program prints them. kOurUcQpn is that of the
// unreliable connection beside a reliable one.
inline constexpr uint32_t kOurQpn = 0x77, kOurUcQpn = 0x78, kOurRkey = 7;
// Of our first memory window; the others' follow.
inline constexpr uint32_t kOurWindow = 0x100;
// Of both directions: the numbers wrap after 16 packets.
inline constexpr uint32_t kFirstPsn = 0xfffff0;
inline constexpr uint32_t kPathMtu = 1024;

// What rxe_reader writes and reads: our memory from 0 on holds OurByte, which kUnwritten never is.
inline constexpr uint32_t kWriteBytes = 10;
inline constexpr uint64_t kWriteAt = 8192;
inline constexpr uint32_t kMostReadBytes = 8192;
inline constexpr uint8_t kUnwritten = 0xee;
inline constexpr uint8_t OurByte(uint32_t at) { return static_cast<uint8_t>(at % 199); }

}  // namespace epic::rxe_peer
