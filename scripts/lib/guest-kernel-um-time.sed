# arch/um/os-Linux/time.c, os_idle_sleep(): with no timer set it returns at once, so that the idle loop spins; and should
# a tick be lost, the guest never gets another and sleeping programs sleep for ever. Set a timer of 10 ms instead: its
# interrupt finds what is due and sets the next.
/^	if (its.it_value.tv_sec || its.it_value.tv_nsec)$/ {
  N
  c\
	if (!its.it_value.tv_sec \&\& !its.it_value.tv_nsec)\
		os_timer_one_shot(10000000ULL);\
	sigsuspend(\&old);
}
