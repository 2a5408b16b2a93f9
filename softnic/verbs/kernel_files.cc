#include "softnic/verbs/kernel_files.h"

#include <utility>

#include "base/number.h"

namespace epic::softnic {
namespace {

// Takes `front` off the text; false if it begins otherwise.
bool Skip(std::string_view* text, std::string_view front) {
  if (!text->starts_with(front)) return false;
  text->remove_prefix(front.size());
  return true;
}

}  // namespace

KernelFile KernelFileOf(std::string_view path) {
  using Kind = KernelFile::Kind;
  std::string_view rest = path;
  if (Skip(&rest, "/dev/infiniband/"))
    return rest.empty() || rest.find('/') != rest.npos ? KernelFile{} : KernelFile{Kind::kDevice, rest};
  if (!Skip(&rest, "/sys/class/infiniband/")) return {};
  const std::string_view device = rest.substr(0, rest.find('/'));
  rest.remove_prefix(device.size());
  if (!Skip(&rest, "/ports/1/gid_attrs/")) return {};
  KernelFile file{.device = device};
  if (Skip(&rest, "types/")) {
    file.kind = Kind::kGidType;
  } else if (Skip(&rest, "ndevs/")) {
    file.kind = Kind::kGidInterface;
  } else {
    return {};
  }
  return ReadNumber(rest, &file.gid) ? file : KernelFile{};
}

}  // namespace epic::softnic
