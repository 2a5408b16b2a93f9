#include <gtest/gtest.h>

#include <array>

#include "softnic/core/nic_testing.h"

namespace epic::softnic::testing {
namespace {

using roce::Access;
using roce::PostResult;
using roce::QpState;
using roce::WcStatus;

constexpr uint32_t kPd = 1, kOtherPd = 2;
constexpr Qpn kQpn{16}, kOtherQpn{17};
constexpr uint64_t kAddress = 0x1000;

// A region of 100 bytes, and a window of each type.
struct Windows {
  Windows()
      : lkey(*table.Register(kPd, bytes.data(), kAddress, bytes.size(),
                             {.local_write = true, .mw_bind = true})),
        type_1(*table.AllocateWindow(kPd, false)),
        type_2(*table.AllocateWindow(kPd, true)) {}

  // Bytes 10 to 29, for the peer to write.
  roce::WindowBind BindOf(const MemoryTable::Window& window, uint32_t key_byte) const {
    return {.window = window.number,
            .rkey = key_byte,
            .lkey = lkey,
            .address = kAddress + 10,
            .length = 20,
            .remote_write = true};
  }
  bool Maps(uint32_t rkey, uint64_t address, uint32_t length, Qpn qpn = kQpn, uint32_t pd = kPd,
            Access access = Access::kRemoteWrite) const {
    return table.MapWindow(pd, qpn, access, rkey, address, length).has_value();
  }
  static uint32_t KeyOf(const MemoryTable::Window& window, uint32_t key_byte) {
    return (window.rkey & ~0xffu) | key_byte;
  }

  std::array<uint8_t, 100> bytes{};
  MemoryTable table;
  uint32_t lkey;
  MemoryTable::Window type_1, type_2;
};

TEST(MemoryWindowsTest, LetThePeerUseTheirPartOnly) {
  Windows w;
  EXPECT_FALSE(w.Maps(w.type_2.rkey, kAddress + 10, 1)) << "it is bound to nothing";
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_2, 7)));
  const uint32_t rkey = Windows::KeyOf(w.type_2, 7);
  EXPECT_EQ(w.table.MapWindow(kPd, kQpn, Access::kRemoteWrite, rkey, kAddress + 12, 4)->data(),
            w.bytes.data() + 12);
  EXPECT_TRUE(w.Maps(rkey, kAddress + 10, 20));
  EXPECT_FALSE(w.Maps(rkey, kAddress + 10, 21)) << "the region has the byte, the window has not";
  EXPECT_FALSE(w.Maps(rkey, kAddress + 9, 1));
  EXPECT_FALSE(w.Maps(rkey, kAddress + 31, 0xffffffff));
  EXPECT_FALSE(w.Maps(Windows::KeyOf(w.type_2, 8), kAddress + 10, 1)) << "another key";
  EXPECT_FALSE(w.Maps(rkey, kAddress + 10, 1, kQpn, kOtherPd));
  EXPECT_FALSE(w.Maps(rkey, kAddress + 10, 1, kOtherQpn)) << "type 2 is its queue pair's";
  for (const Access access :
       {Access::kRemoteRead, Access::kRemoteAtomic, Access::kLocalRead, Access::kLocalWrite})
    EXPECT_FALSE(w.Maps(rkey, kAddress + 10, 1, kQpn, kPd, access));
  EXPECT_FALSE(w.table.Map(kPd, Access::kLocalRead, rkey, kAddress + 10, 1)) << "it is no lkey";
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_1, 3)));
  EXPECT_TRUE(w.Maps(Windows::KeyOf(w.type_1, 3), kAddress + 10, 1, kOtherQpn)) << "type 1 is its domain's";
}

TEST(MemoryWindowsTest, KeepTheirRegion) {
  Windows w;
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_1, 1)));
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_2, 1)));
  EXPECT_FALSE(w.table.Deregister(w.lkey));
  EXPECT_TRUE(w.table.Invalidate(kPd, kQpn, Windows::KeyOf(w.type_2, 1)));
  EXPECT_FALSE(w.table.Deregister(w.lkey));
  EXPECT_TRUE(w.table.FreeWindow(w.type_1.number));
  EXPECT_FALSE(w.table.FreeWindow(w.type_1.number));
  EXPECT_TRUE(w.table.Deregister(w.lkey));
  EXPECT_NE(w.table.AllocateWindow(kPd, false)->rkey, w.type_1.rkey) << "it has the place, not the key";
}

