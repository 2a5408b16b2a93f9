"""NetReduce: S. Liu et al., "In-Network Aggregation with Transport Transparency for Distributed Training", ASPLOS 2023."""
import math

from reproduction.frame import Figure, Paper, Row, table

# Which of our modes stands for it: IV.
MODE = "spliced"
GOODPUT = "sim/epic-goodput"

# Bytes of a packet beside its payload, as the simulation counts them (sim/links.h): Ethernet with preamble and gap, IPv4,
# UDP, BTH and ICRC.
HEADERS = 80

# Table 7: megabytes, and of the ring and of NetReduce an iteration's milliseconds and those of communication; the gain.
MODELS = {"AlexNet": (236, 60.62, 47.12, 44.69, 31.10, 35.6), "VGG16": (528, 185.08, 111.98, 148.63, 74.64, 24.5),
          "ResNet50": (98, 89.19, 23.04, 83.42, 19.29, 6.9)}
# Table 9: images per second and GPU by flat ring, by Tencent's and by Parallel NetReduce; 32 images in a batch.
IMAGES = {"AlexNet": (307.5, 328.8, 519.2), "VGG16": (115.2, 122.2, 173.6), "ResNet50": (276.0, 282.8, 317.6)}
BATCH = 32


def compute_ms(model):
    """Of an iteration: what is not communication, by the ring's row of Table 7."""
    _, iteration, communication, *_ = MODELS[model]
    return iteration - communication


# --- the cost model of Appendix A; seconds, with gigabytes and gigabytes per second

def flat_ring(P, M, alpha, b_inter):
    """Eq. (1)."""
    return 2 * (P - 1) * alpha + 2 * (P - 1) / P * M / b_inter


def tencent(n, P, M, alpha, b_inter, b_intra):
    """Eq. (2), with M / b_intra in its first line, as its sum has it."""
    inside = 2 * alpha * math.log2(n) + 2 * (n - 1) / n * M / b_intra
    between = 2 * (P / n - 1) * alpha + 2 * (P / n - 1) / (P / n) * M / b_inter
    return inside + between + (math.log2(n) + n - 1) * alpha + 2 * (n - 1) / n * M / b_intra


def parallel(n, M, alpha, b_inter, b_intra):
    """Eq. (3)."""
    return (2 * n - 1) * alpha + M / b_inter + 2 * (n - 1) / n * M / b_intra


def tencent_less_parallel(n, P, M, alpha, b_inter, b_intra):
    """Eq. (4)."""
    return ((2 * P / n + 3 * math.log2(n) - n - 2) * alpha
            + ((P - 2 * n) * n * b_intra + 2 * (n - 1) * P * b_inter) / (n * P * b_intra * b_inter) * M)


def flat_less_parallel(n, P, M, alpha, b_inter, b_intra):
    """Eq. (5)."""
    return ((2 * P - 2 * n - 1) * alpha
            + ((P - 2) * n * b_intra - 2 * (n - 1) * P * b_inter) / (n * P * b_intra * b_inter) * M)


def least_b_intra(n, P, b_inter):
    """From which Parallel NetReduce is faster than the flat ring at any M, without the help of alpha: (5) is 0."""
    return 2 * (n - 1) * P * b_inter / (n * (P - 2))


# --- figures

def goodput(programs, size, *options):
    """Of AllReduces in virtual time: payload of a host in Gbit/s, seconds, bytes on its link."""
    told = programs.run(GOODPUT, "--bytes", size, *options)
    seconds = told["picoseconds"] / 1e12
    return size * 8 / seconds / 1e9, seconds, told["up"]


def table_6(programs):
    """Six hosts, 100 Gbit/s, 170 packets of 1 KB a message, two messages in a window, 6.3 us."""
    delay_ns = 3062
    size = 16 << 20
    payload, _, up = goodput(programs, size, "--mode", MODE, "--hosts", 6, "--message-packets", 170, "--window", 2,
                             "--link-delay-ns", delay_ns)
    packet_ns = (1024 + HEADERS) * 8 / 100
    bound = 100 * 1024 / (1024 + HEADERS)
    return [Row("round trip of a packet", "6.3", 2 * (delay_ns + packet_ns) / 1000, 6.29, 6.31, 2, "us"),
            Row("payload", "86.8", payload, 86.8, bound, 1, "Gbit/s"),
            Row("payload, bound of the link", "", bound, 92.7, 92.8, 2, "Gbit/s"),
            Row("payload, of all on the wire", f"{86.8 / 92.5:.3f}", size / up, 0.92, 0.95, 3),
            Row("bound with 128 bytes (SwitchML)", "0.63", 128 / (128 + HEADERS), 0.60, 0.66, 3),
            Row("bound with 256 bytes (ATP)", f"{39.7 / 50.3:.3f}", 256 / (256 + HEADERS), 0.75, 0.80, 3)]


