"""The verbs of `kcoord offsets`."""
