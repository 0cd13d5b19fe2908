"""A clock for a device."""

from __future__ import annotations

import time

import torch


def now(device: str) -> float:
    """The time in seconds, after the device has finished its work."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
