"""The command line: one module per command, each of which parses, calls and prints."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.core

from hashnms import __version__
from hashnms.cli import bound, compare, demo, evaluate, plot, suppress
from hashnms.cli.streams import prepare_streams


class _PlainHelp:
    """A command whose help does not show Python's types: `<bool>` of flags, `<list[str]>` of files."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            if param.param_type_name == "argument":
                vars(param)["display_type_rich"] = lambda **_: None
        return params


class _Command(_PlainHelp, typer.core.TyperCommand):
    pass


class _Group(_PlainHelp, typer.core.TyperGroup):
    def main(self, *arguments: Any, **options: Any) -> Any:
        prepare_streams()
        return super().main(*arguments, **options)


app = typer.Typer(
    cls=_Group,
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
    app.command(name=module.__name__.rpartition(".")[2], cls=_Command)(module.command)
