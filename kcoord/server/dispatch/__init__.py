"""From a frame to its answer: which API and version it is, who decides it, and how the answer is encoded."""
