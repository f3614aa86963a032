// Panels with curves, as many beside one another as the page is wide. Shapes of the data: dree/report/suite_groups.py.
const INK = "#1F2328", MUTED = "#59636E", GRID = "#E4E7EA", BAND = "#E3E6EA", FRAME = "#B8BFC6";
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const PANEL = 165, TITLE = 34, BOTTOM = 48, TOP = 8, RIGHT = 12; // heights and margins in pixels
// All that the bar over a plot offers. Left to itself, plotly adds one that sends the chart to its makers.
const BUTTONS = [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "resetScale2d"]];
const FEW = 80; // points that get a dot each

function columnsFor(count, width) {
  const fit = width < 560 ? 1 : width < 840 ? 2 : 3;
  return count === 4 ? Math.min(2, fit) : Math.min(count, fit);
}

/** The traces of a plot: a line for each method in each panel, in this order. */
function traces(plot, methods) {
  return plot.panels.flatMap((panel, i) => panel.lines.map((line) => {
    const method = methods[line.method], axis = i ? i + 1 : "";
    const where = plot.axis ? "<br>gap %{y:.2f} %" : "<br>%{y:.5~g}";
    return {
      type: "scatter", mode: line.x.length > FEW ? "lines" : "lines+markers", name: method.name, meta: line.method,
      x: line.x, y: line.y, xaxis: `x${axis}`, yaxis: `y${axis}`, showlegend: false,
      customdata: line.x.map((epoch) => learning(plot, epoch)),
      line: { color: method.colour, dash: method.dash, width: 1.8 }, marker: { size: 4 },
      hovertemplate: `<b>%{fullData.name}</b><br>${panel.title}<br>epoch %{x}%{customdata}${where}<extra></extra>`,
    };
  }));
}

/** What was being learned at an epoch, for the label of a point. */
function learning(plot, epoch) {
  if (!plot.axis) return "";
  return epoch in plot.learned ? `, learning ${plot.learned[epoch]}` : epoch === 0 ? ", before learning" : "";
}

function layout(plot, width) {
  const count = plot.panels.length, columns = columnsFor(count, width), rows = Math.ceil(count / columns);
  const shared = plot.axis !== null, between = columns > 1 ? (shared ? 0.025 : 0.075) : 0;
  const inner = rows * (PANEL + TITLE), side = (1 - between * (columns - 1)) / columns;
  const every = plot.panels.flatMap((panel) => panel.lines.flatMap((line) => line.x));
  const low = Math.min(...every), high = Math.max(...every), room = Math.max(0.02 * (high - low), 0.3);
  const result = {
    height: inner + TOP + BOTTOM, margin: { l: shared ? 54 : 44, r: RIGHT, t: TOP, b: BOTTOM }, hovermode: "closest", dragmode: "zoom",
    paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", font: { family: FONT, size: 12, color: MUTED },
    hoverlabel: { bgcolor: "#ffffff", font: { color: INK, size: 13, family: FONT }, align: "left" },
    annotations: [], shapes: [], showlegend: false,
  };
  if (matchMedia("(pointer: coarse)").matches) result.dragmode = false; // a finger scrolls the page
  plot.panels.forEach((panel, i) => {
    const row = Math.floor(i / columns), column = i % columns, axis = i ? i + 1 : "";
    const x = [column * (side + between), column * (side + between) + side];
    const y = [1 - (row + 1) * (PANEL + TITLE) / inner, 1 - (row * (PANEL + TITLE) + TITLE) / inner];
    const line = { gridcolor: GRID, linecolor: FRAME, tickcolor: FRAME, zeroline: false, showline: true };
    result[`xaxis${axis}`] = {
      ...line, domain: x, anchor: `y${axis}`, range: [low - room, high + room], matches: i ? "x" : undefined, showgrid: false,
      showticklabels: i + columns >= count, nticks: 6,
    };
    result[`yaxis${axis}`] = { ...line, domain: y, anchor: `x${axis}`, nticks: 6, ...vertical(plot, i, column) };
    result.annotations.push({
      text: `<b>${panel.title}</b>`, xref: "paper", yref: "paper", x: x[0], y: y[1], xanchor: "left", yanchor: "bottom",
      yshift: 4, showarrow: false, font: { color: INK, size: width < 420 * columns ? 11.5 : 13 },
    });
    for (const [first, last] of panel.bands) {
      result.shapes.push({
        type: "rect", xref: `x${axis}`, yref: `y${axis} domain`, x0: first - 0.5, x1: last + 0.5, y0: 0, y1: 1,
        fillcolor: BAND, line: { width: 0 }, layer: "below",
      });
    }
  });
  const words = { showarrow: false, xref: "paper", yref: "paper", font: { color: MUTED, size: 12 } };
  result.annotations.push({ ...words, text: "epoch", x: 0.5, y: 0, yshift: -BOTTOM + 4, yanchor: "bottom" });
  if (shared) {
    result.annotations.push({ ...words, text: plot.axis.label, x: 0, y: 0.5, xshift: -42, xanchor: "center", textangle: -90 });
  }
  return result;
}

/** What is special about a panel's vertical axis: all the same, or one each. */
function vertical(plot, i, column) {
  if (!plot.axis) return { rangemode: "tozero" };
  const range = plot.axis.log ? plot.axis.range.map(Math.log10) : plot.axis.range;
  return { type: plot.axis.log ? "log" : "linear", range, matches: i ? "y" : undefined, showticklabels: column === 0 };
}

/** Draw a plot into its place, with the methods that are hidden left out; on paper its width is fixed. */
function drawPlot(place, plot, methods, hidden, width, paper = false) {
  const shown = traces(plot, methods).map((trace) => ({ ...trace, visible: !hidden.has(trace.meta) }));
  const config = { responsive: !paper, displaylogo: false, modeBarButtons: BUTTONS, plotlyServerURL: "" };
  const set = { ...layout(plot, width), ...(paper ? { width } : {}) };
  place.dataset.columns = columnsFor(plot.panels.length, width);
  place.style.height = `${set.height}px`; // plotly sets its own inside, where nobody sees it
  return Plotly.react(place, shown, set, config);
}
