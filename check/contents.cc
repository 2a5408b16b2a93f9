#include "check/contents.h"

namespace epic::check {

uint32_t Contents::Prepended(PacketId head, uint32_t rest) {
  const auto [it, fresh] = prepended_.try_emplace(Key(head, rest), static_cast<uint32_t>(lists_.size()));
  if (fresh) lists_.push_back({head, rest, lists_[rest].length + 1});
  return it->second;
}

uint32_t Contents::Add(uint32_t content, PacketId packet) {
  if (content == 0) return Prepended(packet, 0);
  if (const auto it = added_.find(Key(content, packet)); it != added_.end()) return it->second;
  const List old = lists_[content];
  const bool first = !ordered_ && packets_.Before(packet, old.head);
  const uint32_t made = first ? Prepended(packet, content) : Prepended(old.head, Add(old.rest, packet));
  added_.emplace(Key(content, packet), made);
  return made;
}

uint32_t Contents::Without(uint32_t content, uint32_t place) {
  const List old = lists_[content];
  return place == 0 ? old.rest : Prepended(old.head, Without(old.rest, place - 1));
}

uint32_t Contents::Doubled(uint32_t content, uint32_t place) {
  const List old = lists_[content];
  return Prepended(old.head, place == 0 ? content : Doubled(old.rest, place - 1));
}

uint32_t Contents::Swapped(uint32_t content) {
  const List first = lists_[content];
  const List second = lists_[first.rest];
  return Prepended(second.head, Prepended(first.head, second.rest));
}

}  // namespace epic::check
