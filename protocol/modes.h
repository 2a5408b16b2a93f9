// The modes: the ways in which switches realise a group (EPIC paper, section 4). One row for each, with what
// everybody who names, chooses or judges modes has to know of them; what a switch needs to run one is in
// incengine/modes/table.h. A new mode begins here (docs/ADDING-A-MODE.md).
//
// Windows have no column: the hosts' rule is the same in all modes (docs/PROTOCOL.md, section 4).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace epic {

// The numbers are those of proto/switch.proto, of traces and of replay lines; none is ever given to another.
enum class Mode : uint8_t {
  kUnspecified = 0,
  kTerminated = 1,
  kTranslated = 2,
  kAugmented = 3,
  kSpliced = 4,
  kPooled = 5,
  kInitiated = 6,
};

// Who sees to it that what is lost is sent again, and whom an acknowledgement to a host speaks for. It
// decides which modes may share a tree (MayMix).
enum class Reliability : uint8_t {
  kUnspecified,  // of no mode
  // Each hop acknowledges and repeats what travels on it; the acknowledgement is the switch's own.
  kPerHop,
  // Switches reflect acknowledgements between hosts: what a host sent is acknowledged to it when all who
  // receive it have acknowledged it.
  kEndToEnd,
};

// The paper's formula for the buffers of a switch: so many windows of B times a length, for each edge of the
// tree at this switch or once (EPIC paper, appendix F.3).
struct BufferFormula {
  std::string_view text;    // as "4(H-1)BL"
  uint32_t windows = 0;     // the factor of BL
  bool whole_path = false;  // the length is that of the way from the root to its farthest host, else of a hop
  bool per_edge = false;    // times D + 1
};

// What a group's region of a switch's memory has (protocol/context_memory.h).
enum class ContextParts : uint8_t {
  kNone,            // of no mode
  kRings,           // messages as they come from each neighbour, and sums of them
  kRingsAndReads,   // and what is read of each child's memory
  kUpPipe,          // slots of partial sums; at the root, of results
  kUpAndDownPipe,   // and behind them slots of results on their way down, as they are on the wire
  kSlotsAndBuffer,  // slots of both, whose payloads lie in a pool, and a buffer for a sum that comes back
};

struct ModeInfo {
  Mode mode = Mode::kUnspecified;
  std::string_view numeral;  // I to III are the EPIC paper's
  std::string_view name;     // "connection ..." there
  Reliability reliability{};
  // Switches are the ends of connections: they sum and replicate whole messages, and may use or refuse them
  // as a host's NIC does.
  bool ends_connections = false;
  // A switch bears hosts' addresses: each host is told that of another host of its group in place of its
  // switch's, and the switch speaks to it under that one (docs/PROTOCOL-MODE-IV.md).
  bool bears_hosts = false;
  // Switches read what hosts give out of their memory, and write results into it: a host sends control
  // messages alone, and says in them where its data lie (docs/PROTOCOL-MODE-VI.md).
  bool reads_hosts = false;
  // It is being built: nobody can choose it. Only the engine, the simulation and the checker have it.
  bool hidden = false;
  // Payloads lie in a pool that all such groups of a switch share, and a host lends memory for what finds no
  // place there (docs/PROTOCOL-MODE-V.md). One switch sums for the group; other modes have memory of their
  // own.
  bool in_pool = false;
  // Children may change places, and nothing but their places changes: nothing goes by their order, and
  // nothing but endpoints, slots and control slots tells one from another (what check/symmetry.cc relabels).
  bool children_alike = false;
  ContextParts parts{};
  BufferFormula buffer;
  BufferFormula reproducible_buffer;  // of a group whose sums have the same bits each time
};

// Row n - 1 is mode n.
inline constexpr std::array kModes = {
    ModeInfo{.mode = Mode::kTerminated,
             .numeral = "I",
             .name = "terminated",
             .reliability = Reliability::kPerHop,
             .ends_connections = true,
             .children_alike = false,  // they are added in order, always
             .parts = ContextParts::kRings,
             .buffer = {.text = "(D+1)*2BL", .windows = 2, .per_edge = true},
             .reproducible_buffer = {.text = "(D+1)*2BL", .windows = 2, .per_edge = true}},
    ModeInfo{
        .mode = Mode::kTranslated,
        .numeral = "II",
        .name = "translated",
        .reliability = Reliability::kEndToEnd,
        .children_alike = true,
        .parts = ContextParts::kUpPipe,
        .buffer = {.text = "4(H-1)BL", .windows = 4, .whole_path = true},
        .reproducible_buffer = {.text = "4(H-1)(D+1)BL", .windows = 4, .whole_path = true, .per_edge = true}},
    ModeInfo{.mode = Mode::kAugmented,
             .numeral = "III",
             .name = "augmented",
             .reliability = Reliability::kPerHop,
             .children_alike = true,
             .parts = ContextParts::kUpAndDownPipe,
             .buffer = {.text = "4BL", .windows = 4},
             .reproducible_buffer = {.text = "(D+1)*2BL", .windows = 2, .per_edge = true}},
    ModeInfo{
        .mode = Mode::kSpliced,
        .numeral = "IV",
        .name = "spliced",
        .reliability = Reliability::kEndToEnd,
        .bears_hosts = true,
        .children_alike = false,  // each has another one's address
        .parts = ContextParts::kUpPipe,
        .buffer = {.text = "4(H-1)BL", .windows = 4, .whole_path = true},
        .reproducible_buffer = {.text = "4(H-1)(D+1)BL", .windows = 4, .whole_path = true, .per_edge = true}},
    // The buffers are those of DSA, section II-B, for one job.
    ModeInfo{.mode = Mode::kPooled,
             .numeral = "V",
             .name = "pooled",
             .reliability = Reliability::kPerHop,
             .in_pool = true,
             .children_alike = true,
             .parts = ContextParts::kSlotsAndBuffer,
             .buffer = {.text = "BL", .windows = 1},
             .reproducible_buffer = {.text = "BL", .windows = 1}},
    // Mode I's, whose rings it has, and one more for each host.
    ModeInfo{.mode = Mode::kInitiated,
             .numeral = "VI",
             .name = "initiated",
             .reliability = Reliability::kPerHop,
             .ends_connections = true,
             .reads_hosts = true,
             .hidden = true,
             .children_alike = false,  // they are added in order, always
             .parts = ContextParts::kRingsAndReads,
             .buffer = {.text = "(D+1)*2BL", .windows = 2, .per_edge = true},
             .reproducible_buffer = {.text = "(D+1)*2BL", .windows = 2, .per_edge = true}},
};

