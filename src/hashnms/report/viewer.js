// The viewer: what is chosen, how it is drawn and described.

// What is chosen is black and white, because classes have all other colours: solid if it is kept, dashed if it is removed.
const KEPT = [];
const REMOVED = [5, 4];

const view = { picture: null, method: null, suppressor: null, finals: null, boxes: null, mode: "both", least: -Infinity, cells: false };
const place = { scale: 1, x: 0, y: 0 }; // of the picture in the frame, in CSS pixels
const choice = { hovered: -1, chosen: -1, suppressed: [] };
const frame = byId("frame");
const layers = ["ground", "boxes", "marks"].map(byId);
const ground = layers[0].getContext("2d");
const marks = layers[2].getContext("2d");
const raster = new Raster(layers[1]);
let [ratio, due, drawMs, turn] = [1, 0, 0, 0];

const isKept = (i) => view.suppressor !== null && view.suppressor[i] === i;
const shapes = () => (view.mode === "before" ? view.picture : view.boxes); // merged boxes are drawn as they are after the method
const isShown = (i) => view.picture.scores[i] >= view.least && (view.mode !== "after" || isKept(i));
const alphaOf = (method) => about.methods[method]?.parameters.alpha ?? Number(/hnms:([\d.]+)/.exec(about.methods[method]?.name)?.[1] ?? 0.7);

// ---------------------------------------------------------------- drawing

function later(what) {
  if (!due) requestAnimationFrame(draw);
  due |= what;
}
const MARKS = 1;
const ALL = 3;

function draw() {
  const start = performance.now();
  const what = due;
  due = 0;
  if (!view.picture) return;
  if (what === ALL) {
    drawGround();
    drawBoxes();
  }
  drawMarks();
  drawMs = performance.now() - start;
}

