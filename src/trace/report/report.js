// Builds the page from the embedded data. Text goes in as text nodes only.

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "style") Object.assign(element.style, value); else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}
const maybeNote = (text) => (text ? make("p", { className: "note" }, text) : null);
const percent = (share) => (100 * share).toFixed(1) + " %";
const seconds = (value) => (value === null ? "–" : duration(value * 1e9));

function section(title, lead, ...content) {
  const intro = lead ? make("p", { className: "lead" }, lead) : null;
  page.append(make("section", {}, make("h2", {}, title), intro, ...content));
}

function swatch(background, extra = "") {
  return make("i", { className: `swatch ${extra}`, style: { backgroundColor: background } });
}

function table(columns, rows) {
  const number = /^([-–+]?[\d.,]*( ?\S{1,6})?)$/;  // with a short unit, or absent
  const numeric = columns.map((_, c) => c > 0 && rows.every((row) => number.test(row[c])));
  const cell = (tag) => (text, c) => make(tag, { className: numeric[c] ? "number" : "" }, text);
  return make("div", { className: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...columns.map(cell("th")))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell("td")))))));
}

function header() {
  document.title = data.title;
  page.replaceChildren(make("h1", {}, data.title));
  if (data.subtitle) page.append(make("p", { className: "subtitle" }, data.subtitle));
  if (data.figures.length === 0) return;
  page.append(make("div", { className: "figures" }, ...data.figures.map((figure) =>
    make("div", { className: "panel figure", style: { margin: 0 } },
      make("div", { className: "label" }, figure.label),
      make("div", { className: "value" }, figure.value),
      maybeNote(figure.note)))));
}

function timelinePanel(timeline, span) {
  const canvas = make("canvas", { tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Timeline: ${timeline.title}. Arrow keys move, plus and minus zoom.`);
  let stage = 0;
  const legend = make("div", { className: "legend" }, ...timeline.looks.map((look) => {
    const fill = look.wait ? `var(${causeName(look.name)})` : `var(--stage-${stage++ % STAGE_COLOURS})`;
    const label = (look.wait ? "idle: " : "") + words(look.name);
    return make("span", {}, swatch(fill, look.wait ? "hatched" : ""), label);
  }));
  const buttons = make("div", { className: "buttons" });
  const panel = make("div", { className: "panel" },
    make("div", { className: "head" }, make("h3", {}, timeline.title), maybeNote(timeline.note), buttons),
    canvas, legend);
  return { panel, start() {
    const view = makeTimeline(timeline, canvas, span);
    const entries = [["Steady steps", view.steady], ["Whole run", view.whole],
                     ["−", view.zoomOut], ["+", view.zoomIn]];
    buttons.append(...entries.map(([text, onclick]) => make("button", { type: "button", onclick }, text)));
  } };
}

function timelines() {
  const shown = data.timelines.filter((timeline) => timeline.start.length > 0);
  if (shown.length === 0) return;
  // One scale for all at first, so that lengths compare.
  const span = Math.max(...shown.map((timeline) => timeline.view[1] - timeline.view[0]));
  const panels = shown.map((timeline) => timelinePanel(timeline, span));
  section("Where the time went",
    "Each lane is a device. Solid bars are work, hatched ones idle time by its cause. " +
    "Wheel: zoom. Drag: move. Point at a bar for details.", ...panels.map((entry) => entry.panel));
  panels.forEach((entry) => entry.start());
}

const barName = (text) => make("div", { className: "name" }, text);

function shares() {
  if (data.shares.length === 0) return;
  const parts = ["busy", ...CAUSES.slice(0, 6)];
  const used = parts.filter((_, p) => data.shares.some((row) => row.parts[p] > 0));
  const bar = (row) => make("div", { className: "stack" }, ...parts.map((part, p) =>
    row.parts[p] === 0 ? null : make("div", {
      className: part === "busy" ? "" : "hatched", title: `${words(part)} ${percent(row.parts[p])}`,
      style: { width: 100 * row.parts[p] + "%", backgroundColor: `var(--${part})` },
    }, row.parts[p] > 0.08 ? make("b", {}, percent(row.parts[p])) : null)));
  section("Shares of time", "Parts of the whole run, for each device; every row adds up to 100 %.",
    make("div", { className: "panel" },
      make("div", { className: "bars" }, ...data.shares.flatMap((row) => [barName(row.device), bar(row)])),
      make("div", { className: "legend" }, ...used.map((part) =>
        make("span", {}, swatch(`var(--${part})`, part === "busy" ? "" : "hatched"), words(part)))),
      make("div", { style: { height: "12px" } }),
      table(["device", ...used.map(words)],
        data.shares.map((row) => [row.device, ...used.map((part) => percent(row.parts[parts.indexOf(part)]))]))));
}

function schedules() {
  if (data.schedules.length === 0) return;
  const longest = Math.max(...data.schedules.flatMap((s) => [s.measured, s.predicted, s.bound].map((v) => v || 0)));
  const at = (value) => (100 * value) / (longest * 1.02) + "%";
  const mark = (kind, value) => value === null ? null :
    make("div", { className: kind, title: `${kind} ${seconds(value)}`, style: { left: at(value) } });
  const track = (s) => make("div", { className: "track" },
    s.measured === null ? null : make("div", {
      className: "measured", title: `measured ${seconds(s.measured)}`, style: { width: at(s.measured) },
    }),
    mark("predicted", s.predicted), mark("bound", s.bound));
  const over = (a, b) => (a === null || b === null ? "–" : (a / b).toFixed(2));
  section("Schedules side by side",
    "Time for one step: shorter is better. The bound is what no schedule of the same plan can beat.",
    make("div", { className: "panel" },
      make("div", { className: "bars" }, ...data.schedules.flatMap((s) => [barName(words(s.name)), track(s)])),
      make("div", { className: "legend" },
        make("span", {}, swatch("var(--busy)"), "measured"),
        make("span", {}, swatch("var(--back_pressured)", "mark"), "predicted"),
        make("span", {}, swatch("var(--ink)", "mark"), "bound")),
      make("div", { style: { height: "12px" } }),
      table(["schedule", "measured", "predicted", "bound", "measured / predicted", "measured / bound"],
        data.schedules.map((s) => [words(s.name), seconds(s.measured), seconds(s.predicted), seconds(s.bound),
          over(s.measured, s.predicted), over(s.measured, s.bound)]))));
}

function lineSwatch(index) {
  const borderTop = `3px ${["solid", "dashed", "dotted"][index % 3]} ${chartColour(index)}`;
  return make("i", { className: "swatch line", style: { borderTop } });
}

function charts() {
  if (data.charts.length === 0) return;
  section("Curves", "", make("div", { className: "charts" }, ...data.charts.map((chart) =>
    make("div", { className: "panel" },
      make("div", { className: "head" }, make("h3", {}, chart.title)),
      makeChart(chart),
      chart.series.length < 2 ? null : make("div", { className: "legend" }, ...chart.series.map((series, i) =>
        make("span", {}, lineSwatch(i), series.name))),
      maybeNote(chart.note)))));
}

header();
timelines();
schedules();
shares();
charts();
for (const entry of data.tables) {
  section(entry.title, entry.note, make("div", { className: "panel" }, table(entry.columns, entry.rows)));
}
if (data.notes.length > 0) {
  const items = data.notes.map((text) => make("li", {}, text));
  section("Notes", "", make("div", { className: "panel" }, make("ul", {}, ...items)));
}
page.append(make("footer", {}, "Written by Headrace. This file holds everything it shows and loads nothing."));
