"""Interceptors that refuse requests or hide names, by the operator's rules."""
