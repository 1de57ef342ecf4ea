"""Where the coordinator's records are kept."""
