# arch/x86/um/user-offsets.c: the room for a process' floating-point and vector registers. 2,696 bytes are enough for
# AVX-512; with AMX the processor has 11,008, PTRACE_SETREGSET with less is refused, and the first process dies at once.
# The saved state also lies on kernel stacks, hence CONFIG_KERNEL_STACK_ORDER=4. epic_testbed/guest.py reads the number here.
s/DEFINE_LONGS(HOST_FP_SIZE, 2696)/DEFINE_LONGS(HOST_FP_SIZE, 16384)/
