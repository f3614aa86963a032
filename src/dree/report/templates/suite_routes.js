// Routes of two solvers on one instance. Shapes of the data: dree/report/suite_routes.py.
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The legs of a route as pairs of nodes; `outer` marks those from and to the depot. */
function legs(route, depot) {
  const stops = depot ? [0, ...route, 0] : [...route, route[0]];
  return stops.slice(1).map((to, i) => ({ from: stops[i], to, outer: depot && (stops[i] === 0 || to === 0) }));
}

const legName = ({ from, to }) => (from < to ? `${from}-${to}` : `${to}-${from}`);

/** A map of one answer; legs in `faded` are pale. */
function map(test, answer, colours, faded) {
  const svg = element("svg", { viewBox: "-35 -35 1070 1070", role: "img" });
  const lines = element("g", { "stroke-linecap": "round" }), dots = element("g", { stroke: "#ffffff", "stroke-width": 2 });
  const most = test.demands ? Math.max(1, ...test.demands) : 1;
  answer.routes.forEach((route, i) => {
    const colour = colours[i % colours.length];
    for (const leg of legs(route, test.depot)) {
      const [[x1, y1], [x2, y2]] = [test.points[leg.from], test.points[leg.to]];
      const opacity = faded.has(legName(leg)) ? 0.14 : leg.outer ? 0.5 : 1;
      const style = { stroke: colour, "stroke-width": leg.outer ? 3.5 : 6, "stroke-opacity": opacity };
      lines.append(element("line", { x1, y1, x2, y2, ...style }));
    }
    route.forEach((node, place) => {
      const [cx, cy] = test.points[node], r = test.demands ? 7 + 9 * Math.sqrt(test.demands[node] / most) : 9;
      const ring = place === 0 ? { fill: "#ffffff", stroke: colour, "stroke-width": 5 } : { fill: colour };
      const load = answer.loads.length ? `\nroute ${i + 1}: ${answer.loads[i]}` : "";
      const what = test.demands ? `node ${node}, demand ${test.demands[node]}${load}` : `node ${node}`;
      dots.append(element("circle", { cx, cy, r, ...ring }, element("title", {}, what)));
    });
  });
  svg.append(lines, dots);
  if (test.depot) {
    const [x, y] = test.points[0];
    svg.append(element("rect", { x: x - 15, y: y - 15, width: 30, height: 30, fill: "#1F2328" }, element("title", {}, "depot")));
  }
  return svg;
}

/** Keep the two maps of a group as its controls say. */
function showRoutes(section, data) {
  const box = section.querySelector(".routes");
  if (!box) return;
  const choice = (name) => box.querySelector(`[data-choice=${name}]`);
  choice("left").value = data.solvers.length > 1 && data.solvers[0].name === "reference" ? "1" : "0";
  choice("right").value = String(data.solvers.length - 1);
  if (choice("left").value === choice("right").value) choice("left").value = "0";
  const draw = () => {
    const number = Number(choice("test").value), test = data.tests[number];
    const solvers = { left: data.solvers[choice("left").value], right: data.solvers[choice("right").value] };
    const names = (solver) => new Set((solver.answers[number]?.routes ?? []).flatMap((route) => legs(route, test.depot)).map(legName));
    const [left, right] = [names(solvers.left), names(solvers.right)];
    const both = new Set(choice("fade").checked ? [...left].filter((name) => right.has(name)) : []);
    for (const [side, solver] of Object.entries(solvers)) {
      const figure = box.querySelector(`[data-side=${side}]`), answer = solver.answers[number];
      const name = document.createElement("strong");
      name.textContent = solver.name;
      if (!answer) {
        figure.querySelector(".map").replaceChildren();
        figure.querySelector("figcaption").replaceChildren(name, ": no routes are stored for this task.");
        continue;
      }
      const more = solver.name === "reference" ? "" : `, ${answer.gap < 0 ? "" : "+"}${answer.gap.toFixed(2)} %`;
      const many = test.depot ? `, ${answer.routes.length} route${answer.routes.length > 1 ? "s" : ""}` : "";
      const words = `: length ${answer.length.toFixed(3)}${more}${many}`;
      const picture = map(test, answer, data.colours, both);
      picture.setAttribute("aria-label", `${test.title}, ${solver.name}${words}`);
      figure.querySelector(".map").replaceChildren(picture);
      figure.querySelector("figcaption").replaceChildren(name, words);
    }
  };
  box.addEventListener("change", draw);
  draw();
}
