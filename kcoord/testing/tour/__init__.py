"""The tour that `kcoord demo` plays: three stories on embedded clusters."""
