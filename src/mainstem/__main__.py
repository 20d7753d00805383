"""`python -m mainstem`: the same as the `mainstem` command."""

from mainstem.cli import main

main(prog_name="mainstem")
