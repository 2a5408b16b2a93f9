#include "mpi/binding/group_library.h"

#include <dlfcn.h>

#include <mutex>

namespace epic::mpi {
namespace {

// The folder of the object that this function is in.
std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OwnFolder), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string file = info.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

// Stays loaded: gRPC has threads that outlive any use of it.
void* Load(const std::string& file, std::string* why_not) {
  void* const loaded = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (loaded == nullptr) *why_not = dlerror();
  return loaded;
}

NewGroup Find(const std::string& softnic, std::string* why_not) {
  // By its SONAME it is then what the library of groups asks for, unless the program has the system's
  // already.
  if (!softnic.empty() && Load(softnic, why_not) == nullptr) return nullptr;
  void* const library = Load(OwnFolder() + kGroupLibrary, why_not);
  if (library == nullptr) return nullptr;
  const auto function = reinterpret_cast<NewGroup>(dlsym(library, kNewGroup));
  if (function == nullptr) *why_not = dlerror();
  return function;
}

}  // namespace

std::unique_ptr<Group> MakeGroup(const std::string& softnic, std::string* why_not) {
  static std::mutex mutex;
  static NewGroup function = nullptr;
  const std::lock_guard lock(mutex);
  if (function == nullptr) function = Find(softnic, why_not);
  return function == nullptr ? nullptr : std::unique_ptr<Group>(function());
}

}  // namespace epic::mpi