def ratios(programs):
    """Of communication, by model: the ring of hosts over the switch, on the same links; a hundredth of the model's bytes."""
    found = {}
    for model, (megabytes, *_) in MODELS.items():
        size = megabytes * 10_000
        _, by_switch, _ = goodput(programs, size, "--mode", MODE, "--hosts", 4)
        _, by_hosts, _ = goodput(programs, size, "--by-hosts", "--hosts", 4)
        found[model] = by_hosts / by_switch
    return found


def gain(compute, ring, ratio):
    """Of the throughput, in percent, where communication is `ratio` times as fast as the ring's."""
    return 100 * ((compute + ring) / (compute + ring / ratio) - 1)


def table_7(programs):
    """Communication in virtual time; with the paper's compute and ring, training."""
    found = ratios(programs)
    rows = [Row(f"communication, {model}", f"{values[2] / values[4]:.3f}", found[model], 1.45, 1.52, 3, "times as fast")
            for model, values in MODELS.items()]
    bounds = {"AlexNet": (33.6, 37.6), "VGG16": (22.5, 26.5), "ResNet50": (8, 11)}
    for model, values in MODELS.items():
        rows.append(Row(f"images per second, {model}", f"+{values[5]}",
                        gain(compute_ms(model), values[2], found[model]), *bounds[model], 1, "%"))
    bounds = {"AlexNet": (29, 33), "VGG16": (18, 22), "ResNet50": (4.5, 7)}
    for model, (megabytes, *_) in MODELS.items():
        ring_ms = 1.5 * megabytes * 8 / (100 * 1024 / (1024 + HEADERS))
        rows.append(Row(f"the same with the ring at the links' rate, {model}", "",
                        gain(compute_ms(model), ring_ms, found[model]), *bounds[model], 1, "%"))
    return rows


def figure_11(_):
    """AlexNet on six workers: communication takes so much of the ring's iteration."""
    share = MODELS["AlexNet"][2] / MODELS["AlexNet"][1]
    ratio = 2 * 5 / 6

    def speedup(times):
        return 1 / (1 - share + share / times)

    return [Row("AlexNet, NetReduce over the ring", "1.45", speedup(ratio), 1.42, 1.48),
            Row("AlexNet, SwitchML over the ring", "1.18", speedup(ratio * 63 / 86.8), 1.14, 1.22)]


# Figure 7: n, gigabytes per second between machines, and the size that it does not state, in gigabytes.
N, B_INTER, M = 8, 12.5, 0.1
RANKS = (32, 64, 128, 256, 512, 1024)
B_INTRA = (15.75, 25, 50, 75, 100)
ALPHA_US = (0.1, 1, 10, 100)


def times(P, b_intra, alpha_us):
    """By flat ring, Tencent's and Parallel NetReduce."""
    alpha = alpha_us * 1e-6
    return {"FR": flat_ring(P, M, alpha, B_INTER), "TA": tencent(N, P, M, alpha, B_INTER, b_intra),
            "PN": parallel(N, M, alpha, B_INTER, b_intra)}


def points():
    """All of the grid."""
    return [(P, b_intra, alpha) for P in RANKS for b_intra in B_INTRA for alpha in ALPHA_US]


def disagreements():
    """Points at which (4) or (5) is not the difference of (2) or (1) and (3)."""
    wrong = 0
    for P, b_intra, alpha_us in points():
        took, alpha = times(P, b_intra, alpha_us), alpha_us * 1e-6
        wrong += not math.isclose(tencent_less_parallel(N, P, M, alpha, B_INTER, b_intra), took["TA"] - took["PN"],
                                  rel_tol=1e-9, abs_tol=1e-12)
        wrong += not math.isclose(flat_less_parallel(N, P, M, alpha, B_INTER, b_intra), took["FR"] - took["PN"],
                                  rel_tol=1e-9, abs_tol=1e-12)
    return wrong


def fastest(P, b_intra, alpha_us):
    took = times(P, b_intra, alpha_us)
    return min(took, key=took.get)


