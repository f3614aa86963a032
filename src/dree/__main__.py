"""The program: `python -m dree` is `dree`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is being loaded ends the program as quietly as later on."""
    try:
        from dree.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
