"""What tables recorded of groups, as kcoord.assignors.replaying takes it. No Spark: rows go in, generations come out.

classic     of the generations of classic groups
modern      of the records of consumer groups (KIP-848), each of whose target assignments is a generation
"""
