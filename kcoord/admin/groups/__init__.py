"""Groups of live clusters: snapshots of them, lag, rates and forecasts, and operations that change groups."""
