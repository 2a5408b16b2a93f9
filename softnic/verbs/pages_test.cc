// What may be registered: memory that is there, with the rights that the registration has. Both ways of
// finding out are tested on the kernel that there is.
#include "softnic/verbs/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "io/descriptor.h"

namespace epic::softnic {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// So many pages that may be read and written, none of which has been touched.
class Pages {
 public:
  explicit Pages(size_t count) : bytes_(count * kPage) {
    void* const at =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::abort();
    memory_ = static_cast<uint8_t*>(at);
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  uint8_t* at(size_t page) const { return memory_ + page * kPage; }
  void Protect(size_t page, int rights) const {
    if (mprotect(at(page), kPage, rights) != 0) std::abort();
  }
  void Unmap(size_t page) const { munmap(at(page), kPage); }

 private:
  size_t bytes_;
  uint8_t* memory_;
};

struct Way {
  const char* name;
  int (*check)(const void*, size_t, bool);
};

class PagesTest : public ::testing::TestWithParam<Way> {
 protected:
  static int Check(const void* begin, size_t length, bool writes) {
    return GetParam().check(begin, length, writes);
  }
};

TEST_P(PagesTest, MemoryThatIsThereMayBeUsed) {
  const Pages pages(5);
  pages.at(2)[7] = 9;
  EXPECT_EQ(Check(pages.at(0), 5 * kPage, true), 0);
  EXPECT_EQ(Check(pages.at(0) + 100, 4 * kPage, true), 0) << "from within a page to within another";
  EXPECT_EQ(Check(pages.at(4) + kPage - 1, 1, false), 0);
  EXPECT_EQ(pages.at(2)[7], 9) << "nothing is changed";
}

// One page of another kind in the middle splits the range into several mappings.
TEST_P(PagesTest, RightsAreThoseThatAreAskedFor) {
  const Pages pages(3);
  pages.Protect(1, PROT_READ);
  EXPECT_EQ(Check(pages.at(0), 3 * kPage, false), 0);
  EXPECT_EQ(Check(pages.at(0), 3 * kPage, true), EFAULT);
  EXPECT_EQ(Check(pages.at(0), kPage, true), 0);
  EXPECT_EQ(Check(pages.at(0), kPage + 1, true), EFAULT) << "one byte of it";
  EXPECT_EQ(Check(pages.at(2), kPage, true), 0);
  pages.Protect(1, PROT_NONE);
  EXPECT_EQ(Check(pages.at(0), 3 * kPage, false), EFAULT);
  EXPECT_EQ(Check(pages.at(1), 1, false), EFAULT);
}

TEST_P(PagesTest, WhatIsNotMappedIsRefused) {
  const Pages pages(3);
  pages.Unmap(1);
  for (const bool writes : {false, true}) {
    EXPECT_EQ(Check(pages.at(0), 3 * kPage, writes), EFAULT);
    EXPECT_EQ(Check(pages.at(0) + 1, kPage, writes), EFAULT) << "its last byte";
    EXPECT_EQ(Check(pages.at(1), 1, writes), EFAULT);
    EXPECT_EQ(Check(pages.at(0), kPage, writes), 0);
    EXPECT_EQ(Check(nullptr, 1, writes), EFAULT);
    EXPECT_EQ(Check(reinterpret_cast<const void*>(8), SIZE_MAX - 8, writes), EFAULT) << "all there is";
    EXPECT_EQ(Check(reinterpret_cast<const void*>(~uintptr_t{0} - 7), 8, writes), EFAULT)
        << "the last bytes of all";
  }
}

INSTANTIATE_TEST_SUITE_P(, PagesTest,
                         ::testing::Values(Way{"BroughtIn", BringInPages}, Way{"LookedUp", LookUpPages}),
                         [](const auto& test) { return test.param.name; });

TEST(BringInPagesTest, PagesAreBroughtIn) {
  const Pages pages(2);
  ASSERT_EQ(BringInPages(pages.at(0), 1, true), 0);
  unsigned char resident[2] = {};
  ASSERT_EQ(mincore(pages.at(0), 2 * kPage, resident), 0);
  EXPECT_EQ(resident[0] & 1, 1);
  EXPECT_EQ(resident[1] & 1, 0) << "and no others";
}

// Whoever touches them is told by a signal (SIGBUS).
TEST(BringInPagesTest, PagesBehindAFilesEndAreNone) {
  const io::Descriptor file(memfd_create("pages", MFD_CLOEXEC));
  ASSERT_TRUE(file);
  ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(kPage)), 0);
  void* const at = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_EQ(BringInPages(at, kPage, true), 0);
  EXPECT_EQ(BringInPages(at, kPage + 1, true), EFAULT);
  EXPECT_EQ(BringInPages(at, kPage + 1, false), EFAULT);
  munmap(at, 2 * kPage);
}

}  // namespace
}  // namespace epic::softnic
