"""`python -m kcoord.commands` is `kcoord`."""

from .main import main

main()
