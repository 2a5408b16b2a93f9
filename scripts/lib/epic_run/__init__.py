"""Programs as the ranks of a group: on several hosts by epic-run --hosts, and what scripts/testbed run shares with that."""
