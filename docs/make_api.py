"""Write the pages in docs/reference/api/ from the docstrings, as GitHub shows them: `python docs/make_api.py`.

A page says what it documents in a comment, with the directives of Sphinx's autodoc:

    <!-- api
    .. autofunction:: hashnms.nms
    -->

This program writes plain Markdown below the comment. The site takes the directives instead (docs/conf.py), so nothing
is there twice, and names in signatures and docstrings are links.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_overloads

PAGES = Path(__file__).parent / "reference" / "api"
BLOCK = re.compile(r"<!-- api\n(?P<directives>.*?)-->\n(?P<text>.*?)<!-- end of api -->\n", re.DOTALL)
WIDTH = 100  #: of signatures

_DIRECTIVE = re.compile(r"^\.\. ([\w:]+):: (.+)\n((?:[ ]+.*\n|\n(?=[ ]))*)", re.MULTILINE)
_SECTIONS = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises"}


def page_with_api(page: str) -> str:
    """The text of a page with what docstrings say made again."""
    return BLOCK.sub(lambda block: f"<!-- api\n{block['directives']}-->\n{_api(block['directives'])}", page)


def page_for_sphinx(page: str) -> str:
    """The text of a page with directives where this program has written Markdown."""
    return BLOCK.sub(lambda block: f"```{{eval-rst}}\n{block['directives']}```\n", page)


def returned(function: Any) -> str | None:
    """What any of the overloads of a function returns; None if it has none."""
    overloads = get_overloads(function) if callable(function) else []
    return " | ".join(dict.fromkeys(overload.__annotations__["return"] for overload in overloads)) or None


def _api(directives: str) -> str:
    texts = []
    for kind, name, rest in _DIRECTIVE.findall(directives):
        options = dict(re.findall(r"^ +:([\w-]+): ?(.*)$", rest, re.MULTILINE))
        if kind in ("autofunction", "autoclass"):
            module, _, short = name.rpartition(".")
            texts.append(_entry(name, getattr(importlib.import_module(module), short), options))
        elif kind == "automodule":
            module = importlib.import_module(name)
            texts.append(_markdown(inspect.getdoc(module) or ""))
            of_members = {"members": ""}
            texts += [_entry(f"{name}.{one}", getattr(module, one), of_members) for one in _members(module, options)]
        elif kind.startswith("py:"):
            texts.append(_written(name, options, rest))
    return "\n" + "\n".join(texts) + "\n<!-- end of api -->\n"


def _members(module: Any, options: dict[str, str]) -> list[str]:
    """The names that automodule documents."""
    if options.get("members"):
        return re.split(r",\s*", options["members"])
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    named = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    values = {name: getattr(module, name) for name in named}
    return [
        name
        for name, value in values.items()
        if name not in re.split(r",\s*", options.get("exclude-members", ""))
        and ("imported-members" in options or name in own)
        and (inspect.isclass(value) or inspect.isroutine(value))
        and inspect.getdoc(value)
    ]


def _written(name: str, options: dict[str, str], rest: str) -> str:
    """A type or a value that is described on the page itself."""
    canonical = options.get("canonical", options.get("type"))
    body = " ".join(line.strip() for line in rest.splitlines() if not line.strip().startswith(":"))
    body = re.sub(r":\w+:`", "`", body).strip()
    return f"### `{name}`\n\n" + (f"`{canonical}`\n\n" if canonical else "") + f"{body}\n"


def _entry(name: str, value: Any, options: dict[str, str]) -> str:
    """A heading, the signature and the docstring of a function or a class, and what is in the class."""
    text = f"### `{name.rpartition('.')[2]}`\n\n{_signature(name, value)}\n{_markdown(inspect.getdoc(value) or '')}"
    if inspect.isclass(value):
        text += "".join(_attributes(value, options)) + "".join(_methods(name, value, options))
    return text


def _signature(name: str, value: Any) -> str:
    """How it is called, in a block of code; one argument a line where it is long."""
    prefix = "class " if inspect.isclass(value) else ""
    if prefix and issubclass(value, (Enum, Exception)):  # nobody calls these
        return f"```python\n{prefix}{name}\n```\n"
    signature = inspect.signature(value)
    arguments = list(_arguments(signature))
    result = "" if prefix else _type(returned(value) or signature.return_annotation)
    end = f") -> {result}" if result else ")"
    line = f"{prefix}{name}({', '.join(arguments)}{end}"
    if len(line) > WIDTH:
        line = f"{prefix}{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + end
    return f"```python\n{line}\n```\n"


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    """The arguments as they are written, with the star that keyword-only ones need."""
    needs_star = True
    for one in signature.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.VAR_POSITIONAL:
            needs_star = False
        elif one.kind is one.KEYWORD_ONLY and needs_star:
            needs_star = False
            yield "*"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        text = f"{stars}{one.name}"
        if one.annotation is not one.empty:
            text += f": {_type(one.annotation)}"
        if one.default is not one.empty:
            default = "..." if inspect.isroutine(one.default) else repr(one.default)
            text += f" = {default}" if one.annotation is not one.empty else f"={default}"
        yield text


def _type(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    annotation = getattr(annotation, "__forward_arg__", annotation)  # of named tuples
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _attributes(kind: Any, options: dict[str, str]) -> Iterator[str]:
    """The attributes that have a comment `#: what it is`."""
    if "members" not in options:
        return
    lines = inspect.getsource(kind).splitlines()
    rows = []
    before = ""
    for line in lines:
        if comment := re.fullmatch(r"    #: (.*)", line):
            before = f"{before} {comment[1]}".strip()
            continue
        if (found := re.match(r"    (\w+)(?:: [^#=]+)?(?: = [^#]+)?(?:  #: (.*))?$", line)) and (before or found[2]):
            rows.append(f"- `{found[1]}`: {_inline(found[2] or before)}\n")
        before = ""
    wanted = re.split(r",\s*", options["members"]) if options["members"] else None
    rows = [row for row in rows if wanted is None or row[3 : row.index("`", 3)] in wanted]
    if rows:
        yield "\n" + "".join(rows)


def _methods(name: str, kind: Any, options: dict[str, str]) -> Iterator[str]:
    """The public methods and properties that have docstrings."""
    left_out = re.split(r",\s*", options.get("exclude-members", ""))
    special = re.split(r",\s*", options.get("special-members", ""))
    for member, value in vars(kind).items():
        is_wanted = "members" in options and not options["members"] and not member.startswith("_")
        if member in left_out or not (is_wanted or member in special):
            continue
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not inspect.isfunction(function) or not function.__doc__:
            continue
        called = f"{name.rpartition('.')[2]}.{member}"
        text = f"```python\n{called}\n```\n" if isinstance(value, property) else _signature(called, function)
        yield f"\n#### `{called}`\n\n{text}\n{_markdown(inspect.getdoc(function) or '')}"


def _markdown(docstring: str) -> str:
    """A docstring of Google's style as Markdown."""
    texts, section = [], ""
    for part in re.split(r"^(Args|Returns|Raises):\n", docstring, flags=re.MULTILINE):
        if part in _SECTIONS:
            section = part
            continue
        inside, outside = part, ""
        if section:  # it ends with the first line that is not indented
            inside, outside = re.fullmatch(r"((?:[ ]+.*(?:\n|$)|\n)*)([\s\S]*)", part).groups()  # type: ignore[union-attr]
            inside = textwrap.dedent(inside)
            texts.append(f"**{_SECTIONS[section]}**\n\n")
            inside = inside if section == "Returns" else _as_list(inside)
        texts.append(_paragraphs(inside) + _paragraphs(outside))
        section = ""
    return re.sub(r"\n{3,}", "\n\n", "".join(texts)).strip() + "\n"


