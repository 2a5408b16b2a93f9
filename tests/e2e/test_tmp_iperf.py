import json, statistics
import host_api
def iperf3(bed):
    server = bed.start("h1", "iperf3", "-s", "-1", "--forceflush")
    server.wait_for("listening")
    client = bed.run("h0", "iperf3", "-J", "-t", "4", "-c", "10.10.0.2")
    return json.loads(client)["end"]["sum_received"]["bits_per_second"] / 1e6
def test_it(beds):
    bed = beds.get("star-4", "--hosts", "softnic")
    got = {"none": [], "II": [], "IV": []}
    for turn in range(8):
        for way in (list(got) if turn % 2 else list(got)[::-1]):
            ranks, groups = [], []
            if way != "none":
                for g in range(4):
                    group = bed.network_group("--mode", way); groups.append(group)
                    mine = [host_api.Rank(bed, n, ["init", "allreduce:300", "pause", "destroy"], group) for n in range(4)]
                    for r in mine: r.wait_until_doing("pause")
                    ranks += mine
            got[way].append(iperf3(bed))
            for r in ranks: r.signal()
            for r in ranks: assert r.errors() == []
            for g in groups: bed.manager("group", "destroy", g)
        print({k: [round(x) for x in v] for k, v in got.items()}, flush=True)
    m = {k: statistics.median(v) for k, v in got.items()}
    print("MEDIANS", m, {k: round(v / m["none"], 3) for k, v in m.items()})
    ratios = {k: statistics.median(a / b for a, b in zip(got[k], got["none"])) for k in got}
    print("BY TURN", ratios)
