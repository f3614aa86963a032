// A map to look into. Shapes of the data: dree/report/map_page.py.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const NEAR = 22, EDGE = 34; // pixels: a pointer reaches, the rim keeps free
const plan = JSON.parse(document.getElementById("plan").textContent);
const svg = document.getElementById("map"), tip = document.getElementById("tip");
const view = { x: 0, y: 0, zoom: 1, least: 1 };

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

const lines = element("g", {}, svg), marks = element("g", {}, svg);
const routes = plan.routes.map((route, number) => {
  const style = `--c: ${route.colour}`;
  const line = element("polyline", { class: "line", style, "data-route": number, "stroke-dasharray": route.dashes.join(" ") || "none" }, lines);
  const group = element("g", { style, "data-route": number }, marks);
  const stops = route.stops.map((stop, position) => {
    const mark = element("g", { class: position === 0 ? "stop first" : "stop" }, group);
    const dot = element("circle", { class: "dot", r: 4 }, mark);
    const label = element("text", { class: "number", y: 3.5 }, mark);
    return { ...stop, mark, dot, label, position };
  });
  return { line, group, stops, shown: true };
});
const depot = plan.depot && element("rect", { class: "depot", x: -7, y: -7, width: 14, height: 14 }, marks);

/** The radius of a circle around a stop's number, which has room for all its digits. */
const radius = (stop) => 8.5 + 2.75 * Math.max(0, String(stop.position + 1).length - 2);
const ROOM = 2 * Math.max(...routes.flatMap((route) => route.stops.map(radius)));

const size = () => ({ width: svg.clientWidth || 600, height: svg.clientHeight || 400 });
const onScreen = ([x, y]) => [(x - view.x) * view.zoom, (y - view.y) * view.zoom];

/** Show all stops. */
function fit() {
  const all = [...plan.routes.flatMap((route) => route.stops.map((stop) => stop.at)), ...(plan.depot ? [plan.depot] : [])];
  const [xs, ys] = [all.map((at) => at[0]), all.map((at) => at[1])];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const { width, height } = size();
  const room = Math.min((width - 2 * EDGE) / (right - left || 1e-9), (height - 2 * EDGE) / (bottom - top || 1e-9));
  view.zoom = view.least = Math.min(room, 4 * Math.max(width, height));
  view.x = (left + right) / 2 - width / 2 / view.zoom;
  view.y = (top + bottom) / 2 - height / 2 / view.zoom;
  draw();
}

/** Place everything. A stop has its number where no other is near. */
function draw() {
  const { width, height } = size();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const cells = new Map(), cell = ([x, y]) => `${Math.floor(x / ROOM)},${Math.floor(y / ROOM)}`;
  for (const route of routes) {
    route.line.style.display = route.group.style.display = route.shown ? "" : "none";
    for (const stop of route.stops) {
      stop.screen = onScreen(stop.at);
      if (route.shown) cells.set(cell(stop.screen), [...(cells.get(cell(stop.screen)) ?? []), stop]);
    }
    const walk = [...route.stops.map((stop) => stop.screen)];
    const ends = plan.depot ? [onScreen(plan.depot)] : [walk[0]];
    const path = plan.depot ? [...ends, ...walk, ...ends] : [...walk, ...ends];
    route.line.setAttribute("points", path.map((at) => at.map((value) => value.toFixed(1)).join(",")).join(" "));
  }
  for (const route of routes.filter((each) => each.shown)) {
    for (const stop of route.stops) {
      const [x, y] = stop.screen, [i, j] = [Math.floor(x / ROOM), Math.floor(y / ROOM)];
      const near = [-1, 0, 1].flatMap((a) => [-1, 0, 1].flatMap((b) => cells.get(`${i + a},${j + b}`) ?? []));
      const free = near.every((other) =>
        other === stop || Math.hypot(other.screen[0] - x, other.screen[1] - y) >= radius(stop) + radius(other));
      stop.mark.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      stop.dot.setAttribute("r", free ? radius(stop) : stop.position === 0 ? 5 : 4);
      stop.label.textContent = free ? String(stop.position + 1) : "";
    }
  }
  if (depot) depot.setAttribute("transform", `translate(${onScreen(plan.depot).map((value) => value.toFixed(1)).join(" ")})`);
  drawScale();
}

