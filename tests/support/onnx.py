"""Modules as ONNX models of standard operators, and what onnxruntime makes of them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import nn

onnxruntime.set_default_logger_severity(3)  # errors


class Calling(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def program_of(module: nn.Module, tensors: tuple[Any, ...]) -> Any:
    """What `torch.onnx.export` makes of a module, for any number of boxes."""
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the exporter
        program = torch.onnx.export(
            module.eval(),
            tensors,
            dynamic_shapes=(shapes,) if isinstance(module, Calling) else shapes,
            dynamo=True,
            verbose=False,
        )
    assert {node.domain for node in program.model.graph} <= {"", "ai.onnx"}
    assert not program.model.functions
    return program


def exported(module: nn.Module, tensors: tuple[Any, ...], path: Path) -> Any:
    """An onnxruntime session of the module, for any number of boxes."""
    program_of(module, tensors).save(path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def exported_by_trace(module: nn.Module, tensors: tuple[Any, ...]) -> Any:
    """The same by the older exporter."""
    names = [f"input_{place}" for place in range(len(tensors))]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            tensors,
            file,
            dynamo=False,
            input_names=names,
            dynamic_axes={name: {0: "boxes"} for name in names},
            opset_version=18,
        )
    return onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])


def run(session: Any, *arrays: Any) -> Any:
    """Its results."""
    return session.run(None, {place.name: array for place, array in zip(session.get_inputs(), arrays, strict=True)})
