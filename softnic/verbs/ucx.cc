// Where UCX looks into the file system, from 1.13 to 1.20 (uct/ib/base: ib_md.c, ib_device.c): at
// /dev/infiniband/NAME by stat and access, from libuct_ib.so; in sysfs for the version of each GID, by open
// from libucs.so, without which it takes them for RoCE v1's and does not speak to a NIC that it knows for
// RoCE v2's. These calls of these libraries, and of no other, come here first. A preloaded library would
// stand before every program's calls, and be refused by AddressSanitizer.
#include "softnic/verbs/ucx.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/imports.h"
#include "softnic/port/gids.h"
#include "softnic/verbs/call.h"
#include "softnic/verbs/kernel_files.h"

namespace epic::softnic {
namespace {

std::mutex mutex;
std::vector<const Device*> shown;  // each name once; under the mutex

// Null if the path is no file of a device that was shown.
const Device* DeviceOf(const KernelFile& file) {
  if (file.kind == KernelFile::Kind::kNone) return nullptr;
  const std::lock_guard lock(mutex);
  const auto found =
      std::ranges::find_if(shown, [&](const Device* device) { return device->base.name == file.device; });
  return found != shown.end() ? *found : nullptr;
}

bool IsDevice(const char* path) {
  const KernelFile file = KernelFileOf(path);
  return file.kind == KernelFile::Kind::kDevice && DeviceOf(file) != nullptr;
}

// What the file has in it; empty if there is none.
std::string TextOf(const char* path) {
  const KernelFile file = KernelFileOf(path);
  const Device* const device = file.kind == KernelFile::Kind::kDevice ? nullptr : DeviceOf(file);
  if (device == nullptr) return {};
  const std::vector<Ip> gids = GidsNow(*device);
  if (file.gid >= gids.size() || gids[file.gid] == kNoGid) return {};
  return file.kind == KernelFile::Kind::kGidType ? "RoCE v2\n" : device->interface.name + "\n";
}

// A descriptor from which the text can be read, or -1 and errno.
int OpenText(const std::string& text) {
  const int fd = memfd_create("softnic", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return fd;
  close(fd);
  errno = EIO;
  return -1;
}

// The calls that UCX makes. Files that are there come first.

int StatOfUcx(const char* path, struct stat* out) {
  if (stat(path, out) == 0) return 0;
  const int error = errno;
  if (error == ENOENT && IsDevice(path)) {
    *out = {};
    out->st_mode = S_IFCHR | 0666;
    return 0;
  }
  errno = error;
  return -1;
}

// stat, as compiled before glibc 2.33. These processors have one version of the structure.
int OldStatOfUcx(int /*version*/, const char* path, struct stat* out) { return StatOfUcx(path, out); }

int AccessOfUcx(const char* path, int mode) {
  if (access(path, mode) == 0) return 0;
  const int error = errno;
  if (error == ENOENT && IsDevice(path)) return 0;
  errno = error;
  return -1;
}

int OpenOfUcx(const char* path, int flags, ...) {
  const bool takes_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = takes_mode ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  const int fd = open(path, flags, mode);
  if (fd >= 0 || errno != ENOENT || takes_mode) return fd;
  const std::string text = Caught([path] { return TextOf(path); }, [](int) { return std::string(); });
  errno = ENOENT;
  return text.empty() ? -1 : OpenText(text);
}

// Nobody may call into this library when it is gone: it stays.
bool Stay() {
  Dl_info own{};
  return dladdr(reinterpret_cast<const void*>(&Stay), &own) != 0 &&
         dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

// False if it cannot be. A UCX that imports none of them does not look.
bool Replace() {
  static const Import kDevice[] = {{"stat", reinterpret_cast<void*>(&StatOfUcx)},
                                   {"__xstat", reinterpret_cast<void*>(&OldStatOfUcx)},
                                   {"access", reinterpret_cast<void*>(&AccessOfUcx)}};
  static const Import kText[] = {{"open", reinterpret_cast<void*>(&OpenOfUcx)}};
  if (!kReplacesImports || !Stay()) return false;
  ReplaceImports("libuct_ib.so", kDevice);
  ReplaceImports("libucs.so", kText);
  return true;
}

}  // namespace

bool IsUcx(const void* caller) {
  Dl_info from{};
  return dladdr(caller, &from) != 0 && from.dli_fname != nullptr &&
         FileNameOf(from.dli_fname).starts_with("libuct_ib.so");
}

void ShowToUcx(std::span<Device* const> devices) {
  {
    const std::lock_guard lock(mutex);
    for (const Device* const device : devices) {
      std::erase_if(shown,
                    [&](const Device* old) { return std::string_view(old->base.name) == device->base.name; });
      shown.push_back(device);
    }
  }
  static std::atomic<bool> told = false;
  if (devices.empty() || Replace() || told.exchange(true)) return;
  std::fprintf(
      stderr,
      "softnic: UCX takes only devices that have a file in /dev/infiniband, and this build of UCX cannot be "
      "shown one: it goes on without softnic\n");
}

bool UcxAsksConnectionManager() {
  void* const asks = dlopen("libuct_rdmacm.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (asks != nullptr) dlclose(asks);
  return asks != nullptr;
}

}  // namespace epic::softnic
