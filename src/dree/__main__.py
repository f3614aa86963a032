"""`python -m dree` is `dree`."""

from dree.cli import main

main()
