// incmanager store: looks at a manager's store, and copies it. None of these asks a manager; each needs a
// store that no manager holds.
#pragma once

#include <string>

namespace epic::manager {

inline constexpr char kDefaultStore[] = "/var/lib/epic";

// Each returns an exit code; what is wrong is on stderr. std::system_error where standard output cannot be written.
// Whether it can be read whole, and how much is in it.
int CheckStore(const std::string& folder);
// Each row as a line of JSON.
int DumpStore(const std::string& folder);
// A copy in one file, which must not be there yet.
int BackUpStoreTo(const std::string& folder, const std::string& file);
// Makes a backup the folder's store; what was there stays beside it. The next manager's epoch is one that
// none can have had.
int RestoreStoreFrom(const std::string& folder, const std::string& file);

}  // namespace epic::manager
