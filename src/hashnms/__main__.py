"""`python -m hashnms` is the command line."""

from hashnms.cli import app

app()