TEST(MemoryWindowsTest, OfType1AreBoundAnewAndToNothing) {
  Windows w;
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_1, 1)));
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_1, 2)));
  EXPECT_FALSE(w.Maps(Windows::KeyOf(w.type_1, 1), kAddress + 10, 1)) << "the old key";
  EXPECT_TRUE(w.Maps(Windows::KeyOf(w.type_1, 2), kAddress + 10, 1));
  EXPECT_FALSE(w.table.Invalidate(kPd, kQpn, Windows::KeyOf(w.type_1, 2))) << "only those of type 2 are";
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, {.window = w.type_1.number, .rkey = 3}));
  EXPECT_FALSE(w.Maps(Windows::KeyOf(w.type_1, 2), kAddress + 10, 1));
  EXPECT_FALSE(w.Maps(Windows::KeyOf(w.type_1, 3), kAddress + 10, 1));
  EXPECT_TRUE(w.table.Deregister(w.lkey));
}

TEST(MemoryWindowsTest, OfType2AreInvalidatedByTheirQueuePairAlone) {
  Windows w;
  EXPECT_TRUE(w.table.Invalidate(kPd, kQpn, w.type_2.rkey)) << "bound to nothing, as it is then";
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_2, 1)));
  EXPECT_FALSE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_2, 2))) << "it is bound";
  const uint32_t rkey = Windows::KeyOf(w.type_2, 1);
  EXPECT_FALSE(w.table.Invalidate(kPd, kOtherQpn, rkey));
  EXPECT_FALSE(w.table.Invalidate(kOtherPd, kQpn, rkey));
  EXPECT_FALSE(w.table.Invalidate(kPd, kQpn, rkey + 1));
  EXPECT_FALSE(w.table.Invalidate(kPd, kQpn, w.lkey)) << "a region";
  EXPECT_FALSE(w.table.Invalidate(kPd, kQpn, 0));
  EXPECT_TRUE(w.Maps(rkey, kAddress + 10, 1)) << "nothing has changed";
  EXPECT_TRUE(w.table.Invalidate(kPd, kQpn, rkey));
  EXPECT_FALSE(w.Maps(rkey, kAddress + 10, 1));
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_2, 2)));
  w.table.ForgetQueuePair(kOtherQpn);
  EXPECT_TRUE(w.Maps(Windows::KeyOf(w.type_2, 2), kAddress + 10, 1));
  w.table.ForgetQueuePair(kQpn);
  EXPECT_FALSE(w.Maps(Windows::KeyOf(w.type_2, 2), kAddress + 10, 1)) << "another may get its number";
  EXPECT_TRUE(w.table.Deregister(w.lkey));
}

TEST(MemoryWindowsTest, ThatMayNotBeBoundStayAsTheyAre) {
  Windows w;
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, w.BindOf(w.type_1, 1)));
  const auto refused = [&](const MemoryTable::Window& window, auto change, uint32_t pd = kPd) {
    roce::WindowBind bind = w.BindOf(window, 9);
    change(bind);
    return !w.table.Bind(pd, kQpn, bind);
  };
  const auto nothing = [](roce::WindowBind&) {};
  const uint32_t unbindable = *w.table.Register(kPd, w.bytes.data(), kAddress, 100, {.local_write = true});
  const uint32_t read_only = *w.table.Register(kPd, w.bytes.data(), kAddress, 100, {.mw_bind = true});
  const uint32_t foreign =
      *w.table.Register(kOtherPd, w.bytes.data(), kAddress, 100, {.local_write = true, .mw_bind = true});
  for (const MemoryTable::Window& window : {w.type_1, w.type_2}) {
    EXPECT_TRUE(refused(window, nothing, kOtherPd)) << "by a queue pair of another domain";
    EXPECT_TRUE(refused(window, [](auto& b) { b.window += 1 << 24; })) << "one that is gone";
    EXPECT_TRUE(refused(window, [](auto& b) { b.lkey += 1; }));
    EXPECT_TRUE(refused(window, [&](auto& b) { b.lkey = unbindable; }));
    EXPECT_TRUE(refused(window, [&](auto& b) { b.lkey = read_only; })) << "to be written";
    EXPECT_TRUE(refused(window, [&](auto& b) { b.lkey = foreign; }));
    EXPECT_TRUE(refused(window, [](auto& b) { b.address = kAddress - 1; }));
    EXPECT_TRUE(refused(window, [](auto& b) { b.length = 91; }));
    EXPECT_TRUE(refused(window, [](auto& b) { b.length = UINT64_MAX; }));
  }
  EXPECT_TRUE(refused(w.type_2, [](auto& b) { b.length = 0; }));
  EXPECT_TRUE(refused(w.type_1, [](auto& b) { b.zero_based = true; }));
  EXPECT_TRUE(w.Maps(Windows::KeyOf(w.type_1, 1), kAddress + 10, 20));
  EXPECT_FALSE(refused(w.type_2, [&](auto& b) { b.lkey = read_only, b.remote_write = false; }));
}

