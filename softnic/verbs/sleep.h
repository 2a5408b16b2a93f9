// Sleeping on the port: what softnic's libibverbs exports beyond verbs for a thread that waits for
// completions and would rather be woken by the packet than by softnic's helper thread, which a packet wakes
// otherwise. commlib looks the functions up by name.
#pragma once

#include <infiniband/verbs.h>

// For a thread that is about to sleep until *fd is readable or the queue's event has come by its channel, and
// then polls the queue. Asks for that event as ibv_req_notify_cq does: what came before it has to be polled
// for. Until epic_softnic_end_sleep other threads of the process leave the network to this one. 0 or an
// errno: EBUSY if another thread sleeps so, EINVAL if the queue has no channel; then nothing has been done.
extern "C" __attribute__((visibility("default"))) int epic_softnic_begin_sleep(ibv_cq* cq, int* fd);

// The thread is awake, by whatever means. 1 if the event has been taken back, 0 if it has come, or is about
// to: ibv_get_cq_event has it.
extern "C" __attribute__((visibility("default"))) int epic_softnic_end_sleep(ibv_cq* cq);
