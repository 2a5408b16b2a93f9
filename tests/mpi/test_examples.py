"""The programs of examples/mpi, by either MPI."""

import epic_ranks
import harness
import pytest

SWITCHES = "by EPIC, through the switches"
EXAMPLES = harness.ROOT / "examples" / "mpi"


@pytest.mark.parametrize("name, says, functions", [
    ("fit", "ok: y = 3.00 x -1.00, of 4000 points", {"MPI_Allreduce", "MPI_Bcast"}),
    ("heat", "ok: mean 1.000 after ", {"MPI_Allreduce"})])
def test_an_example_is_right_and_summed_by_the_switches(bed, mpirun, name, says, functions):
    before = [epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches]
    done = mpirun(name, patient=True)
    assert done.status == 0 and says in done.output, done.output
    assert {function for function, way in done.report() if way == SWITCHES} == functions and done.said() == [], done.output
    after = [epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches]
    assert all(now > then + 100 for then, now in zip(before, after)), (before, after)
    bed.wait_clean()


def test_the_examples_are_short_and_the_readme_starts_them():
    readme = (harness.ROOT / "README.md").read_text(encoding="utf-8")
    for source in EXAMPLES.iterdir():
        assert len(source.read_text(encoding="utf-8").splitlines()) <= 60
        assert f"examples/mpi/{source.name}" in readme
