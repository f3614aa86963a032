"""Lifelong learning for neural vehicle-routing solvers whose tasks drift."""

import os

# Threads that wait for each other should sleep: by default they spin, and one busy neighbour on the machine then
# makes learning thirty times slower. It must be said before torch starts its threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
