"""hashnms in detectors: torchvision's models in one line, and what there is to win.

`accelerate(model)` lets a model suppress boxes with hashnms, `restore(model)` undoes it, `accelerated(model)` does both
around a block. `acceleration(model)` says what suppresses boxes in a model. `routed()` leads other code's calls of
torchvision's NMS to hashnms. `profile(model, images)` shows how the time of a forward pass splits. Needs torchvision:
`pip install "hashnms[detectors]"`.
"""

try:
    import torchvision as _torchvision  # noqa: F401
except ImportError as error:
    raise ImportError('hashnms.detectors needs torchvision: pip install "hashnms[detectors]"') from error

from hashnms.detectors.profiling import Profile, profile
from hashnms.detectors.routing import Calls, routed
from hashnms.detectors.switching import accelerate, accelerated, acceleration, restore

__all__ = ["Calls", "Profile", "accelerate", "accelerated", "acceleration", "profile", "restore", "routed"]
