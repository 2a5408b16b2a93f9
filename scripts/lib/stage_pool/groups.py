"""Control groups, which count what all processes of a stage or a test compute, daemons and guests included.

Version 2 counts processor time without any controller, also where it is mounted beside version 1. Where no group can be
made, what is counted is of the processes that a run has waited for, which leaves out daemons: `Group.whole` tells.
"""
import os
import pathlib
import re
import resource


def mount(mounts="/proc/self/mounts"):
    """Where version 2 is mounted, or None."""
    for line in pathlib.Path(mounts).read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[2] == "cgroup2":
            return pathlib.Path(fields[1])
    return None


def own():
    """The group of this process, or None."""
    place = mount()
    found = re.search(r"^0::/(.*)$", pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8"), re.M)
    return place / found[1] if place and found else None


def computed_by_machine(stat="/proc/stat"):
    """Processor seconds that programs took on this machine since it began, and that its host kept from it."""
    user, nice, *_, steal = map(int, pathlib.Path(stat).read_text(encoding="ascii").split("\n", 1)[0].split()[1:9])
    return (user + nice + steal) / os.sysconf("SC_CLK_TCK")


class Group:
    """A group of processes. `place` is its folder, or None where there are no groups."""

    def __init__(self, place):
        self.place = place if place and (place / "cpu.stat").exists() else None

    @property
    def whole(self):
        """Whether it counts everything that its processes started."""
        return self.place is not None

    def child(self, name):
        """A new group within this one; one without counts where that cannot be."""
        if not self.place:
            return Group(None)
        place = self.place / re.sub(r"[^\w.-]", "_", name)
        try:
            place.mkdir(exist_ok=True)
        except OSError:
            return Group(None)
        return Group(place)

    def enter(self):
        """Takes this process into the group. For a child that has not yet begun its program."""
        if self.place:
            (self.place / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def computed(self):
        """Processor seconds since it was made."""
        if not self.place:
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            return spent.ru_utime + spent.ru_stime
        return self._counted("usage_usec")

    def computed_by_programs(self):
        """The same without what the kernel did for them; 0 where there are no groups."""
        return self._counted("user_usec") if self.place else 0.0

    def _counted(self, what):
        return int(re.search(rf"^{what} (\d+)$", (self.place / "cpu.stat").read_text(encoding="ascii"), re.M)[1]) / 1e6

    def kept_waiting(self):
        """Seconds in which some process of it could have run and had no processor; 0 where the kernel does not tell."""
        try:
            told = (self.place / "cpu.pressure").read_text(encoding="ascii") if self.place else ""
        except OSError:
            told = ""
        found = re.search(r"^some .*total=(\d+)$", told, re.M)
        return int(found[1]) / 1e6 if found else 0.0

    def remove(self):
        """Lets the kernel forget it, if nothing runs in it any more."""
        if self.place:
            for child in [entry for entry in self.place.iterdir() if entry.is_dir()]:
                Group(child).remove()
            try:
                self.place.rmdir()
            except OSError:
                pass
