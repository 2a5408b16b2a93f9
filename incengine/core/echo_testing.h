// What every answer of a switch to an echo request has.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "roce/view.h"

namespace epic::engine {

// That `reply` goes back to whom the request is from, with what it carries: all behind the ports, or behind
// ICMP's type and checksum.
inline void ExpectEchoOf(std::span<const uint8_t> request, std::span<const uint8_t> reply) {
  ASSERT_EQ(reply.size(), request.size());
  const auto asked = roce::EthernetView::Of(request), ethernet = roce::EthernetView::Of(reply);
  EXPECT_EQ(ethernet->dst(), asked->src());
  EXPECT_EQ(ethernet->src(), asked->dst());
  const auto asked_ip = roce::Ipv4View::Of(asked->payload()), ip = roce::Ipv4View::Of(ethernet->payload());
  EXPECT_TRUE(ip->checksum_ok());
  EXPECT_EQ(ip->src(), asked_ip->dst());
  EXPECT_EQ(ip->dst(), asked_ip->src());
  EXPECT_TRUE(std::equal(reply.begin() + 38, reply.end(), request.begin() + 38));
}

}  // namespace epic::engine
