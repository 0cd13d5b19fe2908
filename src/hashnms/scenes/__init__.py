"""One scene that does not fit into memory: a city from the air, a whole slide (`pip install "hashnms[scenes]"`).

`suppress` gives what a `Suppression` of all boxes at once would give, bit for bit; docs/howto/scale.md explains it.
"""

from hashnms.scenes.suppressing import suppress

__all__ = ["suppress"]
