"""`python -m attnc` is the command `attnc`."""

from attnc.cli import main

main()
