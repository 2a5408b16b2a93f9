"""check_layers.py finds what it is there for: each rule broken once."""
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).with_name("check_layers.py")

BROKEN = {
    "roce/a.cc": '#include "incengine/core/engine.h"\n',
    "incengine/modes/a.cc": "#include <grpcpp/grpcpp.h>\n",
    "commlib/core/a.cc": "#include <infiniband/verbs.h>\n",
    "sim/a.cc": "auto t = std::chrono::steady_clock::now();\n",
    "base/a.h": "\n" * 401,
    "incengine/state/a.h": '#include "incengine/core/effects.h"\n',
    "incmanager/graph/a.h": '#include "incmanager/groups/switch_table.h"\n',
    "incmanager/groups/a.cc": "const auto now = std::chrono::steady_clock::now();\n",
    "incmanager/hosts/a.cc": '#include "incmanager/groups/group_life.h"\n',
    "incmanager/policies/a.h": '#include "incmanager/groups/plan.h"\n',
    "incmanager/policies/a.cc": "v.erase(std::ranges::unique(v).begin(), v.end());\n",
    "incagent/a.cc": "auto c = grpc::CreateChannel(address, credentials);\n",
    "bench/a_test.cc": "#include <CLI/CLI.hpp>\n",
    "new_folder/a.cc": "\n",
}


@pytest.mark.parametrize("path", BROKEN)
def test_finds_violation(tmp_path, path):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(BROKEN[path])
    run = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and run.stdout.startswith(path), run.stdout


def test_accepts_what_is_allowed(tmp_path):
    (tmp_path / "roce").mkdir()
    (tmp_path / "roce/a.cc").write_text('#include "base/psn.h"\n')
    run = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
