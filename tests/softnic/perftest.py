"""Runs programs of perftest on two hosts and reads what they print."""

import re

BW = ("ib_send_bw", "ib_write_bw", "ib_read_bw")
LAT = ("ib_send_lat", "ib_write_lat", "ib_read_lat")
ATOMIC = ("ib_atomic_bw", "ib_atomic_lat")  # always of 8 bytes
# The IPv4-mapped GID; and no remarks on the CPU's frequency.
PERFTEST = ("-x", "1", "-F")
# Of connections: 1 s before something is repeated. Seven times perftest's own 67 ms are less than a guest on a busy machine
# may stand still, and less than the answers to 32 queue pairs may take from a process that waits for a processor.
PATIENCE = ("-u", 18)


def result(output, size):
    """The numbers of perftest's line for a message size; the first is the number of iterations."""
    line = re.search(rf"^ *{size} +(\d+ .*)$", output, re.M)
    assert line, f"no result for {size} bytes:\n{output}"
    # A complaint about the clock rate may follow on the same line.
    return [float(number) for number in re.findall(r"[\d.]+|inf|nan", line[1])]


def run_perftest(pair, program, size, *options, iterations=100, timeout_s=60, **hosts):
    """Runs both ends; what the client says: bandwidth in MiB/s or latency in us. 0 or inf: the CPU was so busy that
    perftest could not find its clock rate."""
    of_size = () if program in ATOMIC else ("-s", size)
    client, _ = pair.run_both(program, *PERFTEST, *of_size, "-n", iterations, *options, timeout_s=timeout_s, **hosts)
    numbers = result(client, size)
    qps = int(options[options.index("-q") + 1]) if "-q" in options else 1
    assert numbers[0] == iterations * qps
    measures_bandwidth = program.endswith("_bw")
    value = numbers[2 if measures_bandwidth else 3]  # the average; the typical one
    print(f"{program} {size} {' '.join(map(str, options))}: {value} {'MiB/s' if measures_bandwidth else 'us'}")
    return value
