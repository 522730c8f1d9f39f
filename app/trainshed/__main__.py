"""`python -m trainshed`: the command line, for jobs, where no script need be on the PATH."""

from trainshed.cli.main import main

main()
