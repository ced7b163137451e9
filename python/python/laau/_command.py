"""The command `laau`."""

from __future__ import annotations

import signal
import sys

from . import _laau


def main() -> int:
    """Runs the command line in this process, as the binary would."""
    # The command line handles signals on its own; Python's handler would only set a flag that nobody reads.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _laau.run_command(["laau", *sys.argv[1:]])
