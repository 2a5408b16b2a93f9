// The one stranger that sees the private state of the protocol cores: whoever saves and restores them
// (check/snapshot.h). A core that says "copying it is a snapshot" befriends it, and nobody else.
#pragma once

namespace epic {

struct Snapshot;

}  // namespace epic
