"""The command line: one module per command, each of which parses, calls and prints."""

from __future__ import annotations

from typing import Annotated

import typer

from hashnms import __version__
from hashnms.cli import bound, compare, demo, evaluate, plot, suppress

app = typer.Typer(
    help="Fast, exact non-maximum suppression for crowded scenes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hashnms {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


for module in (suppress, compare, evaluate, plot, bound, demo):
    app.command(name=module.__name__.rpartition(".")[2])(module.command)
