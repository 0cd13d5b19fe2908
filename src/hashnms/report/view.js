// Boxes on canvases: a plain rasteriser for all boxes, and the geometry of boxes and IoUHash cells.

// A distinct colour for each class, far from that of the next class.
function classColour(label) {
  const hue = (((label * 137.508 + 205) % 360) + 360) % 360;
  const channel = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (0.53 - 0.38 * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

// Without a graphics card, strokeRect of 45,000 boxes took 150 to 300 ms, and runs of pixels 25 to 45 ms (Chromium 150, 2 cores).
class Raster {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.colours = new Map();
    this.resize();
  }

  resize() {
    this.width = this.canvas.width;
    this.height = this.canvas.height;
    this.image = this.context.createImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  clear() {
    this.pixels.fill(0);
  }

  colour(label, opacity) {
    const key = label * 256 + opacity;
    if (!this.colours.has(key)) {
      const pixel = new Uint8Array([...classColour(label), opacity]);
      this.colours.set(key, new Uint32Array(pixel.buffer)[0]);
    }
    return this.colours.get(key);
  }

  // The outline of a rectangle, `thick` pixels wide around its edges.
  outline(x1, y1, x2, y2, thick, colour) {
    const half = thick >> 1;
    const left = Math.round(x1) - half;
    const top = Math.round(y1) - half;
    const right = Math.round(x2) - half + thick;
    const bottom = Math.round(y2) - half + thick;
    if (right <= 0 || bottom <= 0 || left >= this.width || top >= this.height) return;
    this.fill(left, top, right, top + thick, colour);
    this.fill(left, bottom - thick, right, bottom, colour);
    this.fill(left, top + thick, left + thick, bottom - thick, colour);
    this.fill(right - thick, top + thick, right, bottom - thick, colour);
  }

  fill(left, top, right, bottom, colour) {
    const { width, pixels } = this;
    left = Math.max(left, 0);
    right = Math.min(right, width);
    bottom = Math.min(bottom, this.height);
    if (left >= right) return;
    for (let y = Math.max(top, 0); y < bottom; y++) {
      const row = y * width;
      if (right - left > 8) pixels.fill(colour, row + left, row + right);
      else for (let x = left; x < right; x++) pixels[row + x] = colour;
    }
  }

  show() {
    this.context.putImageData(this.image, 0, 0);
  }
}

// The arrays of a picture: boxes as four columns, and rows by increasing score, so that the best are drawn last.
async function loadPicture(place) {
  const entry = about.pictures[place];
  const [boxes, scores, labels, rows] = await Promise.all([
    numbersOf(`p${place}-boxes`, Float32Array),
    numbersOf(`p${place}-scores`, Float32Array),
    numbersOf(`p${place}-labels`, Int32Array),
    entry.hasRows ? numbersOf(`p${place}-rows`, Uint32Array) : null,
  ]);
  const count = entry.count;
  const [x1, y1, x2, y2] = [0, 1, 2, 3].map((k) => boxes.subarray(k * count, (k + 1) * count));
  const order = Uint32Array.from({ length: count }, (_, i) => i).sort((a, b) => scores[a] - scores[b] || b - a);
  const [low, high] = count ? [scores[order[0]], scores[order[count - 1]]] : [0, 0];
  let image = null;
  if (entry.hasImage) {
    image = new Image();
    image.src = byId(`p${place}-image`).textContent;
    await image.decode().catch(() => { image = null; }); // broken: the boxes can still be shown
  }
  return { ...entry, place, x1, y1, x2, y2, scores, classes: labels, rows, order, low, high, image, outcomes: new Map() };
}

async function loadOutcome(picture, method) {
  if (!picture.outcomes.has(method)) {
    const suppressor = await numbersOf(`p${picture.place}-suppressor-${method}`, Int32Array);
    const rescored = picture.rescored.includes(method);
    const scores = rescored ? await numbersOf(`p${picture.place}-scores-${method}`, Float32Array) : null;
    const boxes = picture.merged.includes(method) ? await mergedBoxes(picture, method, suppressor) : picture;
    picture.outcomes.set(method, { suppressor, scores, boxes });
  }
  return picture.outcomes.get(method);
}

// The columns of a picture's boxes; kept rows have the new boxes of a method that changes them.
async function mergedBoxes(picture, method, suppressor) {
  const merged = await numbersOf(`p${picture.place}-boxes-${method}`, Float32Array);
  const columns = ["x1", "y1", "x2", "y2"].map((name) => [name, picture[name].slice()]);
  const kept = merged.length / 4;
  let next = 0;
  suppressor.forEach((by, i) => {
    if (by !== i) return;
    columns.forEach(([, column], k) => { column[i] = merged[k * kept + next]; });
    next++;
  });
  return Object.fromEntries(columns);
}

function labelName(picture, i) {
  const label = picture.classes[i];
  return picture.labels[label] ?? `class ${label}`;
}

function iou({ x1, y1, x2, y2 }, a, b) {
  const width = Math.min(x2[a], x2[b]) - Math.max(x1[a], x1[b]);
  const height = Math.min(y2[a], y2[b]) - Math.max(y1[a], y1[b]);
  if (width <= 0 || height <= 0) return 0;
  const area = (k) => (x2[k] - x1[k]) * (y2[k] - y1[k]);
  return (width * height) / (area(a) + area(b) - width * height);
}

// ---------------------------------------------------------------- cells

// Along one axis (Eqn. 2, 4 and 6, the first hash of the family): the size class, the pitch of its cells, the cell.
function cellAlong(low, high, alpha) {
  const size = high - low;
  if (!(size > 0)) return null;
  const place = Math.floor(-Math.log(size) / Math.log(alpha) + 0.5);
  const pitch = (alpha ** -place * (1 - alpha)) / (1 + alpha);
  return { place, pitch, cell: Math.floor((low / 2 + high / 2) / pitch + 0.5) };
}

function cellOf({ x1, y1, x2, y2 }, i, alpha) {
  const [x, y] = [cellAlong(x1[i], x2[i], alpha), cellAlong(y1[i], y2[i], alpha)];
  return x && y && { x, y, code: [x.place, y.place, x.cell, y.cell] };
}

// The boxes of the same class in a box's cell, including the box itself.
function boxesInCell(picture, i, cell, alpha) {
  const members = [];
  for (let other = 0; other < picture.count; other++) {
    if (picture.classes[other] !== picture.classes[i]) continue;
    const theirs = cellOf(picture, other, alpha);
    if (theirs && theirs.code.every((number, k) => number === cell.code[k])) members.push(other);
  }
  return members;
}

// The edges of a cell and of its neighbours.
const CELLS_AROUND = 12;
const cellEdges = ({ pitch, cell }) => Array.from({ length: 2 * CELLS_AROUND + 2 }, (_, k) => (cell - CELLS_AROUND + k - 0.5) * pitch);
