"""What bench_profile.py makes of perf's output."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import bench_profile  # noqa: E402 pylint: disable=wrong-import-position


def test_each_function_counts_as_one_kind_of_work():
    report = """
# Samples: 12K of event 'cpu-clock'
    12.50%  [.] crc32_gzip_refl_by16_10
     8.00%  [k] __pi_memcpy
     2.00%  [k] _copy_from_iter
     1.50%  [.] __memmove_avx512_unaligned_erms
     4.00%  [k] do_sched_yield
     1.00%  [.] epic::N_AVX3::AccumulateAny
     5.00%  [.] epic::roce::ParseFrame
    20.00%  [k] pv_native_safe_halt
     3.00%  [k] __netif_receive_skb_core
     2.50%  [k] clear_page_erms
     0.50%  [k] do_sched_idle_thing
"""
    assert {kind: round(100 * part, 1) for kind, part in bench_profile.shares(report).items() if part} == {
        "CRC, ns": 12.5, "copies in the kernel, ns": 10, "copies outside it, ns": 1.5,
        "looks, yields, switches, ns": 4, "sums, ns": 1, "softnic, commlib, the engine, ns": 5,
        bench_profile.IDLE: 20, "the kernel's way of a frame, ns": 3, "the rest of the kernel, ns": 3}


def test_counts_are_taken_by_event():
    said = "1500,,raw_syscalls:sys_enter,1,100.00,,\n<not counted>,,sched:sched_wakeup,0,100.00,,\n"
    assert bench_profile.counts(said) == {"raw_syscalls:sys_enter": 1500}


def test_a_packet_crosses_two_hops_for_each_rank():
    assert bench_profile.crossings("allreduce", 4 << 10) == 8
    assert bench_profile.crossings("allreduce", 64 << 10) == 128
    assert bench_profile.crossings("allgather", 64 << 10) == 64


def test_the_table_has_a_column_for_each_size():
    text = bench_profile.table({4096: {"a call, µs": 41.4, "frames": 1.25}, 65536: {"a call, µs": 201.0, "frames": 0.25}})
    assert text.splitlines()[2:] == ["| a call, µs | 41 | 201 |", "| frames | 1.2 | 0.25 |"]
