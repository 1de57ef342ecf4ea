"""The verbs of `kcoord pipeline`."""
