"""Run the `mainstem` command as `python -m mainstem`."""

from mainstem.cli import main

main(prog_name="mainstem")
