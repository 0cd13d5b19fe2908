"""Write the last section of docs/reference/cli.md, every option of every command: `python docs/make_commands.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from typer.models import OptionInfo

from hashnms.cli import app

PAGE = Path(__file__).parent / "reference" / "cli.md"
BEGIN = "<!-- made by python docs/make_commands.py -->\n"


def page_with_commands(page: str) -> str:
    """The page with its last section made again."""
    commands = (_command(command.name, command.callback) for command in app.registered_commands)
    return page.partition(BEGIN)[0] + BEGIN + "".join(commands)


def _command(name: str | None, function: Callable[..., Any] | None) -> str:
    """The help of a command, and a table of its arguments and options."""
    assert function is not None
    hints = get_type_hints(function, include_extras=True)
    parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "context"]
    rows = [_row(one, hints[one.name].__metadata__[0]) for one in parameters]
    table = "\n".join(["| option | what it does |", "|---|---|", *rows])
    return f"\n### hashnms {name}\n\n{inspect.getdoc(function)}\n\n{table}\n"


def _row(parameter: inspect.Parameter, about: Any) -> str:
    names = [about.metavar]
    if isinstance(about, OptionInfo):
        given = [name for name in (about.default, *(about.param_decls or ())) if isinstance(name, str)]
        names = sorted(given or ["--" + parameter.name.replace("_", "-")], key=len)
        names[-1] += f" {about.metavar}" if about.metavar else ""
    text = re.sub("--[a-z][a-z-]*", r"`\g<0>`", about.help)
    if parameter.default is parameter.empty:
        text += " Required."
    elif parameter.default is not None and parameter.default is not False:
        text += f" Default: {parameter.default}."
    return f"| {', '.join(f'`{name}`' for name in names)} | {text} |"


if __name__ == "__main__":
    PAGE.write_text(page_with_commands(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