// What a group has that nobody has asked for another.
inline constexpr Mode kDefaultMode = Mode::kTranslated;

constexpr int NumberOf(Mode mode) { return static_cast<int>(mode); }

// Its row; null for what is no mode, as of a later version.
constexpr const ModeInfo* FindMode(Mode mode) {
  const auto row = std::ranges::find(kModes, mode, &ModeInfo::mode);
  return row == kModes.end() ? nullptr : &*row;
}

constexpr bool IsMode(Mode mode) { return FindMode(mode) != nullptr; }

// Whether a group may have it: not one that is still being built, whoever says that he has it.
constexpr bool CanBeChosen(Mode mode) {
  const ModeInfo* const row = FindMode(mode);
  return row != nullptr && !row->hidden;
}

// All of them, in order.
constexpr std::array<Mode, kModes.size()> AllModes() {
  std::array<Mode, kModes.size()> all{};
  std::ranges::transform(kModes, all.begin(), &ModeInfo::mode);
  return all;
}

// Those whose groups have memory of their own at each switch, which need neither a pool nor a server. Without
// those that nobody can choose.
inline constexpr auto kModesOfOwnMemory = [] {
  constexpr auto kIsOne = [](const ModeInfo& row) { return !row.in_pool && !row.hidden; };
  std::array<ModeInfo, static_cast<size_t>(std::ranges::count_if(kModes, kIsOne))> own;
  std::ranges::copy_if(kModes, own.begin(), kIsOne);
  return own;
}();
constexpr std::array<Mode, kModesOfOwnMemory.size()> ModesOfOwnMemory() {
  std::array<Mode, kModesOfOwnMemory.size()> own{};
  std::ranges::transform(kModesOfOwnMemory, own.begin(), &ModeInfo::mode);
  return own;
}

// The mode whose switches read and write hosts' memory.
constexpr Mode ModeThatReadsHosts() { return std::ranges::find(kModes, true, &ModeInfo::reads_hosts)->mode; }

// Whether those of a mode do; not of what is no mode.
constexpr bool ReadsHosts(Mode mode) {
  const ModeInfo* const row = FindMode(mode);
  return row != nullptr && row->reads_hosts;
}

// The mode whose groups have their payloads in a pool.
constexpr Mode ModeInPool() { return std::ranges::find(kModes, true, &ModeInfo::in_pool)->mode; }

// Whether the groups of a mode do; not of what is no mode.
constexpr bool IsInPool(Mode mode) {
  const ModeInfo* const row = FindMode(mode);
  return row != nullptr && row->in_pool;
}

// May switches of these two modes be in one tree? Where each hop sees to itself any two may. A switch that
// only reflects acknowledgements between hosts never acknowledges what a neighbour sends that waits for its
// own. Where switches bear hosts' addresses, all that hosts hang on do; where payloads lie in a pool, one
// switch sums. False for what is no mode.
constexpr bool MayMix(Mode one, Mode other) {
  const ModeInfo* const a = FindMode(one);
  const ModeInfo* const b = FindMode(other);
  return a != nullptr && b != nullptr && a->reliability == b->reliability &&
         a->bears_hosts == b->bears_hosts && a->in_pool == b->in_pool;
}

// "II"; "none" for what is no mode.
constexpr std::string_view NumeralOf(Mode mode) {
  const ModeInfo* const row = FindMode(mode);
  return row == nullptr ? "none" : row->numeral;
}

// Empty if there is no mode of that number that can be chosen; 0 is none.
std::optional<Mode> ModeOfNumber(int64_t number);

// A mode by its number, numeral or name, of letters of either size: "3", "III", "augmented".
std::optional<Mode> ModeNamed(std::string_view text);

// The same, and also of those that nobody can choose: for the simulation and the checker.
std::optional<Mode> AnyModeNamed(std::string_view text);

// "1 (I, terminated), 2 (II, translated), ...", for help and errors.
std::string ModeChoice();

// For command lines: puts the mode's number in place of any of its names. Empty, or what is wrong with the
// text.
std::string ModeToNumber(std::string& text);
// The same where there is neither a pool nor a server: a mode whose groups need them is wrong, too.
std::string OwnMemoryModeToNumber(std::string& text);

}  // namespace epic
