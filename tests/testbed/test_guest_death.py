"""What is said of a guest that ends while it boots. The consoles are real ones; no guest is started."""

import os

from epic_testbed import guest_death
from epic_testbed.bed import Bed
from epic_testbed.bring_up import BringUp

REGISTERS = """userspace - ptrace set fp regs failed, errno = 14
Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b
"""


def test_the_guest_kernel_has_room_for_this_processor():
    # As on every machine that is to boot guests; 576 bytes are those of the oldest x86-64 with XSAVE.
    assert 576 <= guest_death.processor_state() <= guest_death.kernel_room()


def test_registers_without_room_are_said_with_both_sizes():
    said = guest_death.reason(REGISTERS)
    assert f"{guest_death.processor_state()} bytes" in said and f"room for {guest_death.kernel_room()}" in said
    assert "\n" not in said


def test_what_its_first_process_says_comes_before_the_panic_that_follows():
    console = "x\nFAILED cannot add rxe0\nKernel panic - not syncing: Attempted to kill init!\n"
    assert guest_death.reason(console) == "its first process says: cannot add rxe0"
    assert guest_death.reason(console[console.index("Kernel"):]).endswith("Attempted to kill init!")
    assert guest_death.reason("") is None


def test_the_bed_says_it_in_one_line(tmp_path, monkeypatch):
    bring_up = BringUp.__new__(BringUp)
    bring_up.bed = Bed("nothing")
    monkeypatch.setattr(bring_up.bed, "log", lambda name: os.fspath(tmp_path / name))
    (tmp_path / "h0").write_text(REGISTERS, encoding="ascii")
    said = bring_up._guest_ended("h0")  # pylint: disable=protected-access
    assert said.startswith("guest h0 ended while booting: the guest kernel cannot set") and "\n" not in said
