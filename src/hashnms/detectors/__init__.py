"""hashnms in detectors: torchvision's models in one line, what it gains, and the NMS of other packages.

`accelerate(model)` makes a model of torchvision or ultralytics suppress boxes with hashnms. `restore(model)` undoes it,
and `accelerated(model)` does both around a block. `acceleration(model)` says what suppresses boxes in a model.
`routed()` redirects other code's calls of torchvision's NMS to hashnms. `profile(model, images)` shows where the time
of a forward pass goes. These need torchvision: the extra `detectors`.

`hashnms.detectors.ultralytics`, `.sahi` and `.supervision` replace the suppression of these packages, each with an
extra of the same name. The last two do not need torch.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from hashnms._extras import missing as _missing

#: The module of each name. It is imported on first use, so that modules without torch can be used without it.
_PLACES = {
    "Calls": "routing",
    "Profile": "profiling",
    "accelerate": "switching",
    "accelerated": "switching",
    "acceleration": "switching",
    "profile": "profiling",
    "restore": "switching",
    "routed": "routing",
}
#: Modules for other packages, each named after its package.
_ADAPTERS = ("sahi", "supervision", "ultralytics")

if TYPE_CHECKING:
    from hashnms.detectors.profiling import Profile, profile
    from hashnms.detectors.routing import Calls, routed
    from hashnms.detectors.switching import accelerate, accelerated, acceleration, restore
else:

    def __getattr__(name: str) -> object:
        if name in _ADAPTERS:
            return _import_module(f"hashnms.detectors.{name}")
        if name not in _PLACES:
            raise AttributeError(f"module 'hashnms.detectors' has no attribute {name!r}")
        try:
            _import_module("torchvision")
        except ImportError as error:
            raise _missing("hashnms.detectors", "torchvision", "detectors") from error
        value = getattr(_import_module(f"hashnms.detectors.{_PLACES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *_ADAPTERS})


__all__ = ["Calls", "Profile", "accelerate", "accelerated", "acceleration", "profile", "restore", "routed"]
