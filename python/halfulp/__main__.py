"""`python -m halfulp`, and the program `halfulp` that pip installs: the command line."""
import signal
import sys

from . import _core, campaigns


def main() -> int:
    if sys.argv[1:2] == ["campaign"] and campaigns.wanted(sys.argv[2:]):
        return campaigns.main(sys.argv[2:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would wait until the command ends
    return _core.program(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
