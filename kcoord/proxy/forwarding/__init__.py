"""A client's connection and the broker's that belongs to it: frames pass, addresses are rewritten."""
