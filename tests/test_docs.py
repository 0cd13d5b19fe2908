"""The examples of the README and of the pages of the site are true."""

import importlib.util

import pytest

from tests.support.boxes import REPOSITORY
from tests.support.pages import examples_of

PAGES = {
    path.relative_to(REPOSITORY).as_posix(): path
    for path in [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md"))]
}
WITH_EXAMPLES = [name for name, path in PAGES.items() if examples_of(path)]


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
