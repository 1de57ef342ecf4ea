"""The verbs of `kcoord groups`."""
