"""Runs programs of perftest on two hosts and reads what they print."""

import re

BW = ("ib_send_bw", "ib_write_bw", "ib_read_bw")
LAT = ("ib_send_lat", "ib_write_lat", "ib_read_lat")
# The IPv4-mapped GID; and no remarks on the CPU's frequency.
PERFTEST = ("-x", "1", "-F")


def result(output, size):
    """The numbers of perftest's line for a message size; the first is the number of iterations."""
    line = re.search(rf"^ *{size} +(\d+ .*)$", output, re.M)
    assert line, f"no result for {size} bytes:\n{output}"
    # A complaint about the clock rate may follow on the same line.
    return [float(number) for number in re.findall(r"[\d.]+|inf|nan", line[1])]


def run_perftest(pair, program, size, *options, iterations=100, timeout_s=60, **hosts):
    """Runs both ends; what the client says: bandwidth in MiB/s or latency in us. 0 or inf: the CPU was so busy that
    perftest could not find its clock rate."""
    client, _ = pair.run_both(program, *PERFTEST, "-s", size, "-n", iterations, *options, timeout_s=timeout_s, **hosts)
    numbers = result(client, size)
    qps = int(options[options.index("-q") + 1]) if "-q" in options else 1
    assert numbers[0] == iterations * qps
    value = numbers[2 if program in BW else 3]  # the average; the typical one
    print(f"{program} {size} {' '.join(map(str, options))}: {value} {'MiB/s' if program in BW else 'us'}")
    return value
