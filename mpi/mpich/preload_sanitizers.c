/* What the runtime of a sanitizer asks those that are loaded before it, in a program that is built with one.
 * The program's own answers go first. */
#define ASKED(name, asked)                                                                    \
  __attribute__((visibility("default"))) const char* EpicPreload##name(void) __asm__(#asked); \
  const char* EpicPreload##name(void)

/* AddressSanitizer ends a program that has a library before its runtime, for that might have functions that
 * are to be its own, as malloc. This one has none. */
ASKED(AsanOptions, __asan_default_options) { return "verify_asan_link_order=0"; }

/* ThreadSanitizer sees the copies that libraries make, and of that by which their threads wait for each other
 * only what is in the C library: it takes what EPIC's threads do for races, and that the dynamic linker gives
 * back what such a thread had. */
ASKED(TsanSuppressions, __tsan_default_suppressions) {
  return "race:libcommlib.so\nrace:libepic_mpi\nrace:libibverbs.so\n"
         "race:libgrpc\nrace:libgpr.so\nrace:libabsl_\nrace:libprotobuf.so\nrace:ld-linux\n";
}
