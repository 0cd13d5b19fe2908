"""The command line of the experiments: `python -m experiments --help`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from experiments.commands import all as everything
from experiments.commands import figure, generate, raw, table, train, yolo

#: Name -> the function to run; its docstring is the help.
COMMANDS: dict[str, Callable[..., None]] = {
    "generate": generate.command,
    "train": train.command,
    "raw": raw.command,
    "yolo": yolo.command,
    "table": table.command,
    "figure": figure.command,
    "all": everything.command,
}

app = typer.Typer(
    help="The paper's experiments: datasets, training, tables and figures.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(lambda: None)  # so that even a single command needs its name
for name, command in COMMANDS.items():
    app.command(name)(command)


def main() -> None:
    """Run a command; errors in data or on disk are printed in one line, without a traceback."""
    try:
        app(prog_name="python -m experiments")
    except (OSError, ValueError, FloatingPointError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
