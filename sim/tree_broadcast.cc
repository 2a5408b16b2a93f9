#include "sim/tree_broadcast.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "base/ceil_div.h"
#include "base/check.h"
#include "sim/own_memory.h"

namespace epic::sim {
namespace {

int NomialParent(int rank, int k) {
  int power = 1;
  while (rank / power % k == 0) power *= k;
  return rank - rank / power % k * power;
}

int ParentIn(HostTree tree, int rank) {
  switch (tree) {
    case HostTree::kBinomial:
      return NomialParent(rank, 2);
    case HostTree::kFourNomial:
      return NomialParent(rank, 4);
    case HostTree::kBinaryHeap:
      return (rank - 1) / 2;
  }
  EPIC_CHECK(false);
}

uint8_t ByteAt(size_t i) { return static_cast<uint8_t>(i * 2654435761u >> 13); }

}  // namespace

std::optional<HostTree> HostTreeNamed(std::string_view name) {
  if (name == "binomial") return HostTree::kBinomial;
  if (name == "4-nomial") return HostTree::kFourNomial;
  if (name == "binary-heap") return HostTree::kBinaryHeap;
  return std::nullopt;
}

std::vector<std::vector<int>> ChildrenIn(HostTree tree, int ranks) {
  std::vector<std::vector<int>> children(static_cast<size_t>(ranks));
  std::vector<int> below(static_cast<size_t>(ranks), 1);  // with itself
  // A parent has a lower number: what is below a rank is known when it is its turn.
  for (int rank = ranks - 1; rank > 0; --rank)
    below[static_cast<size_t>(ParentIn(tree, rank))] += below[static_cast<size_t>(rank)];
  for (int rank = 1; rank < ranks; ++rank)
    children[static_cast<size_t>(ParentIn(tree, rank))].push_back(rank);
  for (std::vector<int>& of : children)
    std::ranges::stable_sort(of, std::greater<>(),
                             [&](int rank) { return below[static_cast<size_t>(rank)]; });
  return children;
}

class TreeRank final : public PeerDriver {
 public:
  // The root has no parent, and the data.
  TreeRank(std::optional<int> parent, std::vector<int> children, uint64_t bytes, uint64_t segment_bytes)
      : parent_(parent), children_(std::move(children)), data_(bytes), segment_bytes_(segment_bytes) {
    if (parent_) return;
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = ByteAt(i);
    received_ = segments();
  }

  uint64_t segments() const { return CeilDiv(uint64_t{data_.size()}, segment_bytes_); }
  bool has_all() const { return received_ == segments(); }
  bool failed() const { return failed_; }
  const std::vector<uint8_t>& data() const { return data_; }

  void OnCompletion(Nanos, int, const roce::Completion& c) override {
    if (!c.is_recv()) under_way_ -= Segment(c.wr_id).size();
    if (!c.ok() || (c.is_recv() && c.bytes != Segment(received_).size())) failed_ = true;
    if (c.is_recv() && !failed_) ++received_;
  }

  void Poll(Nanos, Peers& peers) override {
    for (; parent_ && posted_ < segments(); ++posted_) {
      const std::span<uint8_t> into = Segment(posted_);
      Check(peers.PostRecv(*parent_, {.wr_id = posted_, .sges = SgesOf(into.data(), into.size())}));
    }
    for (; !failed_ && sent_ < received_ * children_.size(); ++sent_) {
      const uint64_t segment = sent_ / children_.size();
      const std::span<uint8_t> from = Segment(segment);
      if (under_way_ > 0 && under_way_ + from.size() > TreeBroadcast::kMostUnderWay) return;
      under_way_ += from.size();
      Check(peers.PostSend(children_[sent_ % children_.size()],
                           {.wr_id = segment, .sges = SgesOf(from.data(), from.size())}));
    }
  }

 private:
  std::span<uint8_t> Segment(uint64_t number) {
    const uint64_t begin = number * segment_bytes_;
    return std::span(data_).subspan(begin, std::min<uint64_t>(segment_bytes_, data_.size() - begin));
  }
  static void Check(roce::PostResult result) { EPIC_CHECK(result == roce::PostResult::kOk); }

  const std::optional<int> parent_;
  const std::vector<int> children_;
  std::vector<uint8_t> data_;
  const uint64_t segment_bytes_;
  uint64_t posted_ = 0, received_ = 0;  // segments
  uint64_t sent_ = 0;                   // to one child each
  uint64_t under_way_ = 0;              // bytes
  bool failed_ = false;
};

TreeBroadcast::TreeBroadcast(World& world, int group, HostTree tree, uint64_t bytes, uint64_t segment_bytes) {
  EPIC_CHECK(bytes > 0 && segment_bytes > 0);
  const uint64_t segment = std::min(segment_bytes, bytes);
  const PeerConfig config{.send_depth = static_cast<uint32_t>(kMostUnderWay / segment + 1),
                          .recv_depth = static_cast<uint32_t>(CeilDiv(bytes, segment))};
  std::vector<std::vector<int>> children = ChildrenIn(tree, world.ranks(group));
  for (int rank = 0; rank < world.ranks(group); ++rank) {
    const std::optional<int> parent = rank == 0 ? std::nullopt : std::optional(ParentIn(tree, rank));
    TreeRank& added = *ranks_.emplace_back(
        std::make_unique<TreeRank>(parent, std::move(children[static_cast<size_t>(rank)]), bytes, segment));
    world.AddPeers(rank, added, config, group);
  }
  for (int rank = 1; rank < world.ranks(group); ++rank) world.ConnectPeers(ParentIn(tree, rank), rank, group);
}

TreeBroadcast::~TreeBroadcast() = default;

bool TreeBroadcast::Has(int rank) const { return ranks_[static_cast<size_t>(rank)]->has_all(); }

bool TreeBroadcast::IsRight() const {
  return std::ranges::all_of(ranks_, [&](const auto& rank) {
    return rank->has_all() && !rank->failed() && rank->data() == ranks_.front()->data();
  });
}

}  // namespace epic::sim
