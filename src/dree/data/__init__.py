"""Built-in test sets with their reference costs, every file checked by its hash."""

from dree.data.testsets import FILES, SetKey, TestSet, available, load_test, write_test

__all__ = ["FILES", "SetKey", "TestSet", "available", "load_test", "write_test"]
