// A timeline on a canvas: one lane a device with its name above, work at full height, waits hatched
// and lower.

const AXIS = 24, LANE = 58, NAME = 18, BAR = 32, WAIT = 20, STAGE_COLOURS = 8;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const CAUSES = ["starved", "back_pressured", "synchronising", "host", "startup", "tail", "unknown"];
const words = (name) => name.replaceAll("_", "-");
const causeName = (name) => (CAUSES.includes(name) ? "--" + name : "--unknown");

function duration(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [size, unit] = units.find(([size]) => Math.abs(ns) >= size) || units[3];
  const value = ns / size;
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${unit}`;
}

// The time at a tick, with as many digits as ticks `gap` apart need.
function tickText(ns, gap) {
  const [size, unit] = gap >= 1e8 ? [1e9, "s"] : gap >= 1e5 ? [1e6, "ms"] : [1e3, "µs"];
  return `${(ns / size).toFixed(Math.max(0, -Math.floor(Math.log10(gap / size) + 1e-9)))} ${unit}`;
}

// 1, 2 or 5 times a power of ten, so that `count` or fewer ticks fit into `range`.
function niceStep(range, count) {
  const raw = range / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw * 0.999);
}

function showTip(event, title, text) {
  const tip = document.getElementById("tip");
  const head = document.createElement("b");
  head.textContent = title;
  tip.replaceChildren(head, text);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  const below = event.clientY + 18;
  tip.style.top = (below + box.height > innerHeight ? event.clientY - box.height - 12 : below) + "px";
}
const hideTip = () => { document.getElementById("tip").hidden = true; };

// Unpacks the columns into one list a device, sorted by start, with `reach`: the latest end so far,
// by which the first visible span is found although spans may overlap.
function unpack(data) {
  const lanes = data.devices.map(() => ({ start: [], end: [], reach: [], look: [], index: [] }));
  let now = 0;
  data.start.forEach((difference, i) => {
    now += difference;
    const lane = lanes[data.device[i]], end = now + data.duration[i];
    lane.reach.push(Math.max(end, lane.reach.length ? lane.reach[lane.reach.length - 1] : 0));
    lane.start.push(now); lane.end.push(end); lane.look.push(data.look[i]); lane.index.push(i);
  });
  return lanes;
}

// First i with values[i] > limit, in an ascending list.
function upper(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

// `span` (ns) is how much time is shown at first, centred on the data's steady steps.
function makeTimeline(data, canvas, span) {
  const lanes = unpack(data), context = canvas.getContext("2d"), total = Math.max(1, data.whole[1]);
  let view = { from: 0, to: total }, paint = [], width = 0;
  const height = AXIS + lanes.length * LANE;

  function readColours() {
    let stage = 0;
    paint = data.looks.map((look) => {
      const slot = look.wait ? 0 : stage++ % STAGE_COLOURS;
      return look.wait ? { wait: true, fill: colour(causeName(look.name)) }
                       : { fill: colour(`--stage-${slot}`), text: colour(`--on-${slot}`) };
    });
  }

  function clamp(from, length) {
    const shown = Math.min(Math.max(length, 100), total);
    const start = Math.max(0, Math.min(from, total - shown));
    view = { from: start, to: start + shown };
    draw();
  }
  const steady = () => clamp((data.view[0] + data.view[1] - span) / 2, span);
  const whole = () => clamp(0, total);
  const zoom = (factor, at) => {
    const length = view.to - view.from;
    clamp(at - (at - view.from) * factor, length * factor);
  };

  const toX = (ns) => ((ns - view.from) / (view.to - view.from)) * width;
  const toTime = (x) => view.from + (x / width) * (view.to - view.from);

  function hatch(x, y, w, h) {
    context.save();
    context.beginPath(); context.rect(x, y, w, h); context.clip();
    context.strokeStyle = colour("--hatch"); context.lineWidth = 2; context.beginPath();
    for (let i = Math.floor((x - h) / 6) * 6; i < x + w; i += 6) {
      context.moveTo(i, y + h); context.lineTo(i + h, y);
    }
    context.stroke(); context.restore();
  }

  // Spans much finer than a pixel: each column shows the shares of time in it, stacked.
  function drawColumns(lane, first, last, top) {
    const columns = Array.from({ length: Math.ceil(width) }, () => new Float32Array(paint.length));
    const pixel = (view.to - view.from) / width;
    for (let i = first; i < last; ++i) {
      const a = Math.max(lane.start[i], view.from), b = Math.min(lane.end[i], view.to);
      for (let c = Math.floor(toX(a)); c <= toX(b) && c < columns.length; ++c) {
        const from = view.from + c * pixel;
        columns[c][lane.look[i]] += Math.max(0, Math.min(b, from + pixel) - Math.max(a, from)) / pixel;
      }
    }
    columns.forEach((shares, c) => {
      let y = top + NAME + BAR;
      shares.forEach((share, look) => {
        if (share === 0) return;
        const part = share * BAR;
        context.fillStyle = paint[look].fill;
        context.fillRect(c, y - part, 1, part);
        y -= part;
      });
    });
  }

  function drawSpan(lane, i, top) {
    const x = Math.max(toX(lane.start[i]), -1), end = Math.min(toX(lane.end[i]), width + 1);
    const style = paint[lane.look[i]], w = Math.max(end - x - (end - x > 3 ? 1 : 0), 0.6);
    const h = style.wait ? WAIT : BAR, y = top + NAME + BAR - h;
    context.fillStyle = style.fill;
    context.fillRect(x, y, w, h);
    if (style.wait) { if (w > 4) hatch(x, y, w, h); return; }
    const name = words(data.looks[lane.look[i]].name), long = `${name} ${data.step[lane.index[i]]}`;
    const text = context.measureText(long).width + 10 < w ? long : name;
    if (w < 24 || context.measureText(text).width + 10 > w) return;
    context.fillStyle = style.text;
    context.fillText(text, x + 6, y + h / 2 + 0.5);
  }

  function draw() {
    const ratio = devicePixelRatio || 1;
    width = canvas.clientWidth;
    if (width === 0) return;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    const gap = niceStep(view.to - view.from, width / 110);
    lanes.forEach((lane, d) => {
      context.fillStyle = colour("--lane");
      context.fillRect(0, AXIS + d * LANE + NAME, width, BAR);
    });
    for (let t = Math.ceil(view.from / gap) * gap; t <= view.to; t += gap) {
      const x = Math.round(toX(t)) + 0.5;
      context.fillStyle = colour("--line"); context.fillRect(x, AXIS - 6, 1, height);
      context.fillStyle = colour("--soft");
      context.textAlign = x < 24 ? "left" : x > width - 24 ? "right" : "center";
      context.fillText(tickText(t, gap), x < 24 ? 0 : x > width - 24 ? width : x, 8);
    }
    context.textAlign = "left";
    lanes.forEach((lane, d) => {
      const top = AXIS + d * LANE;
      const name = context.measureText(data.devices[d]).width;
      context.fillStyle = colour("--panel"); context.fillRect(0, top, name + 8, NAME - 1);
      context.fillStyle = colour("--ink"); context.fillText(data.devices[d], 0, top + NAME / 2 + 1);
      const first = upper(lane.reach, view.from), last = upper(lane.start, view.to);
      if (last - first > width) drawColumns(lane, first, last, top);
      else for (let i = first; i < last; ++i) drawSpan(lane, i, top);
    });
  }

  function spanAt(event) {
    const box = canvas.getBoundingClientRect(), time = toTime(event.clientX - box.left);
    const lane = lanes[Math.floor((event.clientY - box.top - AXIS) / LANE)];
    if (!lane) return null;
    const slack = (2 * (view.to - view.from)) / width;  // narrow spans can be hit too
    for (let i = upper(lane.start, time + slack) - 1; i >= 0 && lane.reach[i] >= time - slack; --i) {
      if (lane.end[i] >= time - slack) return { lane, i };
    }
    return null;
  }

  function hover(event) {
    const hit = spanAt(event);
    if (!hit) return hideTip();
    const { lane, i } = hit, k = lane.index[i], look = data.looks[lane.look[i]];
    const lines = [data.devices[data.device[k]], `step ${data.step[k]}`];
    if (!look.wait) lines.push(`replica ${data.replica[k]}`);
    const channel = data.channels[data.channel[k]];
    if (channel) lines.push(`channel ${channel}`);
    const length = lane.end[i] - lane.start[i], fine = 10 ** Math.floor(Math.log10(Math.max(length, 10)) - 1);
    const when = `from ${tickText(lane.start[i], fine)} to ${tickText(lane.end[i], fine)}`;
    showTip(event, `${look.wait ? "idle: " : ""}${words(look.name)}, ${duration(length)}`,
            `${lines.join(" · ")}\n${when}`);
  }

  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    grip = { x: event.clientX, from: view.from };
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging"); hideTip();
  });
  const release = () => { grip = null; canvas.classList.remove("dragging"); };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("pointermove", (event) => {
    if (!grip) return hover(event);
    const length = view.to - view.from;
    clamp(grip.from - ((event.clientX - grip.x) / width) * length, length);
  });
  canvas.addEventListener("wheel", (event) => {
    const length = view.to - view.from, across = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!across && event.deltaY > 0 && length >= total) return;  // all is shown: the page scrolls on
    event.preventDefault(); hideTip();
    if (across) clamp(view.from + (event.deltaX / width) * length, length);
    else zoom(1.0015 ** event.deltaY, toTime(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const length = view.to - view.from, middle = (view.from + view.to) / 2;
    const keys = {
      ArrowLeft: () => clamp(view.from - length / 8, length), ArrowRight: () => clamp(view.from + length / 8, length),
      "+": () => zoom(0.7, middle), "-": () => zoom(1 / 0.7, middle), Home: steady, End: whole,
    };
    if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
  });

  readColours();
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  steady();
  return { steady, whole, zoomIn: () => zoom(0.6, (view.from + view.to) / 2),
           zoomOut: () => zoom(1 / 0.6, (view.from + view.to) / 2) };
}