function resize() {
  ratio = devicePixelRatio || 1;
  for (const canvas of layers) {
    canvas.width = Math.max(1, Math.round(frame.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(frame.clientHeight * ratio));
  }
  raster.resize();
  later(ALL);
}

function drawGround() {
  const { width, height, image } = view.picture;
  ground.setTransform(ratio, 0, 0, ratio, 0, 0);
  ground.clearRect(0, 0, frame.clientWidth, frame.clientHeight);
  ground.fillStyle = getComputedStyle(byId("panel").parentElement).backgroundColor;
  ground.fillRect(place.x, place.y, width * place.scale, height * place.scale);
  if (!image) return;
  ground.imageSmoothingEnabled = place.scale * width < 3 * image.naturalWidth;
  ground.drawImage(image, place.x, place.y, width * place.scale, height * place.scale);
}

function drawBoxes() {
  const { scores, classes, order, low, high } = view.picture;
  const { x1, y1, x2, y2 } = shapes();
  const scale = place.scale * ratio;
  const [left, top] = [place.x * ratio, place.y * ratio];
  const thin = Math.max(1, Math.round(ratio));
  const outline = (i, thick, faintest, strongest) => {
    const rank = Math.round((15 * (scores[i] - low)) / (high - low || 1)) / 15; // better boxes are drawn stronger
    const colour = raster.colour(classes[i], Math.round(faintest + (strongest - faintest) * rank));
    raster.outline(x1[i] * scale + left, y1[i] * scale + top, x2[i] * scale + left, y2[i] * scale + top, thick, colour);
  };
  raster.clear();
  for (const i of order) if (isShown(i) && !(view.mode !== "before" && isKept(i))) outline(i, thin, 40, view.mode === "before" ? 255 : 130);
  if (view.mode !== "before") for (const i of order) if (isShown(i) && isKept(i)) outline(i, 2 * thin, 90, 255);
  raster.show();
}

function strokeBox(i, colour, thick, dashes = [], { x1, y1, x2, y2 } = shapes()) {
  marks.strokeStyle = colour;
  marks.lineWidth = thick;
  marks.setLineDash(dashes);
  marks.strokeRect(x1[i] * place.scale + place.x, y1[i] * place.scale + place.y, (x2[i] - x1[i]) * place.scale, (y2[i] - y1[i]) * place.scale);
}

function emphasise(i, thick, dashes, boxes = shapes()) {
  strokeBox(i, "#fff", thick + 2, [], boxes);
  strokeBox(i, "#000", thick, dashes, boxes);
}

function drawMarks() {
  marks.setTransform(ratio, 0, 0, ratio, 0, 0);
  marks.clearRect(0, 0, frame.clientWidth, frame.clientHeight);
  const { hovered, chosen, suppressed } = choice;
  const subject = chosen >= 0 ? chosen : hovered;
  if (view.cells && subject >= 0) drawCells(subject);
  if (chosen >= 0) {
    marks.globalAlpha = Math.min(0.9, Math.max(0.2, 20 / suppressed.length)); // with many boxes, one sees where they gather
    for (const i of suppressed) emphasise(i, 1, REMOVED);
    if (shapes() !== view.picture && isKept(chosen)) emphasise(chosen, 1, REMOVED, view.picture); // as it was before
    marks.globalAlpha = 1;
    emphasise(chosen, 3, isKept(chosen) ? KEPT : REMOVED);
    const by = view.suppressor ? view.suppressor[chosen] : -1;
    if (by >= 0 && by !== chosen) emphasise(by, 3, KEPT);
  }
  if (hovered >= 0 && hovered !== chosen) {
    strokeBox(hovered, "#000a", 4);
    strokeBox(hovered, "#fff", 2);
  }
}

function drawCells(i) {
  const cell = cellOf(view.picture, i, alphaOf(view.method));
  if (!cell) return;
  const screenX = (x) => x * place.scale + place.x;
  const screenY = (y) => y * place.scale + place.y;
  const edgesX = cellEdges(cell.x).map(screenX);
  const edgesY = cellEdges(cell.y).map(screenY);
  marks.beginPath();
  for (const x of edgesX) marks.moveTo(x, edgesY[0]), marks.lineTo(x, edgesY.at(-1));
  for (const y of edgesY) marks.moveTo(edgesX[0], y), marks.lineTo(edgesX.at(-1), y);
  marks.strokeStyle = "#3d8bff";
  marks.lineWidth = 1;
  marks.setLineDash([]);
  marks.stroke();
  marks.fillStyle = "#3d8bff66";
  const [{ pitch: dx, cell: m }, { pitch: dy, cell: n }] = [cell.x, cell.y];
  marks.fillRect(screenX((m - 0.5) * dx), screenY((n - 0.5) * dy), dx * place.scale, dy * place.scale);
  const { x1, y1, x2, y2 } = view.picture;
  for (const member of boxesInCell(view.picture, i, cell, alphaOf(view.method))) {
    marks.beginPath();
    marks.arc(screenX((x1[member] + x2[member]) / 2), screenY((y1[member] + y2[member]) / 2), member === i ? 4 : 2.5, 0, 2 * Math.PI);
    marks.fillStyle = member === i ? "#fff" : "#0b3d91";
    marks.fill();
    if (member === i) marks.strokeStyle = "#0b3d91", marks.stroke();
  }
}

// ---------------------------------------------------------------- the box under a point

// In this order: a kept box whose edge is near, a removed one, the smallest kept box around the point, a removed one.
function boxAt(px, py) {
  const { count } = view.picture;
  const { x1, y1, x2, y2 } = shapes();
  const [x, y] = [(px - place.x) / place.scale, (py - place.y) / place.scale];
  const near = [3, 5].map((reach) => reach / place.scale);
  const edge = [-1, -1];
  const least = [...near];
  const around = [-1, -1];
  const smallest = [Infinity, Infinity];
  for (let i = 0; i < count; i++) {
    const [left, top, right, bottom] = [x - x1[i], y - y1[i], x2[i] - x, y2[i] - y];
    const inside = Math.min(left, top, right, bottom);
    if (inside < -near[1] || !isShown(i)) continue;
    const kept = isKept(i) ? 1 : 0;
    if (Math.abs(inside) < least[kept]) [least[kept], edge[kept]] = [Math.abs(inside), i];
    const area = (x2[i] - x1[i]) * (y2[i] - y1[i]);
    if (inside >= 0 && area < smallest[kept]) [smallest[kept], around[kept]] = [area, i];
  }
  return [edge[1], edge[0], around[1], around[0]].find((i) => i >= 0) ?? -1;
}

// ---------------------------------------------------------------- words

// Its row in the file if that is known, counted from 1; otherwise its place among the boxes of the picture.
const boxNumber = (i) => (view.picture.rows ? whole.format(view.picture.rows[i]) : String(i));
const boxWord = () => (view.picture.rows ? "row" : "box");

function scoreText(i) {
  const raw = asScore(view.picture.scores[i]);
  return view.finals && isKept(i) ? `${raw} → ${asScore(view.finals[i])}` : raw;
}

function sizeText(i) {
  const size = ({ x1, y1, x2, y2 }) => `${plain.format(x2[i] - x1[i])} × ${plain.format(y2[i] - y1[i])}`;
  return view.boxes !== view.picture && isKept(i) ? `${size(view.picture)} → ${size(view.boxes)}` : size(view.picture);
}

function fateText(i) {
  if (!view.suppressor) return "no method chosen";
  const by = view.suppressor[i];
  if (by === i) return "kept";
  if (by < 0) return "removed by a limit, or no kept box overlaps it";
  return `removed by ${boxWord()} ${boxNumber(by)}, IoU ${three.format(iou(view.picture, i, by))}`;
}

function showTip(px, py) {
  const tip = byId("tip");
  tip.hidden = choice.hovered < 0;
  if (tip.hidden) return;
  const i = choice.hovered;
  tip.replaceChildren(make("b", labelName(view.picture, i)), ` ${scoreText(i)}`, make("br"), `${boxWord()} ${boxNumber(i)}: ${fateText(i)}`);
  tip.style.left = `${Math.max(4, Math.min(px + 14, frame.clientWidth - tip.offsetWidth - 6))}px`;
  tip.style.top = `${py + 16 + tip.offsetHeight > frame.clientHeight ? py - tip.offsetHeight - 12 : py + 16}px`;
}

function facts(entries) {
  const list = make("dl");
  for (const [name, value] of entries) list.append(make("dt", name), make("dd", value));
  return list;
}

function showPanel() {
  const panel = byId("panel");
  panel.replaceChildren(...(choice.chosen >= 0 ? aboutBox(choice.chosen) : aboutPicture()));
}

function aboutPicture() {
  const { count, classes } = view.picture;
  const kept = new Map();
  let total = 0;
  for (let i = 0; i < count; i++) {
    if (!kept.has(classes[i])) kept.set(classes[i], [i, 0, 0]);
    kept.get(classes[i])[1]++;
    if (isKept(i)) total++, kept.get(classes[i])[2]++;
  }
  const list = make("ul");
  const rows = [...kept].sort((a, b) => b[1][1] - a[1][1]);
  for (const [label, [i, all, left]] of rows.slice(0, 12)) {
    const entry = make("li");
    const name = make("span");
    const dot = make("span", "", "dot");
    dot.style.backgroundColor = `rgb(${classColour(label).join(" ")})`;
    name.append(dot, make("bdi", labelName(view.picture, i)));
    entry.append(name, make("span", `${whole.format(left)} of ${whole.format(all)}`));
    list.append(entry);
  }
  const numbers = view.suppressor ? [["kept", whole.format(total)], ["removed", whole.format(count - total)]] : [];
  const result = [make("h3", "This picture"), facts([["boxes", whole.format(count)], ...numbers])];
  if (view.picture.hasImage && !view.picture.image) result.push(make("p", "Its image is broken: only the boxes are shown."));
  if (rows.length) result.push(make("h3", "Kept by class"), list);
  if (rows.length > 12) result.push(make("p", `and ${rows.length - 12} more classes`));
  result.push(make("p", "Click a kept box to see what it suppressed, a removed one to see what removed it: kept ones get a solid frame, removed ones a dashed frame. Wheel or pinch to zoom, drag to move."));
  return result;
}

function aboutBox(i) {
  const { picture } = view;
  const { suppressed } = choice;
  const by = view.suppressor ? view.suppressor[i] : -1;
  const entries = [["class", labelName(picture, i)], ["score", scoreText(i)], ["size", sizeText(i)]];
  const file = picture.files.findLast(([, first]) => first <= i);
  if (file) entries.push(["file", file[0]]);
  const cell = view.cells && cellOf(picture, i, alphaOf(view.method));
  if (cell) {
    entries.push(["alpha", String(alphaOf(view.method))], ["cell (i, j, m, n)", cell.code.join(", ")]);
    entries.push(["boxes in the cell", whole.format(boxesInCell(picture, i, cell, alphaOf(view.method)).length)]);
  }
  const result = [make("h3", `${view.picture.rows ? "Row" : "Box"} ${boxNumber(i)}, ${isKept(i) ? "kept" : "removed"}`), facts(entries)];
  if (!isKept(i)) {
    const line = make("p");
    line.append(by < 0 ? "Removed by a limit, or no kept box overlaps it." : `Removed by ${view.picture.rows ? "row " : ""}`);
    if (by >= 0) line.append(boxButton(by), `, ${labelName(picture, by)} ${scoreText(by)}, IoU ${three.format(iou(picture, i, by))}.`);
    return [...result, line];
  }
  const count = make("p", suppressed.length === 1 ? "It suppressed 1 box." : `It suppressed ${whole.format(suppressed.length)} boxes.`);
  count.dataset.suppressed = suppressed.length;
  result.push(count);
  if (suppressed.length) result.push(listOf(suppressed, i));
  if (suppressed.length > 20) result.push(make("p", "The best 20 are listed."));
  return result;
}

function listOf(rows, keptBox) {
  const table = make("table");
  const head = table.createTHead().insertRow();
  for (const title of [boxWord(), "score", "IoU"]) head.append(make("th", title));
  const body = table.createTBody();
  for (const i of rows.slice(0, 20)) {
    const row = body.insertRow();
    row.insertCell().append(boxButton(i));
    row.append(make("td", asScore(view.picture.scores[i])), make("td", three.format(iou(view.picture, i, keptBox))));
  }
  return table;
}

function boxButton(i) {
  const button = make("button", boxNumber(i));
  button.type = "button";
  button.addEventListener("click", () => choose(i));
  return button;
}
