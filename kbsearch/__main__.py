"""python -m kbsearch."""

from kbsearch.cli import main

main()
