"""How Sphinx builds the site: `make docs`. It imports the installed package and reads no network."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

import hashnms

sys.path.insert(0, str(Path(__file__).parent))
from make_api import page_for_sphinx, returned

project = "hashnms"
copyright = "the authors of hashnms"
version = release = hashnms.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["images"]

# --- the look
html_theme = "furo"
html_title = "hashnms"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
pygments_dark_style = "github-dark"  # the usual one underlines names, as if they were links
copybutton_exclude = ".linenos, .gp, .go"  # copies what was typed: no prompts, no output

# --- Markdown, so that pages read well on GitHub, too
myst_heading_anchors = 4  # links to headings, spelled as GitHub spells them

# --- what comes of docstrings
default_role = "py:obj"  # `nms` is a link to it, and all else is code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: f"hashnms.{name}" for name in ("Values", "BoxFormatName", "MetricName", "SoftMethodName")}
autodoc_preserve_defaults = True
autodoc_mock_imports = [name for name in ("ray",) if find_spec(name) is None]  # not to be had everywhere
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", ".*"),
    ("py:.*", r"(?!hashnms\.).*"),  # other packages have pages of their own
    ("py:class", r"hashnms\.([\w.]+\.)?(_[\w.]+|Result|Model|Table|YOLO)"),  # private types, type variables
]

#: What Sphinx makes of names of types -> the names.
TYPES = {
    r"TypeAliasForwardRef\('([\w.]+)'\)": r"\1",
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[([^][]+(\[[^]]*\])?)\]\]": r"NDArray[\1]",
}
REPOSITORY = Path(__file__).parent.parent
#: Pages that are files elsewhere in the repository.
ELSEWHERE = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "explanation/core": "core/README.md"}


def setup(app: Sphinx) -> None:
    app.connect("source-read", take_from_elsewhere)
    app.connect("source-read", take_from_docstrings)
    app.connect("autodoc-process-signature", readable_signature)
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("env-check-consistency", check_names)


def take_from_elsewhere(_app: Sphinx, name: str, source: list[str]) -> None:
    """Pages that are files elsewhere: their text, and links to them that work on GitHub and here."""
    page = Path("docs", f"{name}.md")
    file = Path(ELSEWHERE.get(name, page))
    if file != page:
        source[0] = (REPOSITORY / file).read_text(encoding="utf-8")
    pages = {path: f"docs/{other}.md" for other, path in ELSEWHERE.items()}

    def moved(link: re.Match[str]) -> str:
        text, path, anchor = link.groups(default="")
        target = os.path.normpath(file.parent / path)
        if Path(REPOSITORY, target).is_dir():  # there is no page of a folder
            return text
        return f"[{text}]({os.path.relpath(pages.get(target, target), page.parent)}{anchor})"

    source[0] = re.sub(r"\[([^]]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)", moved, source[0])


def take_from_docstrings(_app: Sphinx, _name: str, source: list[str]) -> None:
    """What make_api.py has written for readers on GitHub comes of the docstrings themselves here, with links."""
    source[0] = page_for_sphinx(source[0])


def readable_signature(
    _app: Sphinx, _what: str, _name: str, value: Any, _options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """One signature for a function with overloads, which returns what any of these does; types by their names."""
    for pattern, name in TYPES.items():
        signature, result = (part and re.sub(pattern, name, part) for part in (signature, result))
    if returned(value):
        analyzer = ModuleAnalyzer.for_module(value.__module__)
        analyzer.analyze()
        analyzer.overloads.clear()  # Sphinx would show each of them
        result = returned(value)
    return signature, result


def link_pages(_app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """A page that a docstring names becomes a link."""
    lines[:] = [re.sub(r"\bdocs/([\w/]+)\.md\b", r":doc:`/\1`", line) for line in lines]


def check_names(_app: Sphinx, env: Any) -> None:
    """Every public name has a place in the reference."""
    documented = env.domains.python_domain.objects
    for name in public_names():
        if name not in documented:
            logging.getLogger(__name__).warning("%s is public and not in docs/reference", name)


def public_names() -> list[str]:
    """What the modules of the package list in `__all__`."""
    with mock(autodoc_mock_imports):
        found = [module.name for module in pkgutil.walk_packages(hashnms.__path__, "hashnms.")]
        public = [name for name in found if not any(part.startswith("_") for part in name.split("."))]
        modules = [importlib.import_module(name) for name in ["hashnms", *public]]
    return [f"{module.__name__}.{name}" for module in modules for name in getattr(module, "__all__", [])]
