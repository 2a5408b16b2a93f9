// A store in a file of SQLite's, with a write-ahead log that is synchronous at each commit, in a folder that
// one process holds.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "incmanager/store/store.h"

namespace epic::manager {

// The store of this folder; makes it if there is none and `makes`. Errors: those of StoreFolder; NOT_FOUND if
// there is none; FAILED_PRECONDITION if the file is no store of a manager, or is of a later format; DATA_LOSS
// if it is damaged, or is gone though there has been one. Nothing is changed then. Reads all of it once.
StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& folder, bool makes);

// A copy of a store that nobody holds, as one file, whole and synchronous; `file` must not be there
// (ALREADY_EXISTS). Other errors as OpenStore.
Status BackUpStore(const std::string& folder, const std::string& file);

// The contents of a backup. Errors as OpenStore; NOT_FOUND if there is no such file.
StatusOr<Contents> ReadBackup(const std::string& file);

// Gives the rows of a store that is to be put in place of one of which this is known: its rows, NOT_FOUND if
// there is none, or why it cannot be read.
using Replacing = std::function<StatusOr<Contents>(const StatusOr<Contents>& replaced)>;
// Makes a store with these rows the folder's. What was there stays beside it, unchanged, under the name that
// *before gets (empty: there was none), damaged or not. Nobody else has the folder meanwhile. Errors: those
// of StoreFolder, of `rows`, and of Store::Apply; then what was there is there still, or beside it.
Status PutStore(const std::string& folder, const Replacing& rows, std::string* before);

}  // namespace epic::manager
