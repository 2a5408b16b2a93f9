#!/usr/bin/python3
"""demo_run.py --bed NAME: collectives over every host of a test bed that is up; table and verdict.

Exit status 0 if every element was right and every switch of the tree counted aggregated packets, else 1.
"""
import argparse
import sys
import time

import epic_ranks
import modes


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
    tree = []
    before = {switch: epic_ranks.aggregated_packets(args.bed, switch) for switch in epic_ranks.switches_of(args.bed)}

    def argv(rank):
        return [perf, "--group", "demo", "--rank", rank, "--size", len(hosts),
                "--mode", args.mode, "--collective", args.collective, "-b", smallest, "-e", largest, "-f", 4, "-n", 5, "-w", 2]

    def on_line(line):
        print(line, end="", flush=True)
        # The tree is known to the manager only while the group lives.
        if not tree and line.startswith("#"):
            group = epic_ranks.manager(args.bed, "group", "show", "demo", check=False) or {}
            tree.extend(node["switch_name"] for node in group.get("tree", []))

    begin = time.monotonic()
    results = epic_ranks.run_ranks(args.bed, hosts, argv, timeout=600, on_line=on_line)
    seconds = time.monotonic() - begin
    failed = [f"{host} (exit {result.status})" for host, result in zip(hosts, results) if result.status != 0]
    for host, result in zip(hosts[1:], results[1:]):
        if result.status != 0:
            print(f"--- {host}:\n{result.output}")
    summed = {switch: epic_ranks.aggregated_packets(args.bed, switch) - count for switch, count in before.items()}
    # A short run can end before the manager is asked: then the switches that have worked are the tree.
    tree = tree or [switch for switch, count in summed.items() if count > 0]
    # Copies and barriers are merged, not summed.
    sums = args.collective in ("allreduce", "reduce", "reducescatter", "all")
    idle = [switch for switch in tree if sums and summed.get(switch, 0) == 0]
    print("aggregated packets: " + ", ".join(f"{switch} {count}" for switch, count in summed.items()))
    if failed or idle or not tree:
        why = [f"ranks failed: {', '.join(failed)}"] if failed else []
        why += [f"switches that summed nothing: {', '.join(idle)}"] if idle else []
        why += ["no switch took part"] if not tree else []
        print(f"FAILED: {'; '.join(why)}")
        return 1
    print(f"OK: {len(hosts)} {kinds} hosts, every element right, mode {args.mode}, "
          f"{args.collective} through {len(tree)} switches ({seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
