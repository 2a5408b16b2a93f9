"""What scripts/test is made of: the table of stages, the pool that runs tests side by side, the ledger and the budget."""
