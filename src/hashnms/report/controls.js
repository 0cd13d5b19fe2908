// The viewer's controls, pointer and keys; and the start.

function choose(i) {
  choice.chosen = i;
  choice.suppressed = [];
  if (i >= 0 && isKept(i)) {
    const { suppressor, picture } = view;
    for (let other = 0; other < picture.count; other++) if (suppressor[other] === i && other !== i) choice.suppressed.push(other);
    choice.suppressed.sort((a, b) => picture.scores[b] - picture.scores[a]);
  }
  frame.classList.toggle("chosen", i >= 0);
  showPanel();
  later(MARKS);
}

function hover(i, px = 0, py = 0) {
  if (i !== choice.hovered) later(MARKS);
  choice.hovered = i;
  showTip(px, py);
}

// ---------------------------------------------------------------- what is shown

function refresh() {
  if (!view.picture) return;
  let shown = 0;
  for (let i = 0; i < view.picture.count; i++) if (isShown(i)) shown++;
  frame.dataset.shown = shown;
  byId("score-value").textContent = Number.isFinite(view.least) ? asScore(view.least) : "all";
  later(ALL);
}

function setLeast() {
  if (!view.picture) return;
  const { low, high } = view.picture;
  const share = Number(byId("score").value) / 1000;
  view.least = share === 0 ? -Infinity : Math.fround(low + (high - low) * share);
  refresh();
}

async function setMethod(method) {
  const mine = ++turn;
  const outcome = method === null ? { suppressor: null, scores: null, boxes: view.picture } : await loadOutcome(view.picture, method);
  if (mine !== turn) return; // another choice was made in the meantime
  Object.assign(view, { method, suppressor: outcome.suppressor, finals: outcome.scores, boxes: outcome.boxes });
  byId("method").value = method === null ? "" : String(method);
  markRow(method);
  hover(-1);
  choose(choice.chosen);
  refresh();
}

// In a crowd only the best boxes are shown at first: all at once would hide each other.
function startingShare({ count, scores, order, low, high }) {
  if (count <= 5000) return 0;
  return Math.min(999, Math.ceil((1000 * (scores[order[count - 2000]] - low)) / (high - low || 1)));
}

async function setPicture(number) {
  const mine = ++turn;
  const picture = await loadPicture(number);
  if (mine !== turn) return;
  view.picture = view.boxes = picture;
  choice.chosen = choice.hovered = -1;
  const options = picture.methods.map((method) => new Option(about.methods[method].name, method));
  byId("method").replaceChildren(...options);
  byId("method").disabled = options.length === 0;
  byId("score").value = startingShare(picture);
  setLeast();
  frame.style.height = `${Math.round(Math.min(760, Math.max(320, (frame.clientWidth * picture.height) / picture.width)))}px`;
  fit();
  await setMethod(picture.methods.includes(view.method) ? view.method : (picture.methods[0] ?? null));
}

// ---------------------------------------------------------------- zoom and pan

function fit() {
  if (!view.picture) return;
  const { width, height } = view.picture;
  place.scale = 0.97 * Math.min(frame.clientWidth / width, frame.clientHeight / height);
  place.x = (frame.clientWidth - width * place.scale) / 2;
  place.y = (frame.clientHeight - height * place.scale) / 2;
  later(ALL);
}

function zoom(factor, px = frame.clientWidth / 2, py = frame.clientHeight / 2) {
  if (!view.picture) return;
  const { width, height } = view.picture;
  const fitting = Math.min(frame.clientWidth / width, frame.clientHeight / height);
  const scale = Math.min(Math.max(place.scale * factor, fitting / 4), fitting * 400);
  place.x = px - ((px - place.x) * scale) / place.scale;
  place.y = py - ((py - place.y) * scale) / place.scale;
  place.scale = scale;
  later(ALL);
}

function move(dx, dy) {
  place.x += dx;
  place.y += dy;
  later(ALL);
}

const pointers = new Map();
let moved = 0;

