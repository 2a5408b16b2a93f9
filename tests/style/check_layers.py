#!/usr/bin/python3
"""check_layers.py [ROOT]: the dependency direction and size rules of docs/ARCHITECTURE.md, as a test.

- which folder may include which;
- only the world's edges may include sockets, gRPC, verbs, DPDK's or logging headers;
- cores read no clock and roll no dice;
- CLI11, whose templates take six seconds in each source, is in base/command_line.cc alone;
- channels of gRPC are made in base/grpc/channel.h alone, so that none asks a proxy;
- nothing uses the parts of <ranges> that the sanitizers' compiler refuses;
- C++ files have at most 400 lines, functions are left to review.

Prints each violation as FILE:LINE: text and exits 1 if there is any.
"""
import pathlib
import re
import sys

# What all of the manager speaks of.
MANAGER_VALUES = ["incmanager/topology.h", "incmanager/engine_report.h", "incmanager/failure.h", "incmanager/text.h", "incmanager/result.h"]

# Folder -> project folders whose headers it may include (itself always). The longest matching prefix counts.
MAY_INCLUDE = {
    "base": [],
    "base/grpc": ["base/address.h", "base/descriptors.h", "base/status.h", "base/types.h"],
    "roce": ["base"],
    "roce/transport": ["base", "roce"],
    "protocol": ["base"],
    "reduce": ["base", "protocol"],
    "fallback": ["base", "protocol", "reduce"],
    "incengine/state": ["base", "roce", "protocol"],
    "incengine/modules": ["base", "roce", "protocol", "reduce", "incengine/state"],
    "incengine/modes": ["base", "roce", "protocol", "reduce", "incengine/state", "incengine/modules"],
    "incengine/core": ["base", "roce", "protocol", "reduce", "incengine/state", "incengine/modules",
                       "incengine/modes"],
    "incengine/daemon": ["base", "roce", "protocol", "reduce", "io", "proto", "incengine"],
    "incengine": ["base", "roce", "protocol", "reduce", "incengine"],
    "io": ["base", "roce"],
    "io/dpdk": ["base", "roce", "io"],
    "commlib/core": ["base", "protocol", "reduce"],
    "commlib": ["base", "protocol", "reduce", "proto", "commlib", "epic"],
    "mpi/core": ["base", "protocol"],
    "mpi/group": ["mpi/core", "epic"],
    "mpi": ["base", "mpi/core", "mpi/group/group.h", "mpi/binding", "mpi/hosts", "mpi/mpich", "ompi", "opal"],
    "pytorch": ["base", "epic"],
    "softnic/core": ["base", "roce"],
    "softnic": ["base", "roce", "io", "softnic"],
    "incagent": ["base", "io/unix_socket.h", "proto"],
    "inchost": ["base", "roce/lldp.h", "io/unix_socket.h", "proto", "commlib/verbs/ports.h"],
    "inchost/servers": ["base", "protocol", "fallback", "proto", "commlib/verbs", "inchost/lending.h"],
    "incmanager/policies": ["base", "protocol", "incmanager/topology.h", "incmanager/failure.h", "incmanager/result.h"],
    "incmanager/graph": ["base", "incmanager/policies", *MANAGER_VALUES],
    "incmanager/hosts": ["base", *MANAGER_VALUES],
    "incmanager/groups": ["base", "protocol", "incmanager/policies", *MANAGER_VALUES],
    "incmanager/store": ["base", "proto/etcd.grpc.pb.h"],
    "incmanager/rpc": ["base", "protocol", "proto", "incmanager"],
    "incmanager/cli": ["base", "protocol", "proto", "incmanager"],
    "incmanager": ["base", "protocol", "incmanager"],
    "sim": ["base", "roce", "protocol", "fallback", "incengine/core", "incengine/modes/table.h", "incengine/state", "incengine/modules",
            "commlib/core", "incmanager/policies/forwarding.h", "incmanager/policies/group_ports.h"],
    "sim/dsa": ["base", "sim/choices.h", "sim/clock.h"],
    "sim/shared": ["base", "protocol", "sim", "incengine/core", "incengine/state", "commlib/core", "incmanager"],
    "sim/restarts": ["base", "protocol", "proto", "sim", "incmanager", "commlib/unsaid.h"],
    "bench": ["base", "commlib", "protocol", "epic"],
    "check": ["base", "roce", "protocol", "fallback", "incengine/core", "incengine/modes/table.h", "incengine/modes/pooled.h",
              "incengine/state", "commlib/core", "sim"],
    "check/conform": ["base", "roce", "protocol", "reduce", "incengine/state/config.h"],
    "examples": ["epic"],
    "examples/leaf_buffered_mode": ["incengine/modes", "incengine/modules"],
    "examples/paced_mode": ["incengine/modes", "incengine/modules"],
    "tests/e2e": ["base/check.h", "base/command_line.h", "bench", "incmanager/main.cc", "protocol", "epic"],
    "tests/engines": ["incagent"],
    "tests/softnic": ["base", "roce", "incengine", "proto", "softnic", "commlib/verbs", "epic"],
    "tests": ["base", "roce", "protocol", "reduce", "io", "incengine", "commlib", "sim"],
}

