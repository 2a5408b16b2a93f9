// Which instruction sets this processor has, in place of what libhwy says: all else of Highway is in its
// headers, and a program that loads libhwy measures its clock first, for benchmarks, which takes longer than
// all else of a rank's start. Of x86 and Highway 1.0 alone (CMakeLists.txt).
#include <cpuid.h>
#include <hwy/targets.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace {

std::atomic<int64_t> of_test = 0;
std::atomic<int64_t> disabled = 0;

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros where the processor has no such leaf.
Leaf Ask(uint32_t leaf) {
  Leaf told;
  __get_cpuid_count(leaf, 0, &told.eax, &told.ebx, &told.ecx, &told.edx);
  return told;
}

bool HasAll(uint32_t word, std::initializer_list<int> bits) {
  for (const int bit : bits) {
    if ((word >> bit & 1) == 0) return false;
  }
  return true;
}

// Which registers the system saves when it changes between threads.
uint32_t SavedRegisters(const Leaf& features) {
  if (!HasAll(features.ecx, {27})) return 0;  // OSXSAVE
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Highway's targets are each the ones before it and more.
int64_t Detect() {
  const Leaf features = Ask(1), more = Ask(7), extended = Ask(0x80000001);
  const uint32_t saved = SavedRegisters(features);
  int64_t targets = HWY_EMU128 | HWY_SCALAR;
  // SSE3, SSSE3.
  if (!HasAll(features.ecx, {0, 9})) return targets;
  targets |= HWY_SSSE3;
  // SSE4.1, SSE4.2, PCLMULQDQ, AES.
  if (!HasAll(features.ecx, {19, 20, 1, 25})) return targets;
  targets |= HWY_SSE4;
  // FMA, AVX, F16C; AVX2, BMI, BMI2; LZCNT; registers of 16 and 32 bytes.
  if (!HasAll(features.ecx, {12, 28, 29}) || !HasAll(more.ebx, {5, 3, 8}) || !HasAll(extended.ecx, {5}) ||
      !HasAll(saved, {1, 2}))
    return targets;
  targets |= HWY_AVX2;
  // AVX-512 F, VL, DQ, BW and CD; its masks, and registers of 64 bytes.
  if (!HasAll(more.ebx, {16, 31, 17, 30, 28}) || !HasAll(saved, {5, 6, 7})) return targets;
  targets |= HWY_AVX3;
  // VNNI, VPCLMULQDQ, VBMI, VBMI2, VAES, VPOPCNTDQ, BITALG, GFNI.
  if (HasAll(more.ecx, {11, 10, 1, 6, 9, 14, 12, 8})) targets |= HWY_AVX3_DL;
  return targets;
}

}  // namespace

namespace hwy {

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

int64_t SupportedTargets() {
  int64_t targets = of_test;
  if (targets == 0) {
    targets = Detect();
    GetChosenTarget().Update(targets);
  }
  targets &= ~disabled;
  return targets == 0 ? HWY_STATIC_TARGET : targets;
}

void DisableTargets(int64_t targets) {
  disabled = targets;
  GetChosenTarget().DeInit();
}

void SetSupportedTargetsForTest(int64_t targets) {
  of_test = targets;
  GetChosenTarget().DeInit();
}

}  // namespace hwy
