"""``python -m rnncost``."""

from rnncost.cli.main import main

main(prog_name="rnncost")
