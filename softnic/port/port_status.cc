#include "softnic/port/port_status.h"

#include "softnic/port/gids.h"

namespace epic::softnic {

void PortStatus::Tell(PortNews news) {
  if (news_.size() == kMaxNews) news_.pop_front();
  news_.push_back(news);
}

void PortStatus::OnChange(const io::InterfaceChange& change) {
  using Kind = io::InterfaceChange::Kind;
  if (change.index != index_) return;
  if (change.kind == Kind::kAddresses) {
    wants_gids_ = true;
    // Told now: by the time the table is looked at the address may be back.
    if (change.gone_address && !gone_ && RemoveGid(*change.gone_address, &gids_)) Tell(PortNews::kGids);
  } else {
    OnState(change.kind != Kind::kGone, change.up);
  }
}

void PortStatus::OnState(bool exists, bool up) {
  if (gone_) return;
  if (!exists) {
    Tell(PortNews::kGone);
    gone_ = true;
  } else if (up != up_) {
    Tell(up ? PortNews::kActive : PortNews::kError);
    up_ = up;
  }
}

void PortStatus::OnGids(std::vector<Ip> gids) {
  if (gone_) return;
  if (gids != gids_) Tell(PortNews::kGids);
  gids_ = std::move(gids);
  wants_gids_ = false;
}

std::optional<PortNews> PortStatus::FirstNews() const {
  return news_.empty() ? std::nullopt : std::optional(news_.front());
}

}  // namespace epic::softnic
