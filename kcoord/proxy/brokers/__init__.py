"""The proxy's own connections to brokers, and what it learns over them."""
