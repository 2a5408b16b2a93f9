# arch/um/os-Linux/signal.c, unblock_signals(): a timer signal that comes while the timer's handler runs is forgotten
# there. The timer is a one-shot, so that the guest never gets another tick: sleeping programs sleep for ever, and the
# idle loop spins. Keep the signal pending instead; the end of the handler delivers it.
/^		if ((save_pending & SIGALRM_MASK) && (!(signals_active & SIGALRM_MASK)))$/ {
  n
  a\
		else\
			signals_pending |= save_pending \& SIGALRM_MASK;
}
