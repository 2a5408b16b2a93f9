#include "base/imports.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/mutex.h"

namespace epic {
namespace {

// Kinds of relocations that put a function's address, and nothing else, where it is called from.
#if defined(__x86_64__)
constexpr uint32_t kKinds[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#elif defined(__aarch64__)
constexpr uint32_t kKinds[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#else
constexpr uint32_t kKinds[] = {R_X86_64_NONE};
#endif

struct Search {
  std::string_view prefix;
  std::span<const Import> imports;
  size_t replaced = 0;
};

// A loaded library, as its program headers and its dynamic section describe it.
struct Library {
  uintptr_t base = 0;
  uintptr_t read_only_from = 0, read_only_to = 0;  // since it was loaded; whole pages
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::span<const ElfW(Rela)> relocations[2];
};

// What the loader put at an address, which it tells as a number.
template <typename T>
T* At(uintptr_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

uintptr_t PageOf(uintptr_t address) { return address & ~(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1); }

Library Describe(const dl_phdr_info& info) {
  Library library;
  library.base = info.dlpi_addr;
  const ElfW(Dyn)* entry = nullptr;
  for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    const uintptr_t at = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) entry = At<const ElfW(Dyn)>(at);
    if (header.p_type != PT_GNU_RELRO) continue;
    library.read_only_from = PageOf(at);
    library.read_only_to = PageOf(at + header.p_memsz);
  }
  const ElfW(Rela) * tables[2] = {};
  size_t bytes[2] = {};
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    // The loader has made addresses of them, where the section may be written.
    const uintptr_t at =
        entry->d_un.d_ptr < info.dlpi_addr ? info.dlpi_addr + entry->d_un.d_ptr : entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) library.symbols = At<const ElfW(Sym)>(at);
    if (entry->d_tag == DT_STRTAB) library.names = At<const char>(at);
    if (entry->d_tag == DT_JMPREL) tables[0] = At<const ElfW(Rela)>(at);
    if (entry->d_tag == DT_PLTRELSZ) bytes[0] = entry->d_un.d_val;
    if (entry->d_tag == DT_RELA) tables[1] = At<const ElfW(Rela)>(at);
    if (entry->d_tag == DT_RELASZ) bytes[1] = entry->d_un.d_val;
  }
  for (int i = 0; i < 2; ++i) {
    if (tables[i] != nullptr) library.relocations[i] = {tables[i], bytes[i] / sizeof(ElfW(Rela))};
  }
  return library;
}

// False if the kernel does not let it be written.
bool Store(const Library& library, uintptr_t slot, void* function) {
  const auto entry = std::atomic_ref(*At<void*>(slot));
  if (entry.load() == function) return true;
  const bool read_only = slot >= library.read_only_from && slot < library.read_only_to;
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const page = At<void>(PageOf(slot));
  if (read_only && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  entry.store(function);
  if (read_only) mprotect(page, page_bytes, PROT_READ);
  return true;
}

int OnLibrary(dl_phdr_info* info, size_t /*bytes*/, void* user) {
  auto& search = *static_cast<Search*>(user);
  if (info->dlpi_name == nullptr || !FileNameOf(info->dlpi_name).starts_with(search.prefix)) return 0;
  const Library library = Describe(*info);
  if (library.symbols == nullptr || library.names == nullptr) return 0;
  for (const auto& relocations : library.relocations) {
    for (const ElfW(Rela) & one : relocations) {
      if (std::ranges::find(kKinds, ELF64_R_TYPE(one.r_info)) == std::end(kKinds)) continue;
      const std::string_view name = library.names + library.symbols[ELF64_R_SYM(one.r_info)].st_name;
      const auto import = std::ranges::find(search.imports, name, &Import::name);
      if (import == search.imports.end()) continue;
      if (Store(library, library.base + one.r_offset, import->function)) ++search.replaced;
    }
  }
  return 0;
}

}  // namespace

std::string_view FileNameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

size_t ReplaceImports(std::string_view prefix, std::span<const Import> imports) {
  static Mutex one_at_a_time;  // or one makes a page read-only to which another is about to write
  const MutexLock lock(one_at_a_time);
  Search search{.prefix = prefix, .imports = imports};
  dl_iterate_phdr(OnLibrary, &search);
  return search.replaced;
}

}  // namespace epic
