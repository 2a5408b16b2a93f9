"""Training jobs that take places of a switch from each other: "Preemptive Switch Memory Usage to Accelerate Training Jobs with
Shared In-Network Aggregation" (DSA), by the rules that it publishes."""
from reproduction.frame import Figure, Paper, Row

PROGRAM = "sim/dsa/epic-jobs"

# Bytes. The paper begins with 60 KB, and states no other system's.
WINDOWS = (30_000, 60_000, 125_000, 500_000, 2_000_000)
NARROW = (15_000, 20_000)
SEEDS = "1,2"
AIMD = "AIMD"  # from 60 KB


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def asked(programs, system, dnn="A", windows=(60_000,), seeds="1", **options):
    """By (pool, window): the rows of each seed. Options are the program's, with True for flags."""
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
    rows = programs.run(PROGRAM, "--system", system, "--dnn", dnn, "--window", ",".join(map(str, windows)), "--seed", seeds,
                        *words)["rows"]
    found = {}
    for row in rows:
        found.setdefault((row["pool"], row["window"]), []).append(row)
    return found


def by_window(programs, system, dnn="A", windows=WINDOWS, **options):
    """Rows by window, and of windows that adapt by AIMD from 60 KB; SwitchML adapts none."""
    found = {window: rows for (_, window), rows in asked(programs, system, dnn, windows, SEEDS, **options).items()}
    if system != "switchml":
        (found[AIMD],) = asked(programs, system, dnn, seeds=SEEDS, aimd=True, **options).values()
    return found


def completion(rows):
    return mean(row["completion"] for row in rows)


def inverse_utilisation(rows):
    """So that a ratio of it says how much more the other one has."""
    return 1 / mean(row["utilisation"] for row in rows)


def kilobytes(window):
    return window if window == AIMD else f"{window // 1000} KB"


def same(what, paper, theirs, ours, value, low, high):
    """A ratio for each window, the same for both systems."""
    return [Row(f"{what}, both {kilobytes(window)}", paper, value(theirs[window]) / value(ours[window]), low, high)
            for window in theirs if window in ours]


def nearest(what, paper, theirs, ours, value):
    """Of all pairs of windows the one whose ratio is nearest to the paper's; it is met within 5 %."""
    ratio, mine, other = min(((value(theirs[a]) / value(ours[b]), b, a) for a in theirs for b in ours),
                             key=lambda found: abs(found[0] - float(paper)))
    return Row(f"{what}, nearest: {kilobytes(other)} against DSA's {kilobytes(mine)}: {met(ratio, paper)}", paper, ratio,
               0.9 * float(paper), 1.1 * float(paper))


# --- figures

def met(ratio, paper):
    return "met" if abs(ratio / float(paper) - 1) <= 0.05 else "not met"


def systems_by_window(programs, dnn, value, papers):
    """SwitchML and ATP over DSA: with the same window, and with that of each which comes nearest to the paper."""
    ours = by_window(programs, "dsa", dnn)
    rows = []
    for system, name, paper in zip(("switchml", "atp"), ("SwitchML", "ATP"), papers):
        theirs = by_window(programs, system, dnn, (NARROW if system == "switchml" else ()) + WINDOWS)
        label = f"{dnn}: {name} over DSA"
        rows += same(label, paper, theirs, ours, value, *SAME[system])
        rows.append(nearest(label, paper, theirs, ours, value))
    return rows


# What the same windows may give.
SAME = {"switchml": (0.25, 1), "atp": (0.85, 1.75)}


def figures_8_and_9(programs):
    rows = systems_by_window(programs, "A", completion, ("1.89", "1.35"))
    for what, counts in (("jobs", (1, 2, 4)), ("workers", (2, 4))):
        for count in counts:
            atp, dsa = (completion(*asked(programs, system, **{what: count}).values()) for system in ("atp", "dsa"))
            rows.append(Row(f"A: ATP over DSA, 60 KB, {count} {what[:-1] if count == 1 else what}", "less", atp / dsa, 1.1, 1.6))
    return rows


def figure_10(programs):
    return (systems_by_window(programs, "A", inverse_utilisation, ("2.27", "1.45"))
            + systems_by_window(programs, "B", inverse_utilisation, ("1.9", "1.28")))


def figure_11(programs):
    rows = []
    for dnn, papers in (("A", ("1.35", "1.19", "1.19")), ("mix", ("1.22", "1.05", "1.05"))):
        for adapts in (False, True):
            def took(system):
                options = {"aimd": True} if adapts else {}
                return completion(*asked(programs, system, dnn, seeds=SEEDS, **options).values())
            atp = took("atp")
            for system, name, paper in zip(("dsa", "always", "coin"), ("DSA", "always", "a coin"), papers):
                ratio = atp / took(system)
                rows.append(Row(f"{dnn}, {AIMD if adapts else '60 KB'}: ATP over {name}: {met(ratio, paper)}", paper, ratio, 0.8, 1.5))
    return rows


