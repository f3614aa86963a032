"""Test sets with their reference costs, shipped and the user's own, every file checked by its hash."""

from dree.data.testsets import FILES, SetKey, TestSet, available, find_set, load_set, load_test, user_folder, write_test

__all__ = [
    "FILES",
    "SetKey",
    "TestSet",
    "available",
    "find_set",
    "load_set",
    "load_test",
    "user_folder",
    "write_test",
]
