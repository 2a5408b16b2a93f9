#include "incmanager/store/store_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace epic::manager {
namespace {

// Of statfs(2): file systems of which several machines may have one, and what each is called.
struct SharedSystem {
  uint32_t magic;
  const char* name;
};
constexpr std::array kShared = {SharedSystem{0x6969, "NFS"},        SharedSystem{0xff534d42, "CIFS"},
                                SharedSystem{0xfe534d42, "SMB2"},   SharedSystem{0x517b, "SMB"},
                                SharedSystem{0x00c36400, "Ceph"},   SharedSystem{0x5346414f, "AFS"},
                                SharedSystem{0x7461636f, "OCFS2"},  SharedSystem{0x01161970, "GFS2"},
                                SharedSystem{0x0bd00bd0, "Lustre"}, SharedSystem{0x73757245, "Coda"}};

Status SystemStatus(const std::string& path, int error) {
  StatusCode code = StatusCode::kFailedPrecondition;
  if (error == ENOENT) code = StatusCode::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = StatusCode::kPermissionDenied;
  if (error == ENOSPC || error == EDQUOT) code = StatusCode::kResourceExhausted;
  return MakeStatus(code, fmt::format("store {}: {}", path, std::strerror(error)));
}

std::string TextOf(int file) {
  std::array<char, 512> text{};
  const ssize_t bytes = pread(file, text.data(), text.size(), 0);
  std::string line(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return line.substr(0, line.find('\n'));
}

}  // namespace

StatusOr<StoreFolder> StoreFolder::Hold(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return SystemStatus(path, errno);
  struct statfs system {};
  if (statfs(path.c_str(), &system) != 0) return SystemStatus(path, errno);
  for (const SharedSystem& shared : kShared) {
    if (static_cast<uint32_t>(system.f_type) != shared.magic) continue;
    return MakeStatus(
        StatusCode::kFailedPrecondition,
        fmt::format("store {}: it is on {}, whose locks do not keep a second manager out; take a "
                    "folder of this machine's own",
                    path, shared.name));
  }
  const std::string holder = path + "/holder";
  const int lock = open(holder.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return SystemStatus(holder, errno);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string who = TextOf(lock);
    close(lock);
    if (error != EWOULDBLOCK) return SystemStatus(holder, error);
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("store {}: it is held by {}", path, who.empty() ? "another process" : who));
  }
  return StoreFolder(path, lock, !TextOf(lock).empty());
}

StoreFolder::StoreFolder(StoreFolder&& from) noexcept
    : path_(std::move(from.path_)), lock_(std::exchange(from.lock_, -1)), was_held_(from.was_held_) {}

StoreFolder::~StoreFolder() {
  if (lock_ >= 0) close(lock_);
}

// For people only: what cannot be written is done without.
void StoreFolder::SayWhoHolds() const {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string line = fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S} UTC\n", getpid(),
                                       host.data(), fmt::gmtime(now));
  if (pwrite(lock_, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size()))
    static_cast<void>(ftruncate(lock_, static_cast<off_t>(line.size())) == 0);
}

}  // namespace epic::manager
