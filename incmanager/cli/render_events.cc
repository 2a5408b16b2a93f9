#include <fmt/format.h>

#include <ctime>

#include "incmanager/cli/render.h"

namespace epic::manager {

std::string RenderEvents(const proto::EventsReply& reply, int64_t now_ms) {
  std::string out;
  for (const proto::Event& event : reply.events()) {
    const std::time_t at = static_cast<std::time_t>((now_ms - event.ms_ago()) / 1000);
    std::tm local{};
    localtime_r(&at, &local);
    char time[32];
    std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &local);
    out += fmt::format("{}  {}: {}", time, event.about(), event.text());
    if (event.times() > 1) out += fmt::format(" ({} times)", event.times());
    out += "\n";
  }
  return out;
}

}  // namespace epic::manager
