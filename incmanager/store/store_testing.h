// Folders and batches for tests of stores.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <random>
#include <string>

#include "incmanager/store/store.h"

namespace epic::manager::testing {

// A new folder, until it goes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = "/tmp/epic-store-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  // Of a store in it that is not there yet.
  std::string Of(const std::string& name) const { return path + "/" + name; }

  std::string path;
};

// Few keys, so that rows are put again and dropped; values from nothing to some pages.
inline Batch RandomBatch(std::mt19937_64* random, size_t most = 8) {
  Batch batch;
  for (size_t left = (*random)() % most + 1; left > 0; --left) {
    RowChange change{{kRowKinds[(*random)() % std::size(kRowKinds)], std::to_string((*random)() % 20)}, {}};
    if ((*random)() % 4 != 0) {
      const size_t bytes = (*random)() % 8 == 0 ? (*random)() % 9000 : (*random)() % 40;
      change.value = std::string(bytes, static_cast<char>((*random)()));
    }
    batch.push_back(std::move(change));
  }
  return batch;
}

inline void ApplyTo(const Batch& batch, Contents* rows) {
  for (const RowChange& change : batch) {
    if (change.value) {
      (*rows)[change.row] = *change.value;
    } else {
      rows->erase(change.row);
    }
  }
}

}  // namespace epic::manager::testing
