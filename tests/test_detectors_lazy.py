"""Parts with an extra, such as `hashnms.torch`, are there without an import, and what they need is imported on use."""

import pkgutil
import re
import subprocess
import sys
import tomllib

import pytest

import hashnms
from tests.support.boxes import REPOSITORY

WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys(['torch', 'torchvision', 'matplotlib', 'pyarrow', 'msgspec'])); "
    "import hashnms, inspect"
)


def run(code):
    """What a new Python prints."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.slow
def test_parts_are_imported_on_first_use():
    pytest.importorskip("torchvision")
    code = """
import sys, hashnms
print({"detectors", "torch"} <= set(dir(hashnms)), "torch" in sys.modules)
print(hashnms.torch.HNMS.__name__, "torchvision" in sys.modules)
print(hashnms.detectors.accelerate.__name__, "torchvision" in sys.modules)
print(hashnms.torch is sys.modules["hashnms.torch"], hashnms.detectors is sys.modules["hashnms.detectors"])
"""
    assert run(code) == ["True False", "HNMS False", "accelerate True", "True True"]


NEEDED = {
    "torch": "torch",
    "plot": "matplotlib",
    "tables": "pyarrow",
    "files": "pyarrow",  # and msgspec
}


@pytest.mark.parametrize(("part", "needed"), NEEDED.items())
@pytest.mark.parametrize("use", ["hashnms.{}", "hasattr(hashnms, '{}')", "exec('from hashnms import {}')"])
def test_without_what_a_part_needs_the_error_says_what_to_install(part, needed, use):
    code = f"{WITHOUT}\ntry:\n    {use.format(part)}\nexcept ImportError as error:\n    print(error)"
    assert run(code) == [f'hashnms.{part} needs {needed}: in a clone of hashnms, run pip install ".[{part}]"']


def test_without_ray_the_error_names_its_extra():
    pytest.importorskip("pyarrow")
    code = "import sys; sys.modules['ray'] = None\nimport hashnms\n"
    code += "try:\n    hashnms.cluster\nexcept ImportError as error:\n    print(error)"
    assert run(code) == ['hashnms.cluster needs ray: in a clone of hashnms, run pip install ".[ray]"']


@pytest.mark.parametrize("use", ["hashnms.detectors.accelerate", "exec('from hashnms.detectors import routed')"])
def test_without_torchvision_its_functions_say_what_to_install(use):
    code = f"{WITHOUT}\ntry:\n    {use}\nexcept ImportError as error:\n    print(error)"
    assert run(code) == ['hashnms.detectors needs torchvision: in a clone of hashnms, run pip install ".[detectors]"']


@pytest.mark.slow
@pytest.mark.parametrize("package", ["sahi", "supervision"])
def test_adapters_that_do_without_torch_can_be_had_without_it(package):
    pytest.importorskip(package)
    code = "import sys; sys.modules.update(torch=None, torchvision=None); import hashnms\n"
    assert run(f"{code}print(hashnms.detectors.{package}.__name__)") == [f"hashnms.detectors.{package}"]


@pytest.mark.parametrize("package", ["sahi", "supervision"])
def test_without_its_package_an_adapter_says_what_to_install(package):
    code = f"import sys; sys.modules[{package!r}] = None; import hashnms\n"
    code += f"try:\n    hashnms.detectors.{package}\nexcept ImportError as error:\n    print(error)"
    expected = f'hashnms.detectors.{package} needs {package}: in a clone of hashnms, run pip install ".[{package}]"'
    assert run(code) == [expected]


@pytest.mark.slow
def test_every_public_module_is_an_attribute_after_import_hashnms():
    for package in ("rich", "pyarrow", "msgspec", "matplotlib", "torchvision", "ray"):
        pytest.importorskip(package)
    found = {module.name for module in pkgutil.iter_modules(hashnms.__path__)} - {"cli"}
    modules = sorted(name for name in found if not name.startswith("_"))
    assert {"compare", "detections", "report", "sweeps", "files"} <= set(modules)
    code = f"import hashnms\nfor name in {modules}:\n    print(getattr(hashnms, name).__name__, name in dir(hashnms))"
    assert run(code) == [f"hashnms.{name} True" for name in modules]


def test_modules_without_an_extra_need_nothing_but_what_is_installed():
    code = f"{WITHOUT}\nprint(hashnms.report.write_report.__name__, hashnms.sweeps.sweep.__name__)"
    assert run(code) == ["write_report sweep"]
    code = "import sys; sys.modules['rich'] = None\nimport hashnms\n"
    code += "try:\n    hashnms.compare\nexcept ImportError as error:\n    print(error)"
    assert run(code) == ["hashnms.compare needs rich: run pip install rich"]


def test_without_pillow_pictures_name_it():
    pytest.importorskip("matplotlib")
    code = "import sys; sys.modules['PIL'] = None\nimport hashnms\n"
    code += "try:\n    hashnms.plot\nexcept ImportError as error:\n    print(error)"
    assert run(code) == ['hashnms.plot needs Pillow: in a clone of hashnms, run pip install ".[plot]"']


def test_every_extra_that_an_error_names_exists():
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    source = "".join(path.read_text() for path in (REPOSITORY / "src").rglob("*.py"))
    named = re.findall(r'missing\([^)\n]*"(\w+)"\)', source)
    assert len(named) >= 8
    parts = {hashnms._EXTRAS.get(part, part) for part, needed in hashnms._PARTS.items() if needed} - {None}
    assert {*named, *parts} <= set(extras)


def test_without_what_they_need_the_names_are_those_that_can_be_had():
    parts = {*NEEDED, "detectors"}
    code = f"{WITHOUT}\nprint({parts} & set(dir(hashnms)), len(inspect.getmembers(hashnms)) > 20)"
    assert run(code) == ["set() True"]


def test_other_names_are_no_attributes():
    assert not hasattr(hashnms, "detector")
    with pytest.raises(AttributeError, match="module 'hashnms' has no attribute 'detector'"):
        getattr(hashnms, "detector")  # noqa: B009  mypy knows, too
