"""`kcoord groups watch`: a live screen, or lines in a pipe."""
