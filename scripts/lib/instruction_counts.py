"""Counts of instructions beside those committed: {case: instructions} both."""

TOLERANCE = 0.03


def wrong(counted, committed):
    """The cases that are not as committed, or are only in one of the two."""
    return [case for case in {**committed, **counted}
            if case not in committed or case not in counted or abs(counted[case] - committed[case]) > TOLERANCE * committed[case]]


def table(counted, committed):
    """A line of each case."""
    lines = [f"{'instructions':48} {'counted':>12} {'committed':>12} {'change':>9}"]
    for case, number in counted.items():
        before = committed.get(case)
        change = f"{100 * (number / before - 1):+.1f} %" if before else "new"
        lines.append(f"{case:48} {number:>12,} {before or 0:>12,} {change:>9}")
    return "\n".join(lines)
