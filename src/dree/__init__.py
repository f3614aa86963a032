"""Lifelong learning for neural vehicle-routing solvers whose tasks drift."""

import os

# Threads that wait for each other spin for milliseconds by default, and one busy neighbour on the machine then makes
# learning thirty times slower. Spinning for microseconds and then sleeping costs nothing when the machine is idle.
# It must be said before torch starts its threads.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
