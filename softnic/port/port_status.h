// A port as its consumer knows it, and what there is to tell of it: from all that the kernel says of
// interfaces, what is news.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/ip.h"
#include "io/link_watch.h"

namespace epic::softnic {

enum class PortNews : uint8_t {
  kActive,  // the link has come up
  kError,   // the link has gone down
  kGids,    // the table of addresses has changed
  kGone,    // the interface has gone: nothing else comes behind
};

class PortStatus {
 public:
  // Of the interface with this index, as it is now.
  PortStatus(uint32_t index, bool up, std::vector<Ip> gids)
      : index_(index), up_(up), gids_(std::move(gids)) {}

  // The kernel said this, of any interface.
  void OnChange(const io::InterfaceChange& change);
  // So it is now: something was said that was not heard.
  void OnState(bool exists, bool up);
  // Whether its addresses are to be looked at; OnGids tells them.
  bool wants_gids() const { return wants_gids_ && !gone_; }
  void OnGids(std::vector<Ip> gids);

  std::optional<PortNews> FirstNews() const;
  void TakeNews() { news_.pop_front(); }

 private:
  static constexpr size_t kMaxNews = 64;  // what nobody takes goes, the oldest first
  void Tell(PortNews news);

  uint32_t index_;
  bool up_;
  bool gone_ = false;
  bool wants_gids_ = false;
  std::vector<Ip> gids_;
  std::deque<PortNews> news_;
};

}  // namespace epic::softnic
