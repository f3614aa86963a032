"""The command line of today's routes: `dree solve --help`."""

from __future__ import annotations
