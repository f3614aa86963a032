"""Does a class of your own keep to what the rest of dree relies on?

Three checks, each a plain function that returns nothing if all is well and otherwise raises an `AssertionError` (or a
`DreeError`) with a sentence that says what is wrong and where. They need no test framework:

    from dree.testing import check_method
    check_method(MyMethod)
"""

from dree.testing.methods import check_method
from dree.testing.solvers import check_solver
from dree.testing.streams import check_stream

__all__ = ["check_method", "check_solver", "check_stream"]
