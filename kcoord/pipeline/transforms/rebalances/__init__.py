"""The table `rebalances`: what changed in groups, how long that took and why; and findings in it."""
