// What states become under the symmetries of the system.
#include <algorithm>
#include <array>

#include "check/model.h"

namespace epic::check {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;

// SplitMix64.
constexpr uint64_t Scrambled(uint64_t x) {
  x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr auto kFactors = [] {
  std::array<std::array<uint64_t, 2>, kMostWords> factors{};
  for (size_t i = 0; i < kMostWords; ++i) factors[i] = {Scrambled(2 * i), Scrambled(2 * i + 1) | 1};
  return factors;
}();

// Multiplication with factors of the place's own, both halves of the product: words that differ give sums
// that differ.
uint64_t Mixed(size_t place, Word word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{word + kFactors[place][0]} * kFactors[place][1];
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint32_t& At(std::vector<uint32_t>& table, uint32_t at) {
  if (at >= table.size()) table.resize(std::max<size_t>(at + 1, 2 * table.size()), kUnknown);
  return table[at];
}

}  // namespace

// The least of what the symmetries make of it.
uint64_t Model::Fingerprint(std::span<const Word> state, bool symmetric) {
  uint64_t least = UINT64_MAX;
  for (size_t s = 0; s < (symmetric ? symmetries_.size() : 1); ++s) {
    const Relabelling& to = symmetries_[s];
    uint64_t sum = Mixed(FaultWord(), state[FaultWord()]) + Mixed(PhaseWord(), state[PhaseWord()]);
    for (size_t n = 0; n < nodes(); ++n) {
      const auto image = static_cast<size_t>(to[n]);
      sum +=
          Mixed(image, s == 0 ? state[n] : RelabelledState(s, LifeOf(state), static_cast<int>(n), state[n]));
    }
    for (size_t c = 0; c < channels(); ++c) {
      const Word content = state[ChannelWord(c)];
      const auto image = 2 * static_cast<size_t>(to[c / 2 + 1] - 1) + c % 2;
      sum += Mixed(ChannelWord(image), s == 0 || content == 0 ? content : RelabelledContent(s, content));
    }
    least = std::min(least, sum);
  }
  return least;
}

uint32_t Model::RelabelledState(size_t symmetry, size_t life, int node, uint32_t state) {
  const size_t place = life * nodes() + static_cast<size_t>(node);
  auto& table = relabelled_states_[symmetry][place];
  if (const uint32_t known = At(table, state); known != kUnknown) return known;
  const Relabelling& to = symmetries_[symmetry];
  Place& image = places_[life * nodes() + static_cast<size_t>(to[static_cast<size_t>(node)])];
  image.node->LoadRelabelled(places_[place].states[state], to);
  std::string bytes;
  image.node->Save(bytes);
  const uint32_t id = InternState(image, bytes);
  return At(table, state) = id;
}

uint32_t Model::RelabelledContent(size_t symmetry, uint32_t content) {
  if (content == 0) return 0;
  if (const uint32_t known = At(relabelled_contents_[symmetry], content); known != kUnknown) return known;
  const Content old = contents_[content];
  const PacketId head = RelabelledPacket(symmetries_[symmetry], old.head);
  const uint32_t id = Prepend(head, RelabelledContent(symmetry, old.rest));
  return At(relabelled_contents_[symmetry], content) = id;
}

PacketId Model::RelabelledPacket(const Relabelling& to, PacketId packet) {
  roce::Packet moved = packets_[packet];
  const auto node_at = [&](Ipv4 address) {
    int node = 0;
    while (system().AddressOf(node) != address) ++node;
    return node;
  };
  const int source = node_at(moved.src_ip);
  const int destination = node_at(moved.dst_ip);
  const int new_source = to[static_cast<size_t>(source)];
  const int new_destination = to[static_cast<size_t>(destination)];
  moved.src_ip = system().AddressOf(new_source);
  moved.dst_ip = system().AddressOf(new_destination);
  // In the life that it is of.
  const auto life = std::ranges::find(
      lives_, moved.bth.dest_qp, [&](const System& system) { return system.QpnAt(destination, source); });
  moved.bth.dest_qp = life->QpnAt(new_destination, new_source);
  std::vector<uint8_t> payload(moved.payload.begin(), moved.payload.end());
  if (moved.bth.opcode != roce::Opcode::kRcSendOnlyImm) system().Relabel(to, payload);
  moved.payload = payload;
  return packets_.Intern(moved);
}

}  // namespace epic::check