def figure_7(_):
    """The cost model on the figure's axes."""
    def spread(who, some):
        took = [times(*point)[who] for point in some]
        return max(took) / min(took)

    by_ranks = [(P, 50, 10) for P in RANKS]
    by_alpha = [(1024, 50, alpha) for alpha in ALPHA_US]
    wins = sum(fastest(*point) == "PN" for point in points())
    least = least_b_intra(N, 32, B_INTER)
    at_pcie = times(32, 15.75, 0)
    return [Row("points where (4), (5) are not (2) - (3), (1) - (3)", "0", disagreements(), 0, 0, 0),
            Row("longest time over shortest by P, FR", "varies", spread("FR", by_ranks), 2, 3),
            Row("by P, TA", "varies", spread("TA", by_ranks), 1.2, 1.5),
            Row("by P, PN", "does not", spread("PN", by_ranks), 1, 1),
            Row("by alpha at P = 1024, FR", "varies", spread("FR", by_alpha), 12, 15),
            Row("by alpha at P = 1024, TA", "varies", spread("TA", by_alpha), 2, 3),
            Row("by alpha at P = 1024, PN", "does not", spread("PN", by_alpha), 1, 1.2),
            Row("PN outperforms FR from this Bintra on, P = 32", "15.75", least, 23.2, 23.4, 1, "GB/s"),
            Row("FR's time over PN's at 15.75 GB/s, P = 32", "above 1", at_pcie["FR"] / at_pcie["PN"], 0.80, 0.82),
            Row("(6) at P = 32", "2.3", 2 * 32 / (32 - 2), 2.13, 2.14),
            Row("the same without relaxing (5)", "", least / B_INTER, 1.86, 1.88),
            Row(f"points of {len(points())} where PN is the fastest", "all with Bintra above 15.75", wins, 105, 105, 0)]


def winners():
    """Who is the fastest, by rows of alpha and P."""
    rows = [[f"{alpha} us, P = {P}", *(fastest(P, b_intra, alpha) for b_intra in B_INTRA)]
            for alpha in ALPHA_US for P in (32, 128, 1024)]
    return ("The fastest, by alpha and P, and by Bintra in GB/s:\n\n"
            + table(["", *(str(b_intra) for b_intra in B_INTRA)], rows))


def table_9(_):
    """32 GPUs in four machines: the equations, and the paper's iterations less its compute."""
    n, P, b_intra = 8, 32, 150
    pn = parallel(n, M, 0, B_INTER, b_intra)
    equations = (flat_ring(P, M, 0, B_INTER) / pn, tencent(n, P, M, 0, B_INTER, b_intra) / pn)
    own = {}
    for model, rates in IMAGES.items():
        fr, ta, pn_ms = (BATCH / rate * 1000 - compute_ms(model) for rate in rates)
        own[model] = (fr / pn_ms, ta / pn_ms)
    said = [" / ".join(f"{own[model][i]:.2f}" for model in own) for i in range(2)]
    rows = [Row("communication by FR over PN, equations", said[0], equations[0], 1.68, 1.70),
            Row("communication by TA over PN, equations", said[1], equations[1], 1.55, 1.57)]
    gains = {"AlexNet": ("+68.8", "+57.9"), "VGG16": ("+50.7", "+42.1"), "ResNet50": ("+15.1", "+12.3")}
    for model, (megabytes, *_) in MODELS.items():
        fr_ms = BATCH / IMAGES[model][0] * 1000 - compute_ms(model)
        ta_ms = BATCH / IMAGES[model][1] * 1000 - compute_ms(model)
        bounds = {"AlexNet": ((50, 60), (41, 51)), "VGG16": ((40, 46), (31, 37)), "ResNet50": ((20, 23), (15, 19))}[model]
        rows.append(Row(f"images per second, PN over FR, {model} ({megabytes} MB)", gains[model][0],
                        gain(compute_ms(model), fr_ms, equations[0]), *bounds[0], 1, "%"))
        rows.append(Row(f"PN over TA, {model}", gains[model][1], gain(compute_ms(model), ta_ms, equations[1]), *bounds[1],
                        1, "%"))
    return rows


def rings(programs):
    """n groups of M / n on the same hosts' links."""
    size = 8 << 20
    _, one, _ = goodput(programs, size, "--mode", MODE, "--groups", 1)
    rows = []
    for n in (2, 4, 8):
        _, took, _ = goodput(programs, size, "--mode", MODE, "--groups", n)
        rows.append(Row(f"{n} rings of M/{n}, over one of M", "1", took / one, 0.98, 1.02, 3))
    return rows


