// The plots, as SVG whose colours follow the theme. A plot without data is left out.

const PLOT = { width: 420, height: 270, left: 52, right: 14, top: 12, bottom: 40 };

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function addPlot(name, title, height = PLOT.height) {
  const figure = make("figure", undefined, "plot");
  figure.dataset.plot = name;
  const heading = make("h3", title);
  const drawing = svg("svg", { viewBox: `0 0 ${PLOT.width} ${height}`, role: "img" });
  drawing.setAttribute("aria-label", title);
  figure.append(heading, drawing);
  byId("plots").append(figure);
  byId("plots").hidden = false;
  return drawing;
}

// Round numbers that cover a range.
function ticksOf(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(k * step || 0); // not -0
  return ticks;
}

function logTicksOf(low, high) {
  const factors = Math.log10(high / low) > 2.2 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of factors) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
const logarithmic = (low, high, from, to) => (value) => linear(Math.log(low), Math.log(high), from, to)(Math.log(value));

function axes(drawing, x, xTicks, xTitle, y, yTicks, formatX, formatY, height = PLOT.height) {
  const [left, right, bottom] = [PLOT.left, PLOT.width - PLOT.right, height - PLOT.bottom];
  for (const tick of yTicks) {
    drawing.append(svg("line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "grid" }));
    drawing.append(svg("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end" }, formatY(tick)));
  }
  for (const tick of xTicks) {
    drawing.append(svg("line", { x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4, class: "axis" }));
    drawing.append(svg("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, formatX(tick)));
  }
  drawing.append(svg("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
  drawing.append(svg("text", { x: (left + right) / 2, y: height - 5, "text-anchor": "middle" }, xTitle));
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Next to its point if there is room, otherwise not at all: the title of the point has the name, and the table the colour.
function addLabels(drawing, points) {
  const taken = points.map(({ px, py }) => [px - 5, py - 5, px + 5, py + 5]);
  const free = (box) => box[0] >= PLOT.left - 2 && box[2] <= PLOT.width && box[1] >= 0 && taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
  for (const { px, py, name } of points) {
    const text = shortened(name, 30);
    const width = text.length * 5.6;
    for (const [x, y] of [[px + 8, py + 4], [px - 8 - width, py + 4], [px - width / 2, py - 9], [px - width / 2, py + 18], [px + 8, py + 16], [px + 8, py - 8], [px - 8 - width, py - 8], [px - 8 - width, py + 16]]) {
      const box = [x, y - 10, x + width, y + 3];
      if (!free(box)) continue;
      taken.push(box);
      drawing.append(svg("text", { x, y, class: "label", textLength: width, lengthAdjust: "spacingAndGlyphs" }, text));
      break;
    }
  }
}

function addPoint(drawing, px, py, place, title) {
  const circle = svg("circle", { cx: px, cy: py, r: 5, class: "point", fill: methodColour(place) });
  circle.append(svg("title", {}, title));
  drawing.append(circle);
}

// What says how good a method is, the best first.
const QUALITIES = {
  map: "mAP",
  map_50: "mAP@0.5",
  recall: "Recall",
  recall_of_first: "Recall of the first method's boxes",
};

function plotQuality() {
  const known = (key) => about.methods.filter((method) => valueOf(method, key) !== null && valueOf(method, "ms") > 0);
  const key = Object.keys(QUALITIES).find((name) => known(name).length > 1);
  if (!key) return;
  const points = known(key).map((method) => ({ method, place: about.methods.indexOf(method), ms: method.values.ms, quality: method.values[key] }));
  const times = points.map(({ ms }) => ms);
  const qualities = points.map(({ quality }) => quality);
  const [fast, slow] = [Math.min(...times) / 1.5, Math.max(...times) * 1.5];
  const margin = (Math.max(...qualities) - Math.min(...qualities)) * 0.12 || 0.01;
  const [low, high] = [Math.min(...qualities) - margin, Math.max(...qualities) + margin];
  const drawing = addPlot("quality", `${QUALITIES[key]} against time`);
  const x = logarithmic(fast, slow, PLOT.left, PLOT.width - PLOT.right);
  const y = linear(low, high, PLOT.height - PLOT.bottom, PLOT.top);
  const yTicks = ticksOf(low, high);
  const digits = yTicks.length > 1 ? Math.max(0, -Math.floor(Math.log10(100 * (yTicks[1] - yTicks[0]) + 1e-12))) : 1;
  const share = decimals(Math.min(digits, 4));
  axes(drawing, x, logTicksOf(fast, slow), numImages > 1 ? `ms for all ${whole.format(numImages)} images, on a log scale` : "ms, on a log scale", y, yTicks, (tick) => plain.format(tick), (tick) => `${share.format(100 * tick)} %`);
  for (const point of points) {
    Object.assign(point, { px: x(point.ms), py: y(point.quality), name: point.method.name });
    addPoint(drawing, point.px, point.py, point.place, `${point.name}: ${asShare(point.quality)}, ${plain.format(point.ms)} ms`);
  }
  addLabels(drawing, points);
}

function plotKept() {
  const groups = new Map(); // methods that differ in alpha only
  about.methods.forEach((method, place) => {
    const [alpha, kept] = [method.parameters.alpha, valueOf(method, "kept")];
    if (!(alpha > 0) || kept === null) return;
    const name = method.name.replace(/hnms:[\d.]+/, "hnms:α");
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push({ alpha, kept, place, method });
  });
  const curves = [...groups].filter(([, points]) => new Set(points.map(({ alpha }) => alpha)).size > 1);
  if (curves.length === 0) return;
  const all = curves.flatMap(([, points]) => points);
  const alphas = all.map(({ alpha }) => alpha);
  const high = Math.max(...all.map(({ kept }) => kept), 1) * 1.1;
  const spare = (Math.max(...alphas) - Math.min(...alphas)) * 0.08;
  const [first, last] = [Math.min(...alphas) - spare, Math.max(...alphas) + spare];
  const drawing = addPlot("kept", "Boxes kept against alpha");
  const x = linear(first, last, PLOT.left, PLOT.width - PLOT.right);
  const y = linear(0, high, PLOT.height - PLOT.bottom, PLOT.top);
  axes(drawing, x, ticksOf(first, last), "alpha: greater means smaller cells", y, ticksOf(0, high), (tick) => plain.format(tick), asCount);
  const ends = [];
  for (const [name, points] of curves) {
    points.sort((a, b) => a.alpha - b.alpha);
    const path = points.map(({ alpha, kept }) => `${x(alpha)},${y(kept)}`).join(" ");
    drawing.append(svg("polyline", { points: path, class: "curve", stroke: methodColour(points[0].place) }));
    for (const { alpha, kept, place, method } of points) addPoint(drawing, x(alpha), y(kept), place, `${method.name}: ${asCount(kept)}`);
    const middle = points[points.length >> 1];
    ends.push({ px: x(middle.alpha), py: y(middle.kept), name });
  }
  addLabels(drawing, ends);
}

function plotCounts() {
  const series = about.boxesPerImage.filter(({ counts }) => counts.length > 1);
  if (series.length === 0) return;
  const all = series.flatMap(({ counts }) => counts.map((count) => Math.max(count, 1)));
  const smallest = all.reduce((a, b) => Math.min(a, b)) / 1.2;
  const greatest = all.reduce((a, b) => Math.max(a, b)) * 1.2;
  const [row, bins, left] = [46, 36, 14];
  const height = PLOT.top + series.length * row + PLOT.bottom;
  const drawing = addPlot("counts", "Boxes per image, before and after", height);
  const x = logarithmic(smallest, greatest, left, PLOT.width - PLOT.right);
  const width = (PLOT.width - PLOT.right - left) / bins;
  series.forEach(({ name, method, counts }, place) => {
    const heights = new Array(bins).fill(0);
    for (const count of counts) heights[Math.min(bins - 1, Math.floor((x(Math.max(count, 1)) - left) / width))]++;
    const most = Math.max(...heights);
    const floor = PLOT.top + (place + 1) * row;
    drawing.append(svg("line", { x1: left, x2: PLOT.width - PLOT.right, y1: floor, y2: floor, class: "grid" }));
    heights.forEach((number, bin) => {
      if (number === 0) return;
      const tall = (number / most) * (row - 20);
      const bar = svg("rect", { x: left + bin * width, y: floor - tall, width: width - 1, height: tall });
      if (method === null) bar.setAttribute("class", "raw");
      else bar.setAttribute("fill", methodColour(method));
      bar.append(svg("title", {}, `${number} of ${counts.length} images`));
      drawing.append(bar);
    });
    const median = counts.toSorted((a, b) => a - b)[counts.length >> 1];
    drawing.append(svg("text", { x: left, y: floor - row + 17, class: "label" }, shortened(name, 44)));
    drawing.append(svg("text", { x: PLOT.width - PLOT.right, y: floor - row + 17, "text-anchor": "end" }, `median ${whole.format(median)}`));
  });
  const floor = height - PLOT.bottom;
  for (const tick of logTicksOf(smallest, greatest)) {
    drawing.append(svg("line", { x1: x(tick), x2: x(tick), y1: floor, y2: floor + 4, class: "axis" }));
    drawing.append(svg("text", { x: x(tick), y: floor + 17, "text-anchor": "middle" }, whole.format(tick)));
  }
  drawing.append(svg("text", { x: PLOT.width / 2, y: height - 5, "text-anchor": "middle" }, "boxes, on a log scale"));
}

plotQuality();
plotKept();
plotCounts();
