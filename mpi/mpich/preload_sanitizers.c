/* What the runtime of a sanitizer asks those that are loaded before it, in a program that is built with one.
 * The program's own answers go first. */
#define ASKED(name, asked)                                                                    \
  __attribute__((visibility("default"))) const char* EpicPreload##name(void) __asm__(#asked); \
  const char* EpicPreload##name(void)

/* AddressSanitizer ends a program that has a library before its runtime, for that might have functions that
 * are to be its own, as malloc. This one has none. */
ASKED(AsanOptions, __asan_default_options) { return "verify_asan_link_order=0"; }

/* What it is not to report: those of the file tsan-suppressions, which only a runtime reads that is told of
 * it. This one asks, if it is a library. */
ASKED(TsanSuppressions, __tsan_default_suppressions) { return EPIC_TSAN_SUPPRESSIONS; }
