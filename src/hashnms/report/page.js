// The page's data, the table and the theme. The other scripts follow in the same module: page.py lists them in order.
// Text from the report is only ever set with textContent.

const byId = (id) => document.getElementById(id);
const about = JSON.parse(byId("about").textContent);

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// ---------------------------------------------------------------- arrays

// The numbers of a block: base 64, deflated, all first bytes, then all second bytes, and so on.
async function numbersOf(id, Kind) {
  const text = atob(byId(id).textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = planes.length / 4;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < 4; plane++) {
    for (let i = 0; i < count; i++) bytes[4 * i + plane] = planes[plane * count + i];
  }
  return new Kind(bytes.buffer);
}

// ---------------------------------------------------------------- numbers

const decimals = (digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = decimals(1);
const two = decimals(2);
const three = decimals(3);
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

const asCount = (value) => (Number.isInteger(value) ? whole : one).format(value);
const asShare = (value) => `${one.format(100 * value)} %`;
const asScore = (value) => (Math.abs(value) < 1000 ? three : plain).format(value);

const numImages = Math.max(about.pictures.length, ...about.boxesPerImage.map(({ counts }) => counts.length));

const asMs = (value) => (value < 0.1 ? three : two).format(value);
const COLUMNS = {
  kept: ["kept", asCount],
  boxes: ["boxes", asCount],
  ms: [numImages > 1 ? "ms, all images" : "ms", asMs],
  ms_spread: ["± ms", asMs],
  speed_up: ["speed-up", (value) => `${(value < 10 ? two : one).format(value)}×`],
  map: ["mAP", asShare],
  map_50: ["mAP@0.5", asShare],
  recall_50: ["recall@0.5", asShare],
};
const SHARES = /^(map|ap|ar|agreement|recall|precision|f1)(_|$)/;

function column(key) {
  if (Object.hasOwn(COLUMNS, key)) return COLUMNS[key];
  const title = key.replace(/^map_(\d+)$/, "mAP@0.$1").replaceAll("_", " ");
  return [title, SHARES.test(key) ? asShare : (value) => (Number.isInteger(value) ? whole : plain).format(value)];
}

const valueOf = (method, key) => (Object.hasOwn(method.values, key) ? method.values[key] : null);

// ---------------------------------------------------------------- colours

const PALETTE = ["#3b7dd8", "#e07b39", "#2f9e6e", "#b657c4", "#c9a227", "#d64561", "#3aa6b9", "#7d6be0", "#8a9a2b", "#a0705a"];
const methodColour = (place) => PALETTE[place % PALETTE.length];

// ---------------------------------------------------------------- table

function makeTable() {
  const keys = [...new Set(about.methods.flatMap((method) => Object.keys(method.values)))];
  const columns = [{ title: "method", value: (method) => method.name }];
  for (const key of keys) columns.push({ title: column(key)[0], format: column(key)[1], value: (method) => valueOf(method, key) });
  const head = make("tr");
  const body = byId("table").tBodies[0];
  const rows = about.methods.map((method, place) => {
    const row = make("tr");
    row.dataset.method = place;
    const name = make("th");
    name.scope = "row";
    const dot = make("span", "", "dot");
    dot.style.backgroundColor = methodColour(place);
    name.append(dot, make("bdi", method.name));
    row.append(name);
    for (const { value, format } of columns.slice(1)) {
      const number = value(method);
      row.append(number === null ? make("td", "–", "none") : make("td", format(number)));
    }
    return row;
  });
  columns.forEach(({ title, value, format }) => {
    const cell = make("th");
    cell.scope = "col";
    const button = make("button", title);
    button.type = "button";
    button.addEventListener("click", () => {
      const down = cell.ariaSort ? cell.ariaSort === "ascending" : Boolean(format); // numbers: the greatest first
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const ranked = rows.map((row, place) => [value(about.methods[place]), row]);
      ranked.sort(([a], [b]) => (a === null) - (b === null) || (down ? -1 : 1) * (a < b ? -1 : a > b ? 1 : 0));
      body.append(...ranked.map(([, row]) => row));
    });
    cell.append(button);
    head.append(cell);
  });
  byId("table").tHead.append(head);
  body.append(...rows);
  byId("methods").hidden = rows.length === 0;
}

function markRow(place) {
  for (const row of byId("table").tBodies[0].rows) row.setAttribute("aria-current", String(Number(row.dataset.method) === place));
}

// ---------------------------------------------------------------- theme

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});

makeTable();
