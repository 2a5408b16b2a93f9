# The switch as a core of its own, and the daemon round it.
epic_library(switch SOURCES core/echo.cc core/forwarding.cc core/switch.cc
             PUBLIC epic_engine PRIVATE fmt::fmt)
epic_test(switch_test SOURCES core/forwarding_test.cc core/switch_test.cc LIBS epic_switch)