/** A bar of a round length, between 60 and 150 pixels. */
function drawScale() {
  const perPixel = plan.extent / view.zoom, power = 10 ** Math.floor(Math.log10(60 * perPixel));
  const length = [1, 2, 5, 10].map((digit) => digit * power).find((each) => each >= 60 * perPixel);
  const metres = plan.unit === "km" && length < 1;
  const number = metres ? length * 1000 : length;
  const words = Number(number.toPrecision(1)).toLocaleString("en", { maximumFractionDigits: 12 });
  document.getElementById("scale-text").textContent = `${words} ${metres ? "m" : plan.unit}`.trim();
  document.getElementById("scale-bar").style.width = `${(length / perPixel).toFixed(1)}px`;
}

function zoomAt(factor, x, y) {
  hide();
  const zoom = Math.min(Math.max(view.zoom * factor, view.least / 4), view.least * 4000);
  view.x += x / view.zoom - x / zoom;
  view.y += y / view.zoom - y / zoom;
  view.zoom = zoom;
  draw();
}

function move(dx, dy) {
  hide();
  view.x -= dx / view.zoom;
  view.y -= dy / view.zoom;
  draw();
}

const place = (event) => {
  const box = svg.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

function hide() { tip.hidden = true; }

/** Say what the nearest shown stop is, or the depot. */
function point(event) {
  const [x, y] = place(event);
  let best = null, least = NEAR;
  for (const route of routes.filter((each) => each.shown)) {
    for (const stop of route.stops) {
      const away = Math.hypot(stop.screen[0] - x, stop.screen[1] - y);
      if (away < least) [best, least] = [stop, away];
    }
  }
  if (depot) {
    const at = onScreen(plan.depot), away = Math.hypot(at[0] - x, at[1] - y);
    if (away < least) best = { name: "Depot", words: [], screen: at };
  }
  if (!best) { hide(); return; }
  const name = document.createElement("strong");
  name.textContent = best.name;
  tip.replaceChildren(name, ...best.words.flatMap((words, i) => (i ? [document.createElement("br"), words] : [words])));
  tip.hidden = false;
  const { width, height } = size(), [left, top] = best.screen;
  tip.style.left = `${Math.max(4, Math.min(left + 14, width - tip.offsetWidth - 6))}px`;
  tip.style.top = `${Math.max(4, Math.min(top + 14, height - tip.offsetHeight - 6))}px`;
}

const pointers = new Map();
svg.addEventListener("pointerdown", (event) => {
  svg.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, place(event));
  svg.classList.add("dragged");
});
svg.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId), now = place(event);
  if (!before) { point(event); return; }
  if (pointers.size === 2) {
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const spread = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]) || 1;
    zoomAt(spread(now) / spread(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  } else if (pointers.size === 1) {
    move(now[0] - before[0], now[1] - before[1]);
  }
  pointers.set(event.pointerId, now);
});
for (const name of ["pointerup", "pointercancel"]) {
  svg.addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    svg.classList.remove("dragged");
    if (name === "pointerup") point(event);
  });
}
svg.addEventListener("pointerleave", hide);
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoomAt(Math.exp(-Math.max(-1, Math.min(1, event.deltaY / 300))), ...place(event));
}, { passive: false });
const middle = () => [size().width / 2, size().height / 2];
const keys = {
  ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0), ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60),
  "+": () => zoomAt(1.6, ...middle()), "-": () => zoomAt(0.625, ...middle()), 0: fit, Escape: hide,
};
svg.addEventListener("keydown", (event) => {
  if (!(event.key in keys) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  keys[event.key]();
});
for (const button of document.querySelectorAll("[data-zoom]")) {
  const factor = Number(button.dataset.zoom);
  button.addEventListener("click", () => (factor ? zoomAt(factor, ...middle()) : fit()));
}

function show(number, shown) {
  routes[number].shown = shown;
  document.querySelector(`.legend [data-route="${number}"]`).setAttribute("aria-pressed", String(shown));
}
for (const button of document.querySelectorAll(".legend [data-route]")) {
  const number = Number(button.dataset.route);
  button.addEventListener("click", () => { show(number, !routes[number].shown); hide(); draw(); });
}
for (const button of document.querySelectorAll("[data-every]")) {
  button.addEventListener("click", () => {
    routes.forEach((_, number) => show(number, button.dataset.every === "true"));
    hide();
    draw();
  });
}
let width = 0;
new ResizeObserver(() => { if (size().width !== width) { width = size().width; fit(); } }).observe(svg);
fit();
