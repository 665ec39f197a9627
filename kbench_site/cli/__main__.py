"""`python -m kbench_site.cli`, where the command itself is not installed. Does NOT add anything to it."""

from . import main

main(prog_name="kbench")
