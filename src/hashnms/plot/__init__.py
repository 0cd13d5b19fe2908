"""Plot boxes, suppressed boxes, hash cells and methods (the extra `plot`).

Every function draws on the given `ax`, or on a new figure, and returns the ax. `ax.figure.savefig("out.png")` saves it;
in a notebook with `%matplotlib inline`, `ax.figure` at the end of a cell shows it. Pyplot is not used and no setting is
changed: a new figure is a plain `matplotlib.figure.Figure`, freed when it is no longer referenced. To show a plot with
pyplot, pass an ax: `plot_boxes(boxes, ax=plt.gca())`.
"""

from hashnms._extras import missing

try:
    from matplotlib.figure import Figure as _Figure  # noqa: F401
    from PIL import Image as _Image  # noqa: F401
except ImportError as error:
    raise missing("hashnms.plot", error.name, "plot") from error

from hashnms.plot.axes import COLORS as COLORS
from hashnms.plot.boxes import MOST_VECTORS as MOST_VECTORS
from hashnms.plot.boxes import plot_before_after, plot_boxes
from hashnms.plot.cells import plot_cells
from hashnms.plot.methods import plot_bound, plot_tradeoff

__all__ = ["plot_before_after", "plot_bound", "plot_boxes", "plot_cells", "plot_tradeoff"]
