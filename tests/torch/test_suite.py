"""torch's own tests of torch.distributed (distributed_suite.py), with the backend epic and with Gloo: each comes to what suite_list.txt
says. TORCH_TESTS: their names, if not all are wanted."""

import json
import os
import pathlib

import pytest
import suite_list
import torch_ranks

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("backend", ["epic", "gloo"])
def test_torchs_own_tests_come_to_what_is_listed(bed, tmp_path, capsys, backend):
    results = tmp_path / "results.json"
    wanted = os.environ.get("TORCH_TESTS", "").split()
    # The seed orders the sets that torch's reasons name.
    program = bed.start("h0", "env", f"PYTHONPATH={torch_ranks.MODULE}", "GLOO_SOCKET_IFNAME=vec1", "OMP_NUM_THREADS=1",
                        "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0", "EPIC_JOIN_TIMEOUT=60", f"BACKEND={backend}",
                        "/usr/bin/python3", "-u", HERE / "distributed_suite.py", bed.name, results, *wanted, timeout_s=7200)
    status = program.wait(7300)
    told = json.loads(results.read_text(encoding="utf-8"))
    with capsys.disabled():
        print(f"\n{backend}: {suite_list.counted(told.values())}")
    listed = {test: outcome for test, outcome in suite_list.expected(backend).items() if test in wanted or not wanted}
    differ = [f"{test}: {told.get(test, 'not run')}, listed as: {listed.get(test, 'not at all')}"
              for test in sorted({*told, *listed}) if told.get(test) != listed.get(test)]
    assert status == 0 and not differ, "\n".join(differ) + f"\n{program.output[-20000:]}"
    bed.wait_clean()
