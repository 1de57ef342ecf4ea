"""Runs `kcoord` by `python -m kcoord.commands`."""

from .main import main

main()
