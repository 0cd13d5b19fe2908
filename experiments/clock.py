"""The time of a device."""

from __future__ import annotations

import time

import torch


def now(device: str) -> float:
    """Seconds, when the device has done what it was told."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
