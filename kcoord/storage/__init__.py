"""Where records are kept: the coordinator's, and those of topics."""
