"""`kcoord groups watch`: a live screen on a terminal, or lines in a pipe."""
