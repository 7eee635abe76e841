// A line chart in SVG with axes, a legend made by the caller and values under the pointer.

function svgElement(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const plain = (value) => {
  if (value === null || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(4));
};

const CHART_COLOURS = ["stage-0", "starved", "stage-1", "synchronising", "stage-3", "back_pressured",
                       "stage-5", "host"];
const chartColour = (index) => `var(--${CHART_COLOURS[index % CHART_COLOURS.length]})`;

function makeChart(chart) {
  const W = 560, H = 260, left = 48, right = 12, top = 22, bottom = 38;
  const svg = svgElement("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": chart.title });
  const xs = chart.series.flatMap((s) => s.x), ys = chart.series.flatMap((s) => s.y).filter((y) => y !== null);
  if (xs.length === 0 || ys.length === 0) return svg;
  const least = (values) => values.reduce((a, b) => Math.min(a, b));
  const most = (values) => values.reduce((a, b) => Math.max(a, b));
  let [x0, x1, y0, y1] = [least(xs), most(xs), least(ys), most(ys)];
  if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
  if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
  const yStep = niceStep(y1 - y0, 5), xStep = niceStep(x1 - x0, 6);
  y0 = y0 >= 0 && y0 < 0.35 * y1 ? 0 : Math.floor(y0 / yStep) * yStep;
  y1 = Math.ceil(y1 / yStep - 1e-9) * yStep;
  const px = (x) => left + ((x - x0) / (x1 - x0)) * (W - left - right);
  const py = (y) => H - bottom - ((y - y0) / (y1 - y0)) * (H - top - bottom);

  for (let y = y0; y <= y1 + yStep / 2; y += yStep) {
    svg.append(svgElement("line", { class: "grid", x1: left, x2: W - right, y1: py(y), y2: py(y) }));
    svg.append(svgElement("text", { x: left - 8, y: py(y) + 4, "text-anchor": "end" }, plain(y)));
  }
  for (let x = Math.ceil(x0 / xStep) * xStep; x <= x1 + xStep * 1e-6; x += xStep) {
    svg.append(svgElement("text", { x: px(x), y: H - bottom + 18, "text-anchor": "middle" }, plain(x)));
  }
  svg.append(svgElement("text", { x: (left + W - right) / 2, y: H - 2, "text-anchor": "middle" }, chart.x));
  svg.append(svgElement("text", { x: 0, y: 10 }, chart.y));

  chart.series.forEach((series, index) => {
    let path = "", pen = "M";
    series.x.forEach((x, i) => {
      if (series.y[i] === null) { pen = "M"; return; }
      path += `${pen}${px(x).toFixed(1)} ${py(series.y[i]).toFixed(1)}`;
      pen = "L";
    });
    // The dashes tell the lines apart without colour.
    const dash = ["none", "7 4", "2 4"][index % 3];
    svg.append(svgElement("path", { d: path, stroke: chartColour(index), "stroke-dasharray": dash }));
    if (series.x.length > 20) return;
    series.x.forEach((x, i) => {
      if (series.y[i] === null) return;
      svg.append(svgElement("circle", { cx: px(x), cy: py(series.y[i]), r: 3.5, fill: chartColour(index) }));
    });
  });

  const cursor = svgElement("line", { class: "cursor", y1: top, y2: H - bottom, visibility: "hidden" });
  svg.append(cursor);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = x0 + ((((event.clientX - box.left) / box.width) * W - left) / (W - left - right)) * (x1 - x0);
    const nearest = xs.reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a));
    cursor.setAttribute("x1", px(nearest)); cursor.setAttribute("x2", px(nearest));
    cursor.setAttribute("visibility", "visible");
    const lines = chart.series.filter((s) => s.x.includes(nearest))
      .map((s) => `${s.name}: ${plain(s.y[s.x.indexOf(nearest)])}`);
    showTip(event, `${chart.x} ${plain(nearest)}`, lines.join("\n"));
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  return svg;
}