def stall(programs):
    rows = []
    for window in (60_000, 500_000):
        def of(last):
            ((row,),) = asked(programs, "dsa", windows=(window,), last=last).values()
            return row
        reminder, at_once = of("reminder"), of("at-once")
        name = kilobytes(window)
        rows.append(Row(f"{name}: completion, a reminder over at once", "", reminder["completion"] / at_once["completion"], 1.2, 3))
        for what, row, low, high in (("a reminder", reminder, 0, 3000), ("at once", at_once, 4, 50)):
            rows += [Row(f"{name}: split index behind its last packet, {what}, p50", "", row["split_rest"][1] / 1000, low, high, 1, "us"),
                     Row(f"{name}: split index behind its last packet, {what}, p99", "", row["split_rest"][3] / 1000,
                         1000 if low == 0 else low, high, 1, "us"),
                     Row(f"{name}: split indices, {what}", "", row["types"][2], 1, 200_000, 0)]
    return rows


def figure_1(programs):
    rows = []
    for system, name in (("atp", "ATP"), ("dsa", "DSA")):
        for window, found in by_window(programs, system).items():
            for place, percent in enumerate((10, 50, 90, 99)):
                rows.append(Row(f"{name}, {kilobytes(window)}: p{percent}", "3000 to 20000" if percent == 50 else "",
                                found[0]["claims"][place] / 1000, 0, 2000, 1, "us"))
    return rows


def figure_12(programs):
    rows = []
    for where in ("worker", "server"):
        for loss in ("0.0001", "0.001", "0.01"):
            def of(system):
                options = {f"{where}_loss": loss, "jobs": 2, "workers": 4, "pool": 1_000_000, "most_ns": 20_000_000_000}
                ((row,),) = asked(programs, system, **options).values()
                return row
            atp, dsa = of("atp"), of("dsa")
            ratio = dsa["completion"] / atp["completion"]
            name = f"{float(loss) * 100:g} % lost at a {where}"
            verdict = "not met" if ratio > 1.1 else "met" if ratio > 0.9 else "ahead"
            rows.append(Row(f"{name}: completion of DSA over ATP: {verdict}", "near 1", ratio, *LOSSY[where]))
            papers = ("0.8", "0.1", "0.1") if where == "worker" else ("0.71", "0.14", "0.14")
            for kind, paper, count in zip(("I", "II", "III"), papers, dsa["lost_types"]):
                if dsa["lost"] > 0:
                    rows.append(Row(f"{name}: of {dsa['lost']} packets lost, type {kind}", paper, count / dsa["lost"],
                                    *TYPES[where][kind]))
    return rows


# DSA's time over ATP's.
LOSSY = {"worker": (1.5, 5), "server": (0.01, 0.6)}
# Shares of its lost packets by the type of their index.
TYPES = {"worker": {"I": (0.4, 0.9), "II": (0, 0.05), "III": (0.1, 0.6)}, "server": {"I": (0, 0), "II": (0, 0), "III": (1, 1)}}


def sweeps(programs):
    rows = []

    def ratios(what, **options):
        took = {system: completion(*asked(programs, system, **options).values()) for system in ("switchml", "atp", "dsa")}
        rows.extend(Row(f"{what}: {name} over DSA", "", took[system] / took["dsa"], 0.6, 3)
                    for system, name in (("switchml", "SwitchML"), ("atp", "ATP")))
    ratios("as it is")
    for pool in (250_000, 1_000_000):
        ratios(f"pool of {pool / 1e6:g} MB", pool=pool)
    for payload in (128, 1024):
        ratios(f"payload of {payload} bytes", payload=payload)
    for of in ("job", "tensor"):
        ratios(f"jitter of each {of}", jitter_of=of)
    ratios("half of the computation behind the results", forward=50)
    early, late = (completion(*asked(programs, "atp", **options).values()) for options in ({"repeat_after": 3}, {}))
    rows.append(Row("ATP repeats after three results beyond: over itself", "", early / late, 0.5, 1.1))
    return rows


def faults(programs):
    def of(**options):
        ((row,),) = asked(programs, "dsa", **options).values()
        return row
    plain, added = of(), of(overlaps="added")
    gone = of(jobs=2, workers=4, pool=1_000_000, worker_loss="0.001", in_place=True)

    def count(what, value, low, high=100_000):
        return Row(what, "", value, low, high, 0)
    return [count("nothing lost: split indices that wait half a millisecond and more for their rest", plain["stalled"], 1),
            count("nothing lost: packets that workers repeat all the same", plain["repeats"], 1),
            count("nothing lost: partial sums with workers in common, dropped", plain["overlaps"], 1),
            count("nothing lost, and a server adds those: results with a contribution twice", added["twice"], 1),
            count("nothing lost: collisions of two indices of one job", plain["own_collisions"], 1),
            count("0.1 % lost at a worker, results in place: originals that are asked for and gone", gone["gone"], 1),
            count("0.1 % lost at a worker, results in place: indices that hang for ever", gone["hung"], 1),
            count("all of these: results that lack a contribution", plain["missing"] + added["missing"] + gone["missing"], 0, 0),
            count("without sums that are added: results with a contribution twice", plain["twice"] + gone["twice"], 0, 0)]


