"""With which settings bench/compare has measured, as its page says them."""
import systems
from epic_testbed import net


def _scheduling(ways):
    lines = {(True,): "on (1), as the kernel has them by itself: each session, as each daemon and each rank has one, is a group of the scheduler's",
             (False,): "off (0): all processes in one scheduling group",
             (True, False): "on (1), as the kernel has them by itself; \"one group\": off (0)"}
    return "kernel.sched_autogroup_enabled " + lines[ways]


def version_lines(names, rate=None, autogroups=(True,)):
    """With which settings these systems were measured, over links of this rate, with autogroups on, off, or both in this order."""
    lines = []
    if {"openmpi", "openmpi-switches", "openmpi-epic"} & set(names):
        lines.append(f"{net.run(['mpirun.openmpi', '--version']).splitlines()[0]}: pml ob1, btl tcp; mpi_yield_when_idle 1, "
                     "--bind-to none (its best with more ranks than processors)")
    if {"mpich", "mpich-epic"} & set(names):
        version = next(l for l in net.run(["mpirun.mpich", "--version"]).splitlines() if "Version:" in l).split()[-1]
        lines.append(f"MPICH {version}: over TCP ({', '.join(f'{name}={value}' for name, value in systems.Mpi.UCX.items())}); as it is, it takes "
                     "shared memory, since all hosts are one machine")
    if set(systems.ON_EPIC) & set(names):
        lines.append("on EPIC: the same program by `epic-run --mpi`, its own messages over TCP through our switches; groups are made "
                     "before the clock starts")
    if "gloo" in names:
        lines.append(f"Gloo {net.run(['dpkg-query', '-W', '-f=${Version}', 'libgloo-dev'])}: TCP, as it is")
    if {"link", "links"} & set(names):
        lines.append("bounds: what must cross each host's link between hosts (an AllReduce: 2(n - 1)/n of its size), at the rate of "
                     f"ib_send_bw -e with {systems.Link.MESSAGE} bytes over the same links; a pair alone has both processors for itself")
    if "hosts-ring-registered" in names:
        lines.append("registered: the ranks' memory once, before the clock starts (epic-perf -R 1), as ib_send_bw's is; else each large call "
                     "registers its own")
    if "hosts-lacking" in names:
        lines.append("for want of an operation: products (epic-perf -o prod) in a group with path auto, whose switches run with "
                     f"{systems.LACKING_ARGUMENT}; the others sum")
    if any(systems.SYSTEMS[name].bed_kind == "bridges" for name in names):
        lines.append("bridges: Linux bridges, veths with tx, tso and gso on, as they are by themselves")
        if rate:
            lines.append(f"TCP over bridges: {systems.CONGESTION}")
    if "openmpi-switches" in names:
        lines.append("our switches: incengine with --forwarding static, on the links that EPIC has, which carry its super-frames "
                     f"(ethtool -K {net.SUPER_FRAMES}); a plain forwarder needs TCP's segments one by one")
    return lines + [_scheduling(autogroups)]

