"""Seconds in which a processor does nothing for those who wait are not held against what is promised."""

import signal
import time

from stalls import LEAST_S, Stalls


def test_a_processor_that_stands_still_is_noticed():
    stalls = Stalls()
    try:
        begin = time.monotonic()
        for meter in stalls.meters:
            assert meter.stdout.read() is None  # it runs, and has not told anything
        while stalls.since(begin) == 0:
            stalls.meters[-1].send_signal(signal.SIGSTOP)
            time.sleep(2 * LEAST_S)
            stalls.meters[-1].send_signal(signal.SIGCONT)
        missed = stalls.since(begin)
        assert LEAST_S < missed <= time.monotonic() - begin
        assert stalls.since(time.monotonic()) == 0
    finally:
        stalls.end()