TEST(MemoryWindowsTest, ZeroBasedOnesCountFromTheirBegin) {
  Windows w;
  roce::WindowBind bind = w.BindOf(w.type_2, 1);
  bind.zero_based = true;
  ASSERT_TRUE(w.table.Bind(kPd, kQpn, bind));
  const uint32_t rkey = Windows::KeyOf(w.type_2, 1);
  EXPECT_EQ(w.table.MapWindow(kPd, kQpn, Access::kRemoteWrite, rkey, 0, 20)->data(), w.bytes.data() + 10);
  EXPECT_FALSE(w.Maps(rkey, 1, 20));
  EXPECT_FALSE(w.Maps(rkey, kAddress + 10, 1));
}

// Through queue pairs: a peer writes by a window, gives it back by a Send, and may write no more.
TEST(MemoryWindowsTest, OfAQueuePairAreUsedAndGivenBack) {
  TwoQps t;
  t.nic.memory().Deregister(t.key);
  t.key = *t.nic.memory().Register(TwoQps::kPd, t.bytes.data(), 0, t.bytes.size(),
                                   {.local_write = true, .mw_bind = true});
  const MemoryTable::Window window = *t.nic.memory().AllocateWindow(TwoQps::kPd, true);
  roce::SendWr bind{.wr_id = 1, .opcode = roce::WrOpcode::kBindMw};
  bind.bind = {
      .window = window.number, .rkey = 5, .lkey = t.key, .address = 1000, .length = 8, .remote_write = true};
  ASSERT_EQ(t.nic.PostSend(t.b, bind), PostResult::kOk);
  ASSERT_EQ(t.nic.PostRecv(t.b, t.Recv(2, 2000, 50)), PostResult::kOk);
  t.Settle();
  const uint32_t rkey = Windows::KeyOf(window, 5);
  t.bytes[0] = 0x77;
  roce::SendWr write = t.Send(3, 0, 1);
  write.opcode = roce::WrOpcode::kWrite;
  write.remote_address = 1003;
  write.rkey = rkey;
  roce::SendWr back = t.Send(4, 0, 4);
  back.opcode = roce::WrOpcode::kSendInv;
  back.invalidate_rkey = rkey;
  for (const roce::SendWr& wr : {write, back, write}) ASSERT_EQ(t.nic.PostSend(t.a, wr), PostResult::kOk);
  t.Settle();
  EXPECT_EQ(t.bytes[1003], 0x77);
  const std::vector<Work> works = t.Poll();
  ASSERT_EQ(works.size(), 5u);
  EXPECT_EQ(works[0].completion.opcode, roce::WcOpcode::kBindMw);
  for (const Work& work : works) {
    if (work.completion.wr_id == 2) {
      EXPECT_TRUE(work.completion.has_invalidated);
      EXPECT_EQ(work.completion.invalidated_rkey, rkey);
    }
  }
  EXPECT_EQ(works[4].completion.status, WcStatus::kRemAccessErr);
  EXPECT_TRUE(t.nic.memory().Deregister(t.key)) << "nothing is bound to it";
}

}  // namespace
}  // namespace epic::softnic::testing