function pointOf(event) {
  const box = frame.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function pointerDown(event) {
  if (event.target.closest("button") || event.button > 0 || !view.picture) return;
  frame.setPointerCapture(event.pointerId);
  if (pointers.size === 0) moved = 0;
  pointers.set(event.pointerId, pointOf(event));
}

function pointerMove(event) {
  const now = pointOf(event);
  const before = pointers.get(event.pointerId);
  if (!view.picture) return;
  if (!before) {
    hover(event.target.closest("button") ? -1 : boxAt(...now), ...now);
    return;
  }
  const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
  moved += Math.hypot(dx, dy);
  const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
  pointers.set(event.pointerId, now);
  if (moved < 4 && !other) return;
  frame.classList.add("moving");
  hover(-1);
  if (!other) return move(dx, dy);
  const distance = ([x, y]) => Math.max(1, Math.hypot(x - other[0], y - other[1]));
  move(dx / 2, dy / 2);
  zoom(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
}

function pointerUp(event) {
  if (!pointers.delete(event.pointerId) || pointers.size) return;
  frame.classList.remove("moving");
  if (moved < 4 && event.type === "pointerup") choose(boxAt(...pointOf(event)));
}

function wheel(event) {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) * 0.0025 * (event.ctrlKey ? 3 : 1)), ...pointOf(event));
}

// The next kept box by decreasing score, or the one before.
function step(forward) {
  const kept = Array.from(view.picture.order).filter((i) => isKept(i) && isShown(i)).reverse();
  if (kept.length === 0) return;
  const now = kept.indexOf(choice.chosen);
  const next = now < 0 ? (forward ? 0 : -1) : now + (forward ? 1 : -1);
  choose(kept[(next + kept.length) % kept.length]);
  bringIntoView(choice.chosen);
}

function bringIntoView(i) {
  const { x1, y1, x2, y2 } = shapes();
  const [x, y] = [((x1[i] + x2[i]) / 2) * place.scale + place.x, ((y1[i] + y2[i]) / 2) * place.scale + place.y];
  const inside = x > 0 && y > 0 && x < frame.clientWidth && y < frame.clientHeight;
  if (!inside) move(frame.clientWidth / 2 - x, frame.clientHeight / 2 - y);
}

const KEYS = {
  ArrowLeft: () => move(60, 0),
  ArrowRight: () => move(-60, 0),
  ArrowUp: () => move(0, 60),
  ArrowDown: () => move(0, -60),
  "+": () => zoom(1.3),
  "=": () => zoom(1.3),
  "-": () => zoom(1 / 1.3),
  0: fit,
  n: () => step(true),
  p: () => step(false),
};

function key(event) {
  if (!view.picture || event.ctrlKey || event.metaKey || event.altKey || event.target !== frame || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
}

// ---------------------------------------------------------------- start

function listen() {
  const failing = (work) => work.catch(fail);
  byId("picture").addEventListener("change", (event) => failing(setPicture(Number(event.target.value))));
  byId("method").addEventListener("change", (event) => failing(setMethod(Number(event.target.value))));
  byId("score").addEventListener("input", setLeast);
  byId("mode").addEventListener("change", (event) => {
    view.mode = event.target.value;
    refresh();
  });
  byId("cells").addEventListener("change", (event) => {
    view.cells = event.target.checked;
    if (view.picture) showPanel();
    later(MARKS);
  });
  byId("zoom-in").addEventListener("click", () => zoom(1.5));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
  byId("fit").addEventListener("click", fit);
  byId("theme").addEventListener("click", () => later(ALL));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => later(ALL));
  frame.addEventListener("pointerdown", pointerDown);
  frame.addEventListener("pointermove", pointerMove);
  frame.addEventListener("pointerup", pointerUp);
  frame.addEventListener("pointercancel", pointerUp);
  frame.addEventListener("pointerleave", () => hover(-1));
  frame.addEventListener("wheel", wheel, { passive: false });
  frame.addEventListener("keydown", key);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && view.picture) choose(-1);
  });
  new ResizeObserver(resize).observe(frame);
}

function fail(error) {
  byId("failure").textContent = `The page could not be shown: ${error.message}`;
  byId("failure").hidden = false;
}

async function start() {
  if (about.pictures.length === 0) return;
  byId("viewer").hidden = false;
  byId("picture").append(...about.pictures.map(({ name }, number) => new Option(name, number)));
  resize();
  listen();
  await setPicture(0);
  draw();
}

// For tests and inspection; numbers only.
window.hashnmsReport = {
  ready: start().catch(fail),
  state: () => ({ ...place, ...choice, method: view.method, mode: view.mode, picture: view.picture?.place, shown: Number(frame.dataset.shown), drawMs }),
  suppressor: () => Array.from(view.suppressor ?? []),
  box: (i) => ["x1", "y1", "x2", "y2"].map((name) => shapes()[name][i]),
  cell: (i) => cellOf(view.picture, i, alphaOf(view.method))?.code,
  screen: (x, y) => [frame.getBoundingClientRect().left + x * place.scale + place.x, frame.getBoundingClientRect().top + y * place.scale + place.y],
  redraw: () => {
    due = ALL;
    draw();
    return drawMs;
  },
};
