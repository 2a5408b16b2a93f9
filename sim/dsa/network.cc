#include "sim/dsa/network.h"

#include <algorithm>
#include <bit>

namespace epic::sim::dsa {
namespace {

constexpr int64_t kShortBytes = 64;  // of a packet without values
constexpr int kLinksOnTheWay = 4;    // there and back between two hosts

bool HasValues(Kind kind) { return kind != Kind::kRequest && kind != Kind::kReminder; }

}  // namespace

Agenda::Agenda(uint32_t sources)
    : leaves_(std::bit_ceil(std::max(sources, 2U))), times_(leaves_, kEndOfTime) {
  winner_.resize(2 * static_cast<size_t>(leaves_));
  for (uint32_t source = 0; source < leaves_; ++source) winner_[leaves_ + source] = source;
  for (uint32_t node = leaves_ - 1; node > 0; --node) winner_[node] = winner_[2 * node];
}

void Agenda::Set(uint32_t source, Picos time) {
  times_[source] = time;
  for (uint32_t node = (leaves_ + source) / 2; node > 0; node /= 2) {
    const uint32_t low = winner_[2 * node];
    const uint32_t high = winner_[2 * node + 1];
    winner_[node] = times_[high] < times_[low] ? high : low;
  }
}

Network::Network(const JobsConfig& config, Records& records)
    : config_(config),
      records_(records),
      bits_per_second_(config.bits_per_second),
      delay_(config.round_trip / kLinksOnTheWay),
      marked_from_(ToPicos(config.ecn_bytes * 8 * kSecond / config.bits_per_second)),
      links_(2 * config.jobs.size() * static_cast<size_t>(config.workers + 1)),
      agenda_(static_cast<uint32_t>(links_.size() / 2 * 3)) {
  const auto lose = [&](uint32_t host, uint64_t loss) {
    for (const uint32_t link : {2 * host, 2 * host + 1}) {
      links_[link].loss = loss;
      links_[link].losses = Choices(config.seed * 1'000 + link);
    }
  };
  lose(WorkerHost(0, 0), config.worker_loss);
  lose(ServerHost(0), config.server_loss);
}

Picos Network::Send(Picos now, uint32_t number, Packet packet) {
  Link& link = links_[number];
  const int64_t bytes = HasValues(packet.kind) ? PacketBytes(config_) : kShortBytes;
  const bool is_down = number % 2 == 1;
  const bool is_server = number >= 2 * ServerHost(0);
  const Picos waits = std::max<Picos>(link.clock.free_at() - now, 0);
  if (is_down) {
    if (waits >= marked_from_) packet.marked = true;
    records_.longest_queue = std::max(records_.longest_queue, waits);
    if (is_server) records_.server_bytes += bytes;
  }
  const Picos left = link.clock.Take(now, bytes, bits_per_second_);
  if (link.loss > 0 && link.losses.Chance(link.loss)) {
    records_.NoteLost(packet);
    return left;
  }
  link.under_way.emplace_back(left + delay_, packet);
  if (link.under_way.size() == 1) agenda_.Set(number, left + delay_);
  return left;
}

Network::Due Network::TakeNext() {
  const uint32_t source = agenda_.source();
  Due due{.time = agenda_.time()};
  const uint32_t timers = 2 * hosts();
  if (source >= timers) {
    due.host = source - timers;
    due.is_timer = true;
    agenda_.Set(source, kEndOfTime);
    return due;
  }
  Link& link = links_[source];
  due.host = source / 2;
  due.is_up = source % 2 == 0;
  due.packet = link.under_way.front().second;
  link.under_way.pop_front();
  agenda_.Set(source, link.under_way.empty() ? kEndOfTime : link.under_way.front().first);
  return due;
}

}  // namespace epic::sim::dsa