def _as_list(section: str) -> str:
    """Each `name: what it is` as an item of a list."""

    def item(found: re.Match[str]) -> str:
        names = ", ".join(f"`{name}`" for name in found[1].split(", "))
        return f"- {names}: {found[2]}"

    lines = (re.sub(r"^(\*{0,2}\w+(?:, \w+)*): (.*)", item, line) for line in section.splitlines())
    return "\n".join(re.sub("^    ", "  ", line) for line in lines)


def _paragraphs(text: str) -> str:
    """Text with its examples as blocks of code."""
    if not text.strip():
        return ""
    parts = re.split(r"^( *>>> (?:.+\n?)*)", text, flags=re.MULTILINE)
    for place, part in enumerate(parts):
        is_example = place % 2 == 1
        parts[place] = f"```pycon\n{textwrap.dedent(part).rstrip()}\n```\n" if is_example else _inline(part)
    return "".join(parts).rstrip("\n") + "\n\n"


def _inline(text: str) -> str:
    """Text with stars that are no emphasis, and links to the pages that it names."""
    parts = re.split(r"(`[^`]*`)", text)
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r"(?<=\S)\*|\*(?=\S)", r"\*", parts[place]).replace("<", r"\<")
        parts[place] = re.sub(r"\bdocs/([\w/]+\.md)\b", r"[docs/\1](../../\1)", parts[place])
    return "".join(parts)


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(page_with_api(path.read_text(encoding="utf-8")), encoding="utf-8")
