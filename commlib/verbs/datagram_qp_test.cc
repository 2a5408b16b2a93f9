#include "commlib/verbs/datagram_qp.h"

#include <algorithm>
#include <array>

#include "gtest/gtest.h"

namespace epic::verbs {
namespace {

// From 10.0.0.3 to 239.192.0.1.
constexpr std::array<uint8_t, 20> kHeader = {0x45, 0, 0,  60, 0, 0, 0,   0,   1, 17,
                                             0,    0, 10, 0,  0, 3, 239, 192, 0, 1};

std::array<uint8_t, kGrhBytes> GrhOf(uint8_t before) {
  std::array<uint8_t, kGrhBytes> grh;
  grh.fill(before);
  std::ranges::copy(kHeader, grh.begin() + 20);
  return grh;
}

ibv_wc CompletionWith(unsigned flags) {
  ibv_wc wc{};
  wc.wc_flags = flags;
  wc.src_qp = 17;
  return wc;
}

TEST(DatagramSourceTest, TheAddressIsThatOfTheIpv4HeaderInTheLastOctets) {
  const ibv_wc wc = CompletionWith(IBV_WC_GRH | IBV_WC_WITH_IMM);
  // What is before it is undefined.
  for (const uint8_t before : {uint8_t{0}, uint8_t{0xff}})
    EXPECT_EQ(SourceOf(wc, GrhOf(before).data()), (DatagramSource{.ip = Ipv4{0x0a000003}, .qpn = 17}));
}

TEST(DatagramSourceTest, WithoutSuchAHeaderItIsNobody) {
  EXPECT_EQ(SourceOf(CompletionWith(IBV_WC_WITH_IMM), GrhOf(0).data()), std::nullopt);
  EXPECT_EQ(SourceOf(CompletionWith(IBV_WC_GRH), GrhOf(0x60).data()), std::nullopt) << "IPv6's, all of it";
  auto with_options = GrhOf(0);
  with_options[20] = 0x46;
  EXPECT_EQ(SourceOf(CompletionWith(IBV_WC_GRH), with_options.data()), std::nullopt);
}

}  // namespace
}  // namespace epic::verbs
