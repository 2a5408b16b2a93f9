#!/usr/bin/python3
"""demo_run.py --bed NAME: collectives over every host of a test bed that is up; what a program can expect of them, and a verdict.

Each size in a group of its own: the first call, the median of calls 3 to 20, and the median of the last quarter of all, which are fewer
of large sizes. Exit status 0 if every element was right and every switch of the tree counted aggregated packets, else 1; also 1 in a mode with a pool
that is too small for the largest calls, if no sum went to the host that lends memory.
"""
import argparse
import json
import re
import statistics
import sys
import time

import epic_ranks
import modes

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
FACTOR = 4  # from size to size
# Of a size: calls, and bytes of all of them, on hosts that are all softnic and on others, which take ten times as long.
LEAST_CALLS, MOST_CALLS = 24, 1300
MOST_BYTES, MOST_BYTES_OF_GUESTS = 192 << 20, 32 << 20


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def sizes_of(smallest, largest):
    size, sizes = max(bytes_of(smallest), 1), []
    while size <= bytes_of(largest):
        sizes.append(size)
        size *= FACTOR
    return sizes


def calls_of(size, softnic=True):
    return max(LEAST_CALLS, min(MOST_CALLS, (MOST_BYTES if softnic else MOST_BYTES_OF_GUESTS) // size))


def size_text(size):
    for unit, shift in (("MB", 20), ("KB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def time_text(us):
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.0f} us"


def row(result):
    """A line of the table, of a result in epic-perf's JSON; a barrier has no size."""
    times = result["out_of_place"]["each_us"]
    last = times[-(len(times) // 4):]
    wrong = max(0, result["out_of_place"]["wrong"] or 0) + max(0, result["in_place"]["wrong"] or 0)
    size = "" if result["collective"] == "barrier" else size_text(result["size"])
    return (f"{result['collective']:>13} {size:>8} {time_text(times[0]):>10} {time_text(statistics.median(times[2:20])):>13} "
            f"{time_text(statistics.median(last)):>12} {f'{len(times) - len(last) + 1} to {len(times)}':>14} {wrong:>6}")


HEAD = f"{'collective':>13} {'size':>8} {'first call':>10} {'calls 3 to 20':>13} {'later calls':>12} {'which those are':>14} {'wrong':>6}"


def results_of(output):
    """What rank 0 said in JSON, behind lines that the library writes."""
    begin = re.search(r"^\{", output, re.MULTILINE)
    return json.loads(output[begin.start():output.rindex("}") + 1])["results"] if begin else []


def splits_of(shown):
    """Sums of a group that were completed by the host that lends memory to it, by its switches' last word."""
    return sum(int(counter["value"]) for node in shown.get("tree", []) for counter in node.get("pool", []) if counter["name"] == "splits")


def places_of(bed, switch):
    return int(epic_ranks.manager(bed, "tables", switch)["info"]["capability"].get("pool", {}).get("places", 0))


def must_split(shown, places, size):
    """Whether a group of so many places in its switch's pool cannot do without its host: its window is longer, and so is a call of
    this size, whose results keep their places until they are acknowledged."""
    window = shown.get("message_packets", 0) * shown.get("window_messages", 0)
    return places < window and size >= places * shown.get("path_mtu", 0)


def run(bed, hosts, group, argv, tree, pooled=False):
    """Runs argv(rank) on all hosts: their results, and if pooled what was shown last of the group, with most sums completed by a host.
    `tree` gets the names of the group's switches, if it has none yet: the manager knows them only while the group lives, and it may
    be over before it is asked."""
    started = [epic_ranks.start_rank(bed, host, argv(rank), 600) for rank, host in enumerate(hosts)]
    last = {}
    for thread, _ in started:
        while thread.is_alive() and (pooled or not tree):
            shown = epic_ranks.manager(bed, "group", "show", group, check=False) or {}
            if not tree:
                tree.extend(node["switch_name"] for node in shown.get("tree", []))
            last = shown if shown.get("tree") and splits_of(shown) >= splits_of(last) else last
            thread.join(0.2 if pooled and tree else 0.05)
        thread.join()
    return [result for _, result in started], last


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bed", required=True)
    parser.add_argument("--sizes", default="4K:4M")
    parser.add_argument("--mode", type=modes.number_of, default=2, help=modes.CHOICE)
    parser.add_argument("--collective", default="allreduce")
    args = parser.parse_args()
    smallest, largest = args.sizes.split(":")
    hosts = epic_ranks.hosts_of(args.bed)
    kinds = " and ".join(sorted(set(epic_ranks.kinds_of(args.bed).values())))
    perf = epic_ranks.BUILD / "bench/epic-perf"
    before = {switch: epic_ranks.aggregated_packets(args.bed, switch) for switch in epic_ranks.switches_of(args.bed)}
    begin, failed, tree, splits, forced = time.monotonic(), [], [], 0, 0
    pooled = any(mode.in_pool for mode in modes.read() if mode.number == args.mode)
    print(f"{len(hosts)} ranks, mode {args.mode}; times are rank 0's, medians but of the first call; each size in a group of its own")
    print(HEAD, flush=True)
    for size in sizes_of(smallest, largest):
        group = f"demo{size}"

        def argv(rank, size=size, group=group):
            return [perf, "--group", group, "--rank", rank, "--size", len(hosts), "--mode", args.mode, "--collective", args.collective,
                    "-b", size, "-e", size, "-n", calls_of(size, kinds == "softnic"), "-w", 0, "--each", "--json"]
        ranks, shown = run(args.bed, hosts, group, argv, tree, pooled)
        if pooled and tree:
            splits += splits_of(shown)
            places = places_of(args.bed, tree[0])
            forced = places if must_split(shown, places, size) else forced
        for result in results_of(ranks[0].output):
            print(row(result), flush=True)
        for host, rank in zip(hosts, ranks):
            if rank.status != 0:
                failed.append(f"{host}, {size_text(size)} (exit {rank.status})")
                print(f"--- {host}:\n{rank.output}")
        if failed:
            break
    seconds = time.monotonic() - begin
    summed = {switch: epic_ranks.aggregated_packets(args.bed, switch) - count for switch, count in before.items()}
    # Without an answer the switches that have worked are the tree.
    tree = tree or [switch for switch, count in summed.items() if count > 0]
    # Copies and barriers are merged, not summed.
    sums = args.collective in ("allreduce", "reduce", "reducescatter", "all")
    idle = [switch for switch in tree if sums and summed.get(switch, 0) == 0]
    print("aggregated packets: " + ", ".join(f"{switch} {count}" for switch, count in summed.items()))
    if pooled:
        print(f"splits: {splits} sums or more were completed by the host that lends memory")
    unsplit = forced > 0 and splits == 0
    if failed or idle or unsplit or not tree:
        why = [f"ranks failed: {', '.join(failed)}"] if failed else []
        why += [f"switches that summed nothing: {', '.join(idle)}"] if idle else []
        why += ["no switch took part"] if not tree else []
        why += [f"no sum was completed by a host, though the pool has {forced} places"] if unsplit else []
        print(f"FAILED: {'; '.join(why)}")
        return 1
    print(f"OK: {len(hosts)} {kinds} hosts, every element right, mode {args.mode}, "
          f"{args.collective} through {len(tree)} switches ({seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
