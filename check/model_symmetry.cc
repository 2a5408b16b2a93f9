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

// The least of what the symmetries make of it. Each word adds a row of terms, one for each symmetry, which
// lie side by side in memory.
uint64_t Model::Fingerprint(std::span<const Word> state, bool symmetric) {
  const size_t symmetries = symmetric ? symmetries_.size() : 1;
  std::array<uint64_t, kMostRelabellings> sums;
  uint64_t same = 0;
  for (size_t word = width_ - kCountWords; word < width_; ++word) same += Mixed(word, state[word]);
  std::fill_n(sums.begin(), symmetries, same);
  const auto add = [&](const uint64_t* terms) {
    for (size_t s = 0; s < symmetries; ++s) sums[s] += terms[s];
  };
  const size_t life = LifeOf(state);
  for (size_t n = 0; n < nodes(); ++n) add(StateTerms(life, n, state[n]));
  for (size_t c = 0; c < channels(); ++c) {
    // An empty channel adds nothing.
    if (const Word content = state[ChannelWord(c)]; content != 0) add(ContentTerms(c, content));
  }
  return *std::min_element(sums.begin(), sums.begin() + static_cast<ptrdiff_t>(symmetries));
}

const uint64_t* Model::StateTerms(size_t life, size_t node, uint32_t state) {
  const size_t place = life * nodes() + node;
  uint64_t* terms = RowOf(state_terms_[place], state);
  if (terms[0] != 0) return terms;
  for (size_t s = 0; s < symmetries_.size(); ++s) {
    const auto image = static_cast<size_t>(symmetries_[s][node]);
    terms[s] = Mixed(image, s == 0 ? state : RelabelledState(s, life, node, state));
  }
  return terms;
}

const uint64_t* Model::ContentTerms(size_t channel, uint32_t content) {
  // Packets name their ends, so that a content is one channel's.
  uint64_t* terms = RowOf(content_terms_, content);
  if (terms[0] != 0) return terms;
  for (size_t s = 0; s < symmetries_.size(); ++s) {
    // Between the hosts, where edges have no numbers of nodes, every rank stays in its place.
    const auto edge = s == 0 ? channel / 2 : static_cast<size_t>(symmetries_[s][channel / 2 + 1] - 1);
    terms[s] = Mixed(ChannelWord(2 * edge + channel % 2), RelabelledContent(s, content));
  }
  return terms;
}

uint64_t* Model::RowOf(std::vector<uint64_t>& table, uint32_t row) {
  const size_t width = symmetries_.size();
  if ((row + size_t{1}) * width > table.size())
    table.resize(std::max(row + size_t{1}, 2 * table.size() / width) * width);
  return table.data() + row * width;
}

uint32_t Model::RelabelledState(size_t symmetry, size_t life, size_t node, uint32_t state) {
  const Relabelling& to = symmetries_[symmetry];
  NodeStates& image = places_[life * nodes() + static_cast<size_t>(to[node])];
  image.node->LoadRelabelled(places_[life * nodes() + node].states[state], to);
  std::string bytes;
  image.node->Save(bytes);
  return InternState(image, bytes);
}

uint32_t Model::RelabelledContent(size_t symmetry, uint32_t content) {
  if (content == 0 || symmetry == 0) return content;
  if (const uint32_t known = At(relabelled_contents_[symmetry], content); known != kUnknown) return known;
  const PacketId head = RelabelledPacket(symmetries_[symmetry], contents_.At(content, 0));
  const uint32_t id = contents_.Prepend(head, RelabelledContent(symmetry, contents_.Rest(content)));
  return At(relabelled_contents_[symmetry], content) = id;
}

PacketId Model::RelabelledPacket(const Relabelling& to, PacketId packet) {
  roce::Packet moved = packets_[packet];
  const auto node_at = [&](Ip address) {
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
