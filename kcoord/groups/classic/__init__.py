"""Classic groups: members, states, and what each request and the passing of time does to them."""
