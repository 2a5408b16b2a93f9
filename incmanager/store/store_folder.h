// The folder of a store on disk: that it can be one, and that one process at a time has it.
#pragma once

#include <string>

#include "base/status.h"

namespace epic::manager {

// Holds the folder until it goes, by a lock of the kernel's on the file `holder` in it: it is free as soon as
// its process has ended, however that was.
class StoreFolder {
 public:
  // Makes the folder if its parent is there. Errors: NOT_FOUND, PERMISSION_DENIED and the like with the
  // system's words; FAILED_PRECONDITION if another process holds it (named with its host, and since when), or
  // if it is on a file system of the network, whose locks do not keep a second manager out.
  static StatusOr<StoreFolder> Hold(const std::string& path);
  StoreFolder(StoreFolder&& from) noexcept;
  StoreFolder& operator=(StoreFolder&&) = delete;
  ~StoreFolder();

  const std::string& path() const { return path_; }
  // The store's file in it, whether or not it is there.
  std::string File() const { return path_ + "/store.sqlite"; }
  // Somebody has held it before: then there has been a store.
  bool was_held() const { return was_held_; }
  // Names this process as its holder; to be called when there is a store.
  void SayWhoHolds() const;

 private:
  StoreFolder(std::string path, int lock, bool was_held)
      : path_(std::move(path)), lock_(lock), was_held_(was_held) {}

  std::string path_;
  int lock_ = -1;  // descriptor of `holder`
  bool was_held_ = false;
};

}  // namespace epic::manager
