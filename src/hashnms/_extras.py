"""What a user is told if a package is missing: which one, and how to install it. Nothing else here says how."""

#: How to install an extra. hashnms is not on PyPI yet; its first release makes this `run pip install "hashnms[{}]"`.
INSTALL = 'in a clone of hashnms, run pip install ".[{}]"'


def missing(what: str, package: str | None, extra: str | None) -> ImportError:
    """The error for something that needs a package, or a part of it. `extra`: the extra that brings it, if one does.

    >>> print(missing("hashnms.files", "pyarrow.parquet", "files"))
    hashnms.files needs pyarrow: in a clone of hashnms, run pip install ".[files]"
    """
    name = (package or extra or "a package").partition(".")[0]
    name = _DISTRIBUTIONS.get(name, name)
    return ImportError(f"{what} needs {name}: {INSTALL.format(extra) if extra else f'run pip install {name}'}")


#: Packages that pip knows by another name than Python.
_DISTRIBUTIONS = {"PIL": "Pillow", "faster_coco_eval": "faster-coco-eval"}
