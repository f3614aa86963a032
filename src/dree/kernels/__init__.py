"""Triton kernels for CUDA devices: rollouts and their gradients without anything per state, head and node in memory.

Nothing here is imported on other machines.
"""
