"""`python -m laau` is the command `laau`."""

import sys

from ._command import main

sys.exit(main())
