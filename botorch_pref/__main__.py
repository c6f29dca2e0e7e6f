"""``python -m botorch_pref``, the command line."""

import sys

from botorch_pref.cli import main

if __name__ == "__main__":
    sys.exit(main())
