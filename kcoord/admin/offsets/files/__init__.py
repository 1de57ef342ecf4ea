"""The files of offset changes: exports, plans and undo files, each with a versioned format."""
