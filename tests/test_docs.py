"""The examples of the README and of the pages of the site are true."""

import importlib.util
import re

import pytest

import hashnms
from tests.support.boxes import REPOSITORY
from tests.support.pages import examples_of

PAGES = {
    path.relative_to(REPOSITORY).as_posix(): path
    for path in [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md"))]
}
#: Pages made of docstrings, whose examples tests/test_package.py runs.
API = {name: path for name, path in PAGES.items() if name.startswith("docs/reference/api/")}
WITH_EXAMPLES = [name for name, path in PAGES.items() if name not in API and examples_of(path)]


@pytest.fixture
def no_downloads(monkeypatch):
    """Weights that torchvision would download stay random."""
    torch = pytest.importorskip("torch")
    api = pytest.importorskip("torchvision.models._api")
    load = torch.nn.Module.load_state_dict
    monkeypatch.setattr(api.WeightsEnum, "get_state_dict", lambda *_, **__: None)
    monkeypatch.setattr(
        torch.nn.Module,
        "load_state_dict",
        lambda self, state, *args, **kwargs: None if state is None else load(self, state, *args, **kwargs),
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:FutureWarning")
@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_the_pages_are_true(name, tmp_path, monkeypatch, request):
    examples = examples_of(PAGES[name])
    for package in sorted(set().union(*(example.imported() for example in examples))):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    if any('weights="DEFAULT"' in example.code for example in examples):
        request.getfixturevalue("no_downloads")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for example in examples:
        if not example.not_run:
            example.run(PAGES[name], names)


@pytest.mark.parametrize("name", sorted(set(PAGES) - set(API)))
def test_no_example_is_overlooked(name):
    text = PAGES[name].read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- also run:|```(?:py\w*|console)\b", text)
    assert len(blocks) == len(examples_of(PAGES[name]))
    sessions = re.sub(r"```pycon\n.*?```", "", text, flags=re.DOTALL)
    assert ">>>" not in sessions


def test_examples_that_are_not_true_fail(tmp_path):
    page = tmp_path / "page.md"
    for example in ("```python\n1 / 0\n```", "```pycon\n>>> 1 + 1\n3\n```", "```console\n$ hashnms nonsense\n```"):
        page.write_text(f"# A page\n\n{example}\n")
        (found,) = examples_of(page)
        with pytest.raises((AssertionError, ZeroDivisionError)):
            found.run(page, {})
        page.write_text(f"<!-- not run: why -->\n{example}\n")
        (found,) = examples_of(page)
        assert found.not_run == "why"


def test_examples_share_names_and_commands_are_compared_with_their_output(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- also run:\na = 1\n-->\n\n```python\nb = a + 1\n```\n\n```pycon\n>>> c = b\n>>> c\n2\n```\n\n"
        "```console\n$ hashnms --version\nhashnms ...\n```\n\n```console\n$ hashnms --version\nanother\n```\n"
    )
    *right, wrong = examples_of(page)
    names: dict[str, object] = {}
    for example in right:
        example.run(page, names)
    assert names["c"] == 2
    with pytest.raises(AssertionError):
        wrong.run(page, names)


def test_links_lead_to_files_of_the_repository():
    """Sphinx checks those of the site, with their anchors; here are those of all files as GitHub shows them."""
    pages = [path for pattern in ("*.md", "core/*.md", "docs/**/*.md") for path in REPOSITORY.glob(pattern)]
    broken = [
        f"{page.relative_to(REPOSITORY)}: {link}"
        for page in pages
        for link in re.findall(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


def test_what_the_pages_install_is_there_before_the_first_release():
    """`pip install hashnms` fails until hashnms is on PyPI; docs/releasing.md says what to change then."""
    allowed = {"docs/releasing.md", "src/hashnms/_extras.py"}
    pages = {*PAGES, *(path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("src/**/*.py"))} - allowed
    wrong = re.compile(r"hashnms\[|pip install[^\n`]* \"?hashnms\b")
    assert [page for page in sorted(pages) if wrong.search((REPOSITORY / page).read_text(encoding="utf-8"))] == []
    named = {page for page in pages if re.search(r'pip install "?\.', (REPOSITORY / page).read_text(encoding="utf-8"))}
    said = re.findall(r"[\w/]+\.md", (REPOSITORY / "docs/releasing.md").read_text().partition("INSTALL")[2])
    from_a_clone = {f"docs/explanation/{name}.md" for name in ("benchmarks", "data", "experiments")}
    assert named - from_a_clone == {*said[:3], "src/hashnms/__init__.py"}


def program(name):
    """A program in docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_options_on_the_page_of_the_command_line_are_those_of_the_commands():
    """If not: `python docs/make_commands.py`."""
    make_commands = program("make_commands")
    page = make_commands.PAGE.read_text(encoding="utf-8")
    assert make_commands.page_with_commands(page) == page


@pytest.mark.slow
@pytest.mark.parametrize("name", API)
def test_the_api_pages_are_the_docstrings(name):
    """If not: `python docs/make_api.py`."""
    needed = {"detectors": ["torchvision", "ultralytics", "sahi", "supervision"], "torch": ["torch"], "files": ["ray"]}
    needed |= {"pictures": ["matplotlib"], "measuring": ["rich"]}
    for package in needed.get(API[name].stem, []):
        pytest.importorskip(package)
    page = API[name].read_text(encoding="utf-8")
    assert program("make_api").page_with_api(page) == page


def test_every_public_name_is_on_an_api_page():
    text = "".join(path.read_text(encoding="utf-8") for path in API.values())
    headings = set(re.findall(r"^### `(\w+)`$", text, re.MULTILINE))
    modules = {"boxes", "evaluate", "reference", "synthetic"}
    assert set(hashnms.__all__) - modules <= headings
    assert {f"hashnms.{name}" for name in modules} <= set(re.findall(r"automodule:: (\S+)", text))


def test_a_docstring_becomes_markdown():
    markdown = program("make_api")._markdown(
        "Do 2**3 things, see docs/faq.md.\n\nArgs:\n    one, two: what\n        it is.\n    three: `a**b`:\n\n"
        "        - one;\n\n        Then more.\n\nReturns:\n    A pair.\n\n>>> f(1)\n2\n\nMore.\n\n>>> g()\n"
    )
    assert markdown == (
        "Do 2\\*\\*3 things, see [docs/faq.md](../../faq.md).\n\n**Arguments**\n\n- `one`, `two`: what\n  it is.\n"
        "- `three`: `a**b`:\n\n  - one;\n\n  Then more.\n\n**Returns**\n\nA pair.\n\n```pycon\n>>> f(1)\n2\n```\n\n"
        "More.\n\n```pycon\n>>> g()\n```\n"
    )
