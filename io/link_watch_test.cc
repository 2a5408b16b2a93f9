#include "io/link_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cstring>

namespace epic::io {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Optional;

using Bytes = std::vector<uint8_t>;

template <typename Head>
void Append(const Head& head, Bytes* to) {
  to->resize(to->size() + sizeof head);
  std::memcpy(&to->end()[-static_cast<std::ptrdiff_t>(sizeof head)], &head, sizeof head);
}

void AppendAttribute(uint16_t type, const std::string& value, Bytes* to) {
  Append(rtattr{.rta_len = static_cast<uint16_t>(RTA_LENGTH(value.size())), .rta_type = type}, to);
  to->insert(to->end(), value.begin(), value.end());
  to->resize((to->size() + 3) / 4 * 4);
}

// As the kernel says it: the name is not the first attribute.
Bytes LinkMessage(uint16_t type, const std::string& name) {
  Bytes body;
  Append(ifinfomsg{}, &body);
  AppendAttribute(IFLA_MTU, "\x68\x10\x01", &body);
  AppendAttribute(IFLA_IFNAME, name + '\0', &body);
  AppendAttribute(IFLA_QDISC, "noqueue", &body);
  AppendAttribute(IFLA_CARRIER_DOWN_COUNT, std::string("\7\0\0\0", 4), &body);
  Bytes message;
  Append(nlmsghdr{.nlmsg_len = static_cast<uint32_t>(sizeof(nlmsghdr) + body.size()), .nlmsg_type = type},
         &message);
  message.insert(message.end(), body.begin(), body.end());
  return message;
}

struct Heard {
  static void Add(void* user, const InterfaceChange& change) {
    auto* heard = static_cast<Heard*>(user);
    heard->names.emplace_back(change.name);
    heard->changes.push_back(change);
    heard->changes.back().name = {};  // it lies in the message
  }
  std::vector<std::string> names;
  std::vector<InterfaceChange> changes;
};

std::vector<std::string> NamesIn(std::span<const uint8_t> messages) {
  Heard heard;
  ForEachChange(messages, Heard::Add, &heard);
  return heard.names;
}

TEST(LinkWatch, SaysWhichInterfacesMessagesAreAbout) {
  Bytes all = LinkMessage(RTM_NEWLINK, "swp1");
  const Bytes more = LinkMessage(RTM_DELLINK, "swp12345");
  all.insert(all.end(), more.begin(), more.end());
  EXPECT_THAT(NamesIn(all), ElementsAre("swp1", "swp12345"));
  EXPECT_THAT(NamesIn({}), IsEmpty());
  Heard heard;
  ForEachChange(all, Heard::Add, &heard);
  EXPECT_THAT(heard.changes[0].times_down, Optional(7u));
}

TEST(LinkWatch, ReadsNothingBehindTheEnd) {
  const Bytes whole = LinkMessage(RTM_NEWLINK, "swp1");
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(NamesIn(cut), IsEmpty()) << size;
  }
  // An attribute that is longer than its message, and one without room for its own head.
  for (const uint16_t length : {uint16_t{0xffff}, uint16_t{3}}) {
    Bytes bad = whole;
    std::memcpy(&bad[sizeof(nlmsghdr) + sizeof(ifinfomsg)], &length, sizeof length);
    EXPECT_THAT(NamesIn(bad), ElementsAre("")) << length;
  }
}

template <typename Body>
void AppendMessage(uint16_t type, const Body& body, Bytes* to) {
  Append(nlmsghdr{.nlmsg_len = sizeof(nlmsghdr) + sizeof body, .nlmsg_type = type}, to);
  Append(body, to);
}

