"""The table of file formats, and how the format of a path is found."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hashnms.files.arrow import FeatherSource, FeatherWriter, ParquetSource, ParquetWriter
from hashnms.files.delimited import DelimitedSource, DelimitedWriter
from hashnms.files.folders import VISDRONE, YOLO, FolderSource, FolderWriter
from hashnms.files.json_rows import JsonSource, JsonWriter
from hashnms.files.npz import NpzSource, NpzWriter
from hashnms.files.output import STANDARD
from hashnms.files.rows import FileError, Reading, Source, Writer, image_name


@dataclass(frozen=True)
class Format:
    """A file format: how files are opened, and how a new one is written."""

    name: str
    about: str
    suffixes: tuple[str, ...]
    open: Callable[[Path, Reading], Source]
    writer: Callable[[Path, Source], Writer]
    folder: bool = False  #: a folder with one file per image


_MOT = ("frame", "id", "bb_left", "bb_top", "bb_width", "bb_height", "conf", "x", "y", "z")
_TSV: dict[str, Any] = {"delimiter": "\t"}

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("coco", "COCO results: a JSON list of objects", (".json",), JsonSource, JsonWriter),
        Format(
            "jsonl",
            "JSON Lines: one object per line",
            (".jsonl", ".ndjson"),
            partial(JsonSource, lines=True),
            partial(JsonWriter, lines=True),
        ),
        Format("csv", "CSV", (".csv",), DelimitedSource, DelimitedWriter),
        Format("tsv", "CSV with tabs", (".tsv",), partial(DelimitedSource, **_TSV), partial(DelimitedWriter, **_TSV)),
        Format(
            "mot",
            "MOT Challenge det.txt: frame, id, left, top, width, height, confidence, x, y, z",
            (),
            partial(DelimitedSource, names=_MOT, usual={"label": None}),
            DelimitedWriter,
        ),
        Format(
            "yolo",
            "YOLO: a folder of text files, `class cx cy w h confidence`",
            (),
            partial(FolderSource, layout=YOLO),
            FolderWriter,
            True,
        ),
        Format(
            "visdrone",
            "VisDrone: a folder of text files, `x,y,w,h,score,category,...`",
            (),
            partial(FolderSource, layout=VISDRONE),
            FolderWriter,
            True,
        ),
        Format("parquet", "Parquet", (".parquet", ".pq"), ParquetSource, ParquetWriter),
        Format("feather", "Feather (Arrow IPC)", (".feather", ".arrow"), FeatherSource, FeatherWriter),
        Format("npz", "NumPy arrays: boxes, scores, labels, images", (".npz",), NpzSource, NpzWriter),
    )
}
_BY_SUFFIX = {suffix: form for form in FORMATS.values() for suffix in form.suffixes}


def named(name: str, argument: str = "format") -> Format:
    """A format by its name."""
    if name not in FORMATS:
        raise FileError(f"{argument} must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def of_suffix(path: Path) -> Format | None:
    """The format for the suffix of a path; None if it is unknown."""
    return _BY_SUFFIX.get(path.suffix.lower())


def expanded(given: Sequence[str | os.PathLike[str]], name: str | None) -> tuple[list[Path], Format]:
    """The files that paths, folders and patterns stand for, and their common format."""
    form = None if name is None else named(name)
    paths = [path for one in given for path in _files(str(one), form)]
    if not paths:
        raise FileError("inputs must be one or more files, got none")
    if form is None:
        kinds = {path: of_suffix(path) or (FORMATS["yolo"] if path.is_dir() else None) for path in paths}
        unknown = next((path for path, kind in kinds.items() if kind is None), None)
        if unknown is not None:
            suffixes = ", ".join(_BY_SUFFIX)
            raise FileError(
                f"{unknown}: suffix must be one of {suffixes}, got {unknown.suffix!r}; otherwise give the format"
            )
        form = kinds[paths[0]]
        other = next((path for path, kind in kinds.items() if kind is not form), None)
        if other is not None:
            raise FileError(f"{other}: format must be the same as that of {paths[0]}, because all go into one output")
    assert form is not None
    return paths, form


def opened(paths: Sequence[Path], form: Format, reading: Reading) -> list[Source]:
    """Open files. If there are several, those that do not name images are an image each, named after the file."""
    sources = [form.open(path, reading) for path in paths]
    if len(set(paths)) > 1:
        stems = [path.stem for path in dict.fromkeys(paths)]
        for source in sources:
            path = source.path
            source.is_image(image_name(path.stem if stems.count(path.stem) == 1 else str(path.with_suffix(""))))
    return sources


def _files(given: str, form: Format | None) -> list[Path]:
    """The files of one input: a file, the files of a folder, or those that a pattern matches."""
    if not given:
        raise FileError("inputs must be paths of files, got an empty one")
    path = Path(given)
    if not path.exists():
        found = sorted(map(Path, glob.glob(given, recursive=True)))
        if not found:
            raise FileError(f"{given}: must be a file, a folder or a pattern that matches files, got no match")
        return [file for one in map(_existing, found) for file in _files(str(one), form)]
    if not path.is_dir() or (form is not None and form.folder):
        return [path]
    inside = sorted(file for file in path.iterdir() if _is_file(file) and not file.name.startswith("."))
    known = [file for file in inside if (of_suffix(file) if form is None else of_suffix(file) is form)]
    if form is not None and not known:
        what = (
            f"with a suffix of {', '.join(form.suffixes)}"
            if form.suffixes
            else "or a pattern, because they have no suffix"
        )
        raise FileError(f"{path}: must be a folder with {form.name} files, {what}, got none")
    return list(map(_existing, known)) or [path]


def _is_file(path: Path) -> bool:
    """Whether a path in a folder is a file, or a link that should lead to one."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _existing(path: Path) -> Path:
    """A path that was found. Links may lead nowhere, or to themselves; pipes must be given by name."""
    if not path.is_file() and not path.is_dir():
        got = "a pipe or a device" if path.exists() else "a link that leads to neither"
        raise FileError(f"{path}: must be a file or a folder, got {got}")
    return path


def output_format(path: Path, name: str | None, of_input: Format) -> Format:
    """The format of the output: the one named, that of its suffix, or that of the input."""
    if name is not None:
        return named(name, "to")
    found = None if path == STANDARD or (of_input.folder and path.is_dir()) else of_suffix(path)
    return of_input if found is None else found
