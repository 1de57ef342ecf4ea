"""`kcoord assign`: the assignors of groups, compared."""