TEST(LinkWatch, SaysWhatMessagesChange) {
  using Kind = InterfaceChange::Kind;
  Bytes all;
  AppendMessage(RTM_NEWLINK, ifinfomsg{.ifi_index = 3, .ifi_flags = IFF_UP | IFF_RUNNING}, &all);
  AppendMessage(RTM_NEWLINK, ifinfomsg{.ifi_index = 4, .ifi_flags = IFF_UP}, &all);  // without a carrier
  AppendMessage(RTM_NEWLINK, ifinfomsg{.ifi_index = 5, .ifi_flags = IFF_RUNNING}, &all);
  AppendMessage(RTM_DELLINK, ifinfomsg{.ifi_family = AF_BRIDGE, .ifi_index = 6}, &all);  // left a bridge
  AppendMessage(RTM_DELLINK, ifinfomsg{.ifi_index = 7}, &all);
  AppendMessage(RTM_NEWADDR, ifaddrmsg{.ifa_family = AF_INET6, .ifa_index = 8}, &all);
  AppendMessage(RTM_DELADDR, ifaddrmsg{.ifa_family = AF_INET, .ifa_index = 9}, &all);
  AppendMessage(RTM_NEWROUTE, rtmsg{}, &all);
  Heard heard;
  ForEachChange(all, Heard::Add, &heard);
  const auto are = [](Kind kind, uint32_t index, bool up) {
    return AllOf(Field(&InterfaceChange::kind, kind), Field(&InterfaceChange::index, index),
                 Field(&InterfaceChange::up, up));
  };
  EXPECT_THAT(heard.changes, ElementsAre(are(Kind::kState, 3, true), are(Kind::kState, 4, false),
                                         are(Kind::kState, 5, false), are(Kind::kGone, 7, false),
                                         are(Kind::kAddresses, 8, false), are(Kind::kAddresses, 9, false)));
  for (size_t size = 0; size < sizeof(nlmsghdr) + sizeof(ifinfomsg); ++size) {
    heard.changes.clear();
    ForEachChange(std::span(all).first(size), Heard::Add, &heard);
    EXPECT_THAT(heard.changes, IsEmpty()) << size;
  }
}

// The address of a message of this type whose attributes are these.
std::optional<Ip> GoneIn(uint16_t type, const std::vector<std::pair<uint16_t, std::string>>& attributes) {
  Bytes body, message;
  Append(ifaddrmsg{.ifa_family = AF_INET, .ifa_index = 9}, &body);
  for (const auto& [kind, value] : attributes) AppendAttribute(kind, value, &body);
  Append(nlmsghdr{.nlmsg_len = static_cast<uint32_t>(sizeof(nlmsghdr) + body.size()), .nlmsg_type = type},
         &message);
  message.insert(message.end(), body.begin(), body.end());
  Heard heard;
  ForEachChange(message, Heard::Add, &heard);
  return heard.changes.size() == 1 ? heard.changes[0].gone_address : std::nullopt;
}

TEST(LinkWatch, SaysWhichAddressHasGone) {
  const std::string own{10, 8, 0, 1}, peer{10, 8, 0, 2}, wide(16, 0x20);
  EXPECT_THAT(GoneIn(RTM_DELADDR, {{IFA_ADDRESS, peer}, {IFA_LOCAL, own}}), Optional(Ip(Ipv4{0x0a080001})));
  EXPECT_THAT(GoneIn(RTM_DELADDR, {{IFA_ADDRESS, wide}}),
              Optional(Ip::Of(reinterpret_cast<const uint8_t*>(wide.data()))));
  EXPECT_EQ(GoneIn(RTM_NEWADDR, {{IFA_LOCAL, own}}), std::nullopt);
  EXPECT_EQ(GoneIn(RTM_DELADDR, {}), std::nullopt);
  EXPECT_EQ(GoneIn(RTM_DELADDR, {{IFA_LOCAL, std::string(5, 1)}}), std::nullopt);
}

TEST(LinkWatch, NothingToReadIsNoChange) {
  auto watch = LinkWatch::Open();
  ASSERT_TRUE(watch.ok()) << watch.status();
  Heard heard;
  EXPECT_TRUE(watch->ReadChanges(Heard::Add, &heard));
  auto both = LinkWatch::Open(/*addresses=*/true);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_TRUE(both->ReadChanges(Heard::Add, &heard));
}

}  // namespace
}  // namespace epic::io
