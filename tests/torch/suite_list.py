"""What torch's own tests come to (suite_list.txt): a line for each, `TEST: with Gloo`, and behind a bar `with EPIC` where that is
otherwise."""

import pathlib

LIST = pathlib.Path(__file__).resolve().parent / "suite_list.txt"
LEFT_OUT = "left out: "


def read(text):
    """{test: {"gloo": outcome, "epic": outcome}}"""
    told = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            test, _, outcomes = line.partition(": ")
            by_gloo, _, by_epic = outcomes.partition(" | ")
            told[test] = {"gloo": by_gloo, "epic": by_epic or by_gloo}
    return told


def expected(backend):
    """{test: outcome}"""
    return {test: outcomes[backend] for test, outcomes in read(LIST.read_text(encoding="utf-8")).items()}


def counted(outcomes):
    """In the words of docs/TORCH.md."""
    outcomes = list(outcomes)
    kinds = [(sum(outcome.startswith(begin) for outcome in outcomes), words) for begin, words in
             (("passed", "pass"), ("skipped: ", "are skipped by torch itself"), (LEFT_OUT, "are left out"), ("failed", "fail"))]
    return f"of {len(outcomes)} tests " + ", ".join(f"{number} {words}" for number, words in kinds if number)