# Header pattern -> folders in which it is allowed.
EDGE_HEADERS = {
    r"<(sys/socket|netinet/|arpa/|net/if|linux/|pcap)": ["io", "base/grpc", "incengine/daemon", "inchost", "commlib", "softnic/verbs", "bench", "tests"],
    r"<(grpc|grpcpp)": ["incengine/daemon", "incagent", "inchost", "incmanager/rpc", "incmanager/cli", "incmanager/store", "commlib", "base/grpc",
                        "tests/softnic", "tests/engines"],
    r"<rte_": ["io/dpdk"],
    r"<infiniband/": ["commlib", "inchost/servers", "softnic/verbs", "tests/rxe_peer"],
    r"<spdlog": ["io", "incengine/daemon", "incagent", "inchost", "incmanager", "sim/restarts"],
    r"""(<(thread|mutex|condition_variable)>|"base/mutex\.h")""": ["base/mutex.h", "base/imports.cc", "io", "incengine/daemon", "incagent", "inchost", "incmanager", "commlib", "bench", "base/grpc",
                                                "mpi/binding", "pytorch", "softnic/verbs", "softnic/port", "tests/softnic", "tests/e2e", "tests/rxe_peer"],
}
CORE = ["base", "roce", "protocol", "reduce", "fallback", "incengine/state", "incengine/modules", "incengine/modes",
        "incengine/core", "commlib/core", "mpi/core", "softnic/core", "incmanager/graph", "incmanager/groups",
        "incmanager/hosts", "incmanager/policies", "sim", "check/conform"]
NOT_IN_CORES = r"std::chrono::\w*clock|\bclock_gettime\b|\bgettimeofday\b|\brand\(\)|std::random_device|\bgetenv\b"
# clang 14, which builds the sanitizers' trees and the fuzz targets, cannot compile libstdc++'s views, and with them every
# algorithm that returns a subrange; g++ takes them all, so the fault would show only after all stages before the sanitizers.
NOT_FOR_CLANG = (r"\bviews::|\branges::(subrange|unique|remove|remove_if|partition|stable_partition|rotate|search|search_n"
                 r"|equal_range|find_end|partial_sort_copy)\b")

MAX_LINES = 400


def folder_of(path, table):
    """The longest key of table that is a prefix of path, or None."""
    found = [k for k in table if path == k or path.startswith(k + "/")]
    return max(found, key=len) if found else None


def is_test(path):
    return re.search(r"_(test|fuzz|bench|testing)\.(cc|h)$", path) is not None


def check_file(path, text, report):
    lines = text.splitlines()
    folder = folder_of(path, MAY_INCLUDE)
    if folder is None:
        report(path, 1, "is in a folder that check_layers.py does not know")
        return
    if len(lines) > MAX_LINES:
        report(path, MAX_LINES, f"has {len(lines)} lines; the bound is {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "([^"]+)"', line)
        if match and not is_test(path):
            header = match.group(1)
            allowed = MAY_INCLUDE[folder] + [folder]
            if not any(header == a or header.startswith(a + "/") for a in allowed):
                report(path, number, f"{folder}/ may not include {header}")
        for pattern, allowed in EDGE_HEADERS.items():
            if re.match(r"#include " + pattern, line) and not is_test(path):
                if path not in allowed and (folder in CORE or not any(path.startswith(a) for a in allowed)):
                    report(path, number, f"{line.strip()} is not for {folder}/")
        # What stands between gRPC and the rest is no core.
        core = folder_of(path, dict.fromkeys(CORE)) and not path.startswith("base/grpc/")
        if not is_test(path) and core and re.search(NOT_IN_CORES, line):
            report(path, number, "cores read no clock and roll no dice")
        if line.startswith("#include <CLI/") and path != "base/command_line.cc":
            report(path, number, "CLI11 is for base/command_line.cc; take base/command_line.h")
        if re.search(r"\bgrpc::Create\w*Channel\(", line) and path != "base/grpc/channel.h" and not is_test(path):
            report(path, number, "a channel of gRPC would ask a proxy; take ChannelTo of base/grpc/channel.h")
        if re.search(NOT_FOR_CLANG, line):
            report(path, number, "clang 14 cannot compile this part of <ranges>; take the algorithm of std::")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    violations = []
    files = [p for p in root.rglob("*") if p.suffix in (".cc", ".h", ".c")
             and p.relative_to(root).parts[0] not in ("build", ".git")]
    for file in sorted(files):
        check_file(str(file.relative_to(root)), file.read_text(encoding="utf-8"),
                   lambda path, line, text: violations.append(f"{path}:{line}: {text}"))
    print("\n".join(violations) if violations else f"{len(files)} files keep the rules")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
