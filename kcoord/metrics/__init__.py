"""What is counted of a server.

    reasons     why connections end, in a few words
    counts      plain numbers, as cheap as can be: what the hot path adds to

Nothing is known here of who counts.
"""
