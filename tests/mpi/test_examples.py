"""The programs of examples/mpi, by either MPI."""

import os
import re
import signal
import subprocess
import time

import epic_ranks
import harness
import launcher
import pytest
from epic_testbed import net

SWITCHES = "by EPIC, through the switches"
EXAMPLES = harness.ROOT / "examples" / "mpi"


@pytest.mark.one_mpi("examples")
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


@pytest.fixture(name="page")
def fixture_page(bed, tmp_path):
    """What stands first in docs/MPI.md, but for what brings a bed up and down, by its first words; and what runs such a line on this bed."""
    text = (harness.ROOT / "docs" / "MPI.md").read_text(encoding="utf-8")
    block = re.search(r"\n\n((?:    .*\n)+)", text)[1]
    lines = [line.strip() for line in block.splitlines() if not re.search(r"^ +(cmake|scripts/testbed (up|down))\b", line)]
    for folder in ("scripts", "examples"):
        (tmp_path / folder).symlink_to(harness.ROOT / folder)

    def run(line):
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env={**os.environ, "TESTBED_NAME": bed.name, "EPIC_MPI_REPORT": "1"},
                              capture_output=True, text=True, timeout=harness.END_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return lines, run


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_pages_first_lines(bed, page, mpi, request):
    (build, on_all, on_two), run = page
    # Ranks that wait sleep in a default run, as in other tests: the page's lines start the program as they are.
    patient = () if request.config.getoption("--full") else ("-Wl,--no-as-needed", launcher.PATIENT, f"-Wl,-rpath,{launcher.PROGRAMS}")
    run(build.replace("mpicc", " ".join(map(str, (f"mpicc.{mpi}", *patient)))))
    said = run(on_all)
    assert "of 4000 points" in said and SWITCHES in said, said
    assert mpi == "mpich" or "of 3000 points" in run(on_two)
    bed.wait_clean()


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_ctrl_c_ends_ranks_and_what_started_them(bed, mpi):
    argv = [epic_ranks.TESTBED, "mpirun", "--name", bed.name, mpi, "sh", "-c", "echo ready; exec sleep 1000"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ready = 0
    while ready < len(bed.hosts):
        line = process.stdout.readline()
        assert line, "they have ended"
        ready += line == "ready\n"
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=harness.END_S)[0]
    assert process.returncode >= 128 + signal.SIGINT, said
    deadline = time.monotonic() + harness.SOON_S
    while there := net.pids_in(f"epic-{bed.name}-h"):
        assert time.monotonic() < deadline, f"{there} have not ended: {said}"
        time.sleep(0.05)


def test_the_examples_are_short_and_the_readme_starts_them():
    readme = (harness.ROOT / "README.md").read_text(encoding="utf-8")
    for source in EXAMPLES.iterdir():
        assert len(source.read_text(encoding="utf-8").splitlines()) <= 60
        assert f"examples/mpi/{source.name}" in readme