PAPER = Paper(
    "dsa", "Preemptive Switch Memory Usage to Accelerate Training Jobs with Shared In-Network Aggregation",
    (Figure("Figures 8 and 9", "job completion, eight jobs of eight workers", figures_8_and_9,
            "DNN A. The paper has the most of two figures, and states neither SwitchML's window nor ATP's. So rows have windows\n"
            "that are the same for both, and then the pair whose ratio is nearest. It is met within 5 %. SwitchML needs no server,\n"
            "so it never waits for one: it is ahead of DSA unless its window is far below what a round trip takes. DSA loses by\n"
            "the stall below. ATP's places and windows wait for a round trip to the server, DSA's for half of it. That, not the\n"
            "taking of places, is what ATP loses here with one job as well. With eight jobs and the same seed ATP over DSA is\n"
            "1.33: it grows with jobs, as in the paper. With workers it does not.", True),
     Figure("Figure 10", "switch memory utilisation, as a ratio", figure_10,
            "Utilisation is a worker's payload over what its link could have carried from its first gradient to its last result.\n"
            "The paper has aggregation throughput over the link's rate, and does not say over which time.", True),
     Figure("Figure 11", "who takes a place", figure_11,
            "`mix` has A and B by turns. The paper has priorities ahead of both others in both cases. Here a packet that always\n"
            "takes the place is as good with A alone, and better in the mix. A coin splits more indices, and each split stalls.", True),
     Figure("Section III-C", "what a split index waits for", stall,
            "Not in the paper as a figure. A switch that knows when the last worker's packet has come can send the rest at once,\n"
            "and nobody waits for a timeout of a millisecond. The paper's switch does not. Round trips of two hosts are 10 us.", True),
     Figure("Figure 1", "from claim to release of a place", figure_1,
            "The paper measures it on servers that train, where the median is 3 to 20 ms. Here workers differ by their jitter\n"
            "alone, of 300 us at most. Those of one job go in step as soon as a window has made the fast ones wait: then all\n"
            "packets of an index come at one time. So DSA's median is nothing. ATP's grows with the window, as results queue for\n"
            "the server.", True),
     Figure("Figure 12", "losses, two jobs of four workers, pool of 1 MB", figure_12,
            "The first job's first worker, or its server, loses both ways; completion is the mean of both jobs. The paper trains\n"
            "on servers. A lost result costs a timeout of ATP, and four of DSA: three repetitions, then a reminder. At a server\n"
            "DSA loses little, as little goes there, and ATP's results all do. By the paper's rules no packet of type I or II\n"
            "passes the server, so its 5:1:1 there cannot be. ATP's server keeps results for who has lost them, as ATP's own paper\n"
            "has it.", True),
     Figure("Sweeps", "pool, packet, jitter and computation, windows of 60 KB", sweeps,
            "One thing is changed at a time, with one seed. With a pool of 0.25 MB the paper's 1.89 over SwitchML is met: a job's\n"
            "region is 31 KB then, and half of it is the window. ATP's own paper repeats a packet, too, when three results beyond\n"
            "it have come; this one does not say so.", True),
     Figure("Section IV", "what the published rules leave open, counted", faults,
            "Sums are followed by a count for each worker, beside the bitmaps. A split index waits for a timeout where nothing is\n"
            "lost. Workers repeat meanwhile, find the place free, and make a second sum with workers in common with the server's.\n"
            "The paper does not say what becomes of it: dropped, originals must repair it; added, a contribution counts twice. And\n"
            "where results lie in place of gradients, who has a result has no original: an index whose result one worker has lost\n"
            "hangs.", True)),
    ("Section VII-C has losses at the server of packets of type I. Its Section III-B sends none of these there.",
     "Section IV-B lets a server ask workers for originals, and does not say that they keep these behind their results.",
     "Section IV-B does not say what a server does with a partial sum that has workers in common with its own.",
     "Equation (1) has no bound where the remaining time comes to nothing. Here it is at least what the last packet takes.",
     "Hash(JobID, PSN) lets two indices of one job meet, and within a layer the later one has the higher priority."),
    (("Figures 2 and 6", "of a P4 switch, and of training on servers"),
     ("Figure 5", "of training; here sums are counted, and each is right"),
     ("Figure 7", "of real servers")))
