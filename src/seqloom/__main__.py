"""``python -m seqloom`` runs the ``seqloom`` command."""

from seqloom.cli.main import main

main()
