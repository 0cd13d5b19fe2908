"""One scene that does not fit into memory: an aerial image of a city, a whole slide (the extra `scenes`).

`suppress` keeps exactly the boxes that a `Suppression` of all boxes at once would keep; docs/howto/scale.md explains
it.
"""

from hashnms.scenes.suppressing import suppress

__all__ = ["suppress"]