def link_bytes(programs):
    """What AllReduce of four and of six hosts puts on a host's link, over what the ring of hosts does."""
    rows, size = [], 4_000_000
    for hosts in (4, 6):
        _, _, ours = goodput(programs, size, "--mode", MODE, "--hosts", hosts)
        _, _, ring = goodput(programs, size, "--by-hosts", "--hosts", hosts)
        theory = hosts / (2 * (hosts - 1))
        rows.append(Row(f"{hosts} hosts", f"{theory:.3f}", ours / ring, 0.95 * theory, 1.05 * theory, 3))
    return rows


PAPER = Paper(
    "netreduce", "In-Network Aggregation with Transport Transparency for Distributed Training (ASPLOS 2023): NetReduce",
    (Figure("Table 6", "micro benchmark, six hosts at 100 Gbit/s", table_6,
            "Ours is an AllReduce of 16 MiB in virtual time. The simulation has the links, the window and the round trip\n"
            "of the paper, and no cost of hosts; so it comes nearer to the bound. It counts preamble, gap and\n"
            "acknowledgements as bytes on the wire. The bounds are of RoCE's headers, those of the paper of each\n"
            "system's own headers. The paper's 32.7 Gbit/s of SwitchML could not beat the ring in its Figure 11.", True),
     Figure("Table 7", "four hosts, batches of 32, FP16", table_7,
            "Communication is in virtual time, of a hundredth of each model's bytes; theory has 2(P - 1)/P = 1.5. Images per\n"
            "second are the paper's compute and its ring's communication, divided by our ratio. The paper's 1.194\n"
            "of ResNet50 is not reproduced, nor its gain, and the paper gives no reason. Its rings are slower than its\n"
            "links; the last rows have the links' rate in place of its rings.", True),
     Figure("Figure 11", "single-GPU machines, six workers", figure_11,
            "1/(1 - c + c/r), with Table 7's share of communication c and r = 2(P - 1)/P. SwitchML has r less by 63 to 86.8,\n"
            "the goodputs of Section 5.2. Of the other models the text has no share of communication."),
     Figure("Figure 7", "the cost model, n = 8, Binter = 12.5 GB/s", figure_7,
            "Equations (1) to (5), with (2) as its sum has it. The paper does not state M; ours is 100 MB. PN does vary with\n"
            "alpha, by 2n - 1 times that. Where the text says that PN always outperforms FR, (5) says otherwise.", False,
            winners),
     Figure("Table 9", "and Figure 14: four machines of eight GPUs, batches of 32, FP16", table_9,
            "The equations have Bintra = 150 GB/s and no alpha, and hold at any M. The paper's figures in the first two rows\n"
            "are its iterations less Table 7's compute, AlexNet / VGG16 / ResNet50. The paper's gains are\n"
            "larger than the equations' for AlexNet and VGG16, and smaller for ResNet50. These lack what Section 5.4 names: to\n"
            "move data between network and GPU. That +68.8 and +57.9 look like 1.69 and 1.56 is chance, since these are of\n"
            "communication, and those of whole iterations."),
     Figure("Section 3.4", "n rings on one link", rings,
            "Stage 2 of Parallel NetReduce takes M/Binter, however many rings share the link. Ours: n groups on the same four\n"
            "hosts, in virtual time.", True),
     Figure("Section 2.1", "bytes on a host's link, over the ring's", link_bytes,
            "The ring of hosts sends 2(P - 1)/P of the data, a host under a switch all of them once. The paper\n"
            "has no figures, and its column is that theory. Ours is in virtual time, with headers and acknowledgements.", True)),
    ("Eq. (2): T_ta1 has M/(n Bintra); by the sum below it is M/Bintra.",
     "Section 5.4: (6) gives 2.13 for P = 32, not 2.3; (5) itself gives 1.87.",
     "Section 3.4: PN does not always outperform FR with Bintra of 15.75 GB/s and more: at P = 32 it does from 23.3 GB/s on.",
     "Section 3.1: the range of packets in flight is i - N MsgLen to i + N MsgLen.",
     "Table 6: SwitchML's payload of 32.7 Gbit/s does not fit its bound of 63 % in Section 5.2, nor Figure 11."),
    (("Tables 1, 5, 10; FPGA resources", "hardware, prices and lines of code of their systems"),
     ("Table 2, Figure 2", "another system's"),
     ("Table 8", "the text has no compute for FP32 and these batches"),
     ("Figure 11, but for AlexNet", "the text has no share of communication of these models"),
     ("Figure 12", "a training, on a real switch: bench/train --mode spliced --against hosts --least-ratio 0"),
     ("Figure 13, Figure 14, but for FP16 and 32", "plots without figures in the text")))
