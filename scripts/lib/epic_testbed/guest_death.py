"""Why a guest ended while it booted, in one line, from what its console says."""

import ctypes
import os
import re
import signal

FP_STATE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "guest-kernel-um-fpstate.sed"))
_PTRACE_TRACEME, _PTRACE_GETREGSET = 0, 0x4204
_NT_X86_XSTATE = 0x202
_MOST_STATE = 65536


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def processor_state():
    """Bytes of a process' floating-point and vector registers on this machine, or None if it does not tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    child = os.fork()
    if child == 0:
        libc.ptrace(_PTRACE_TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        os.waitpid(child, os.WUNTRACED)
        room = ctypes.create_string_buffer(_MOST_STATE)
        iovec = _Iovec(ctypes.addressof(room), _MOST_STATE)
        if libc.ptrace(_PTRACE_GETREGSET, child, _NT_X86_XSTATE, ctypes.addressof(iovec)) != 0:
            return None
        return iovec.length
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def kernel_room():
    """Bytes that the guest kernel has for them (scripts/guest-kernel)."""
    with open(FP_STATE, encoding="ascii") as file:
        return int(re.search(r"/DEFINE_LONGS\(HOST_FP_SIZE, (\d+)\)/$", file.read().strip())[1])


def reason(console):
    """The likely reason, one line, or None if the console says nothing that is known."""
    if "set fp regs failed" in console or "restore_fp_registers" in console:
        state, room = processor_state(), kernel_room()
        return (f"the guest kernel cannot set this processor's registers: they have {state or '?'} bytes, and "
                f"it has room for {room} (scripts/lib/{os.path.basename(FP_STATE)}; KERNEL_STACK_ORDER must hold them, too)")
    failed = re.findall(r"^FAILED (.*)$", console, re.M)
    if failed:
        return f"its first process says: {failed[-1]}"
    panic = re.findall(r"Kernel panic - not syncing: (.*)", console)
    if panic:
        return f"its kernel ended in a panic: {panic[-1]}"
    return None
