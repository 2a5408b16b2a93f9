"""The library's symbols against those of the libibverbs that Debian ships."""

import subprocess

import pair as pairs

OURS = pairs.BUILD / "softnic" / "lib" / "libibverbs.so.1"
VERSION_OF_OURS = "EPIC_SOFTNIC_1"


def symbols(library):
    """{"ibv_open_device@@IBVERBS_1.1", ...}: defined dynamic symbols with their versions."""
    said = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True,
                          text=True, check=True)
    return {line.split()[2] for line in said.stdout.splitlines() if line.split()[1] != "A"}


def system_library():
    said = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in said.splitlines() if "libibverbs.so.1 " in line)


def test_every_symbol_is_there_at_its_version():
    ours, theirs = symbols(OURS), symbols(system_library())
    assert len(theirs) > 150, "the system's library has its symbols"
    assert not theirs - ours, "missing"
    assert {s for s in ours - theirs if not s.endswith(VERSION_OF_OURS)} == set(), "leaked"


def test_the_library_stands_for_the_system_s():
    said = subprocess.run(["readelf", "-d", OURS], capture_output=True, text=True, check=True).stdout
    assert "soname: [libibverbs.so.1]" in said
    assert "libibverbs" not in said.replace("soname: [libibverbs.so.1]", ""), "it must not need itself"
