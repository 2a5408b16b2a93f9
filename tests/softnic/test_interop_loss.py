"""perftest, and messages over an unreliable connection, between softnic and the real rdma_rxe of a guest while 1 % of the
frames get lost. Needs root, the guest kernel, and a build of uc_end."""

import time

import pytest

from perftest import ATOMIC, BW, LAT, PATIENCE, PERFTEST, result, run_perftest
from test_interop import ROLES
from test_uc import UC_MESSAGES, arrived, connected_ends

PPM = 10_000
# All repetitions of softnic's, by PATIENCE, and what a busy machine adds.
UNANSWERED_S = 8
EVERY_SIZE_S = 1500


@pytest.mark.in_turn(3)
@ROLES
@pytest.mark.parametrize("program,size,iterations", [(name, 65536, 30) for name in BW] + [(name, 8, 100) for name in ATOMIC])
def test_perftest(lossy_guests, program, size, iterations, server, client):
    def run(seed):
        lossy_guests.wire.random_loss(PPM, seed=seed)
        before = len(lossy_guests.wire.log())
        run_perftest(lossy_guests, program, size, *PATIENCE, iterations=iterations, server=server, client=client)
        assert len(lossy_guests.wire.log()) > before, "nothing was lost"

    try:
        run(4)
    except AssertionError as error:
        # rdma_rxe as the responder has been seen to leave a request without an answer for good, all of whose repetitions the fault
        # box had delivered to the guest (docs/SOFTNIC.md). That is not softnic's; it is tried again, once.
        unanswered = server == "rxe" and "Failed status 12" in str(error)
        if not unanswered or time.monotonic() - lossy_guests.wire.log()[-1]["time"] < UNANSWERED_S:
            raise
        print(f"rdma_rxe has not answered:\n{error}")
        lossy_guests.end_programs()
        run(5)


@ROLES
def test_reads_of_many_queue_pairs(lossy_guests, server, client):
    lossy_guests.wire.random_loss(PPM, seed=6)
    run_perftest(lossy_guests, "ib_read_bw", 65536, "-q", 32, *PATIENCE, iterations=5, server=server, client=client)


def test_unreliable_messages(lossy_guests):
    """Both ways at once: what arrives is whole, in order, and most of what was sent."""
    lossy_guests.wire.random_loss(PPM, seed=8)
    before = len(lossy_guests.wire.log())
    # Side 0 writes no more than a packet at once: rdma_rxe does not recover from a gap within a Write.
    ends = connected_ends(lossy_guests, ("softnic", "rxe"))
    for end in ends:
        end.wait_for_line("^sent", timeout_s=60)
    here, there = (arrived(end) for end in ends)
    lost = len(lossy_guests.wire.log()) - before
    print(f"of {UC_MESSAGES} messages each way softnic took {here}, rdma_rxe {there}; lost packets {lost}")
    assert lost > 0, "nothing was lost"
    # rdma_rxe drops the message behind a broken one, too.
    assert UC_MESSAGES // 2 < here <= UC_MESSAGES and UC_MESSAGES // 4 < there <= UC_MESSAGES


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", BW + LAT)
def test_every_size(lossy_guests, program, server, client):
    # rdma_rxe as the requester waits for its time-out at all losses of a message but the first: minutes in all.
    # By events where perftest has them: minutes of polling take a processor from the guest or the fault box, for
    # seconds at once. ib_send_lat's are of no use here: its two completion queues have one channel, and it takes the other
    # end's message, which comes before the acknowledgement that was lost, for the end of its own.
    how = () if "write" in program or program == "ib_send_lat" else ("-e",)
    # There and back of each message rdma_rxe always sends one: at 8 MiB some 80 such waits each, which are shorter here.
    timeout = ("-u", 17) if program in ("ib_send_lat", "ib_write_lat") else PATIENCE
    lossy_guests.wire.random_loss(PPM, seed=7)
    said, _ = lossy_guests.run_both(program, *PERFTEST, "-a", *how, *timeout, "-n", 5, timeout_s=EVERY_SIZE_S, server=server,
                                    client=client)
    for power in range(1, 24):
        assert result(said, 1 << power)[0] == 5
