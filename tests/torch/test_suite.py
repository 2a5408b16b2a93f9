"""torch's own tests of torch.distributed (distributed_suite.py), with the backend epic. TORCH_TESTS: their names, if not all are wanted."""

import json
import os
import pathlib

import torch_ranks

HERE = pathlib.Path(__file__).resolve().parent


def test_torchs_own_tests_pass(bed, tmp_path):
    results = tmp_path / "results.json"
    program = bed.start("h0", "env", f"PYTHONPATH={torch_ranks.MODULE}", "GLOO_SOCKET_IFNAME=vec1", "OMP_NUM_THREADS=1",
                        "PYTHONDONTWRITEBYTECODE=1", "EPIC_JOIN_TIMEOUT=60", "/usr/bin/python3", "-u",
                        HERE / "distributed_suite.py", bed.name, results,
                        *os.environ.get("TORCH_TESTS", "").split(), timeout_s=7200)
    status = program.wait(7300)
    told = json.loads(results.read_text(encoding="utf-8"))
    failed = [test for test, result in told.items() if result == "failed"]
    assert status == 0 and not failed, f"{failed}\n{program.output[-20000:]}"
    assert sum(result == "passed" for result in told.values()) > 0
    bed.wait_clean()
