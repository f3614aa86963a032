// One stream at a time is shown; its plots are drawn when it is first seen.
const GROUPS = JSON.parse(document.getElementById("suite-data").textContent);
const sections = [...document.querySelectorAll(".group")];
const hidden = GROUPS.map(() => new Set()); // methods whose curves are hidden, by group
let current = 0;

const PAPER = 690; // pixels that fit a printed page

const plotsOf = (section) => [...section.querySelectorAll("[data-plot]")];

function drawGroup(number, paper = false) {
  const { methods, ...plots } = GROUPS[number];
  for (const place of plotsOf(sections[number])) {
    drawPlot(place, plots[place.dataset.plot], methods, hidden[number], paper ? PAPER : place.clientWidth, paper);
  }
}

function showGroup(number) {
  current = number;
  sections.forEach((section, i) => { section.hidden = i !== number; });
  const chooser = document.getElementById("stream");
  if (chooser) chooser.value = String(number);
  drawGroup(number);
}

/** Hide or show the curves of some methods in all plots of a group. */
function setHidden(number, methods) {
  hidden[number] = methods;
  for (const button of sections[number].querySelectorAll(".legend button")) {
    button.setAttribute("aria-pressed", String(!methods.has(Number(button.dataset.method))));
  }
  for (const place of plotsOf(sections[number])) {
    Plotly.restyle(place, { visible: place.data.map((trace) => !methods.has(trace.meta)) });
  }
}

function watchLegend(section, number) {
  for (const button of section.querySelectorAll(".legend button")) {
    const method = Number(button.dataset.method);
    button.addEventListener("click", () => {
      const next = new Set(hidden[number]);
      if (!next.delete(method)) next.add(method);
      setHidden(number, next);
    });
    button.addEventListener("dblclick", () => {
      const others = GROUPS[number].methods.map((_, i) => i).filter((i) => i !== method);
      const alone = !hidden[number].has(method) && others.every((i) => hidden[number].has(i));
      setHidden(number, new Set(alone ? [] : others));
    });
  }
}

/** Sort the rows of a table by a column: up, down, and as they were. */
function watchTable(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], before = [...body.rows];
  const value = (row, i) => {
    const cell = row.cells[i];
    return cell.tagName === "TH" ? cell.textContent : cell.dataset.order === undefined ? null : Number(cell.dataset.order);
  };
  const compare = (one, other) => (typeof one === "string" ? one.localeCompare(other) : one - other);
  heads.forEach((head, i) => head.firstElementChild.addEventListener("click", () => {
    const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
    const way = next === undefined ? "ascending" : next;
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    if (way === null) return body.append(...before);
    head.setAttribute("aria-sort", way);
    const known = before.filter((row) => value(row, i) !== null), rest = before.filter((row) => value(row, i) === null);
    known.sort((a, b) => (way === "ascending" ? 1 : -1) * compare(value(a, i), value(b, i)));
    return body.append(...known, ...rest);
  }));
}

/** A link to a group shows it. */
function followLink() {
  const wanted = /^#group-(\d+)$/.exec(location.hash);
  if (!wanted || !sections[wanted[1]]) return;
  showGroup(Number(wanted[1]));
  sections[wanted[1]].scrollIntoView();
}

document.querySelectorAll("table.sortable").forEach(watchTable);
sections.forEach((section, i) => {
  watchLegend(section, i);
  showRoutes(section, GROUPS[i].routes);
});
document.getElementById("stream")?.addEventListener("change", (event) => showGroup(Number(event.target.value)));
addEventListener("hashchange", followLink);
if (sections.length) {
  showGroup(0);
  followLink();
  addEventListener("beforeprint", () => drawGroup(current, true));
  addEventListener("afterprint", () => drawGroup(current));
  // Wider or narrower by a column: set the panels anew.
  new ResizeObserver(() => {
    const changed = plotsOf(sections[current]).some((place) => {
      const plot = GROUPS[current][place.dataset.plot];
      return place.clientWidth && columnsFor(plot.panels.length, place.clientWidth) !== Number(place.dataset.columns);
    });
    if (changed) drawGroup(current);
  }).observe(document.querySelector("main"));
}
