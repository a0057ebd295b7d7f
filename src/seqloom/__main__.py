"""``python -m seqloom`` is ``seqloom``."""

from seqloom.cli import main

main()
