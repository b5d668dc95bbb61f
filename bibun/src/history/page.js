"use strict";
// All data about the picture is in its elements; this script moves, folds and plays it.
const root = document.documentElement;
addEventListener("error", event => { root.dataset.error = event.message; });

(() => {
const svg = document.querySelector("svg");
const scene = document.getElementById("scene");
const about = document.getElementById("about");
// The steps of a program run forward and not back.
const isProgram = svg.classList.contains("program");
const status = document.getElementById("status");
const button = id => document.getElementById(id);

// ----- elements

const numbers = (element, ...names) => names.map(name => Number(element.dataset[name]));

const links = [...document.querySelectorAll(".link")].map(element => {
  const [left, top, right, bottom] = numbers(element, "left", "top", "right", "bottom");
  const { path, count, about, note, anchor, link, folded } = element.dataset;
  return {
    element, path, left, top, right, bottom, anchor, parent: link, folded: folded === "true", about,
    size: note ?? (count === "1" ? "1 function" : `${count} functions`),
  };
});
const linkOf = new Map(links.map(link => [link.element.id, link]));

const vertices = [...document.querySelectorAll(".vertex")].map(element => {
  const [x, y, width, height, generation] =
    numbers(element, "x", "y", "width", "height", "generation");
  const shape = element.querySelector(".shape");
  return {
    element, x, y, width, height, generation, parent: element.dataset.link,
    isFunction: !element.classList.contains("datum"),
    isConstant: element.classList.contains("constant"),
    isOutput: element.classList.contains("output"),
    caption: shape, shape: shape?.textContent,
    about: element.getAttribute("aria-label"),
    inputs: [], outputs: [],
  };
});
const vertexOf = new Map(vertices.map(vertex => [vertex.element.id, vertex]));

const edges = [...document.querySelectorAll(".edge")].map(element => {
  const from = vertexOf.get(element.dataset.from);
  const to = vertexOf.get(element.dataset.to);
  const points = element.dataset.points.split(" ").map(point => {
    const [x, y] = point.split(",").map(Number);
    return { x, y };
  });
  from.outputs.push(to);
  to.inputs.push(from);
  return { element, from, to, points };
});

// The outermost folded link around an element.
function fold(thing) {
  let found = null;
  for (let link = linkOf.get(thing.parent); link; link = linkOf.get(link.parent)) {
    if (link.folded) found = link;
  }
  return found;
}

// ----- places: folding leaves empty rows and columns, which are squeezed out

const SIGN = 7.4, PADDING = 14, HEADER = 30, BOX = 46;

function box(link) {
  const needed = SIGN * Math.max(Math.min(link.path.length, 34) + 2, link.size.length, 14) + 24;
  const width = Math.min(link.right - link.left, needed);
  const x = (link.left + link.right) / 2, y = (link.top + link.bottom) / 2;
  const height = Math.min(link.bottom - link.top, BOX);
  return { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
}

// Returns a function that moves coordinates together until no gap between intervals is wider than `most`.
function squeeze(intervals, most) {
  intervals.sort((a, b) => a[0] - b[0]);
  const gaps = [];
  let end = 0, removed = 0;
  for (const [from, to] of intervals) {
    const spare = from - end - (gaps.length || end ? most : 20);
    if (spare > 0) {
      gaps.push({ from: end, to: from, before: removed, spare });
      removed += spare;
    }
    end = Math.max(end, to);
  }
  return place => {
    let low = 0, high = gaps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (gaps[middle].from < place) low = middle + 1; else high = middle;
    }
    if (!low) return place;
    const { from, to, before, spare } = gaps[low - 1];
    const part = Math.min(1, (place - from) / (to - from));
    return place - before - spare * part;
  };
}

const near = (a, b) => Math.abs(a - b) < 0.25;

// The edges without their parts inside folded links; `null` for edges that are hidden altogether.
function visibleLines() {
  // The points where edges pass the upper and the lower side of a folded link, and the ends to move there.
  const doors = new Map();
  const cut = (points, link, side) => {
    const inside = ({ y }) => side === "top" ? y > link.top + 0.25 : y < link.bottom - 0.25;
    while (points.length > 1 && inside(points[0])) points.shift();
    const x = points[0].x;
    const end = points.findIndex(point => !near(point.x, x));
    const upright = points.slice(0, end < 0 ? points.length : end);
    upright.unshift({ x, y: box(link)[side] });
    points.unshift(upright[0]);
    const key = `${link.element.id} ${side}`;
    if (!doors.has(key)) doors.set(key, { link, uprights: [] });
    doors.get(key).uprights.push({ x, upright });
  };
  const lines = edges.map(edge => {
    const from = fold(edge.from), to = fold(edge.to);
    if (from && from === to) return null;
    const points = edge.points.map(point => ({ ...point }));
    if (from) cut(points, from, "bottom");
    if (to) {
      points.reverse();
      cut(points, to, "top");
      points.reverse();
    }
    return points;
  });
  // Spread them along the box, which is smaller than the frame was.
  for (const { link, uprights } of doors.values()) {
    uprights.sort((a, b) => a.x - b.x);
    const places = uprights.map(({ x }, i) => i === 0 || !near(x, uprights[i - 1].x) ? 1 : 0);
    const count = places.reduce((a, b) => a + b);
    const { left, right } = box(link);
    let place = 0;
    uprights.forEach(({ upright }, i) => {
      place += places[i];
      for (const point of upright) point.x = left + (right - left) * place / (count + 1);
    });
  }
  return lines;
}

// A line through the points that is vertical at each of them.
function curve(points) {
  let path = `M${points[0].x} ${points[0].y}`;
  for (let i = 1; i < points.length; i++) {
    const { x: a, y: b } = points[i - 1], { x, y } = points[i];
    const middle = (b + y) / 2;
    path += a === x ? `V${y}` : `C${a} ${middle} ${x} ${middle} ${x} ${y}`;
  }
  return path;
}

let extent = { width: 1, height: 1 };

function arrange() {
  const across = [], down = [];
  const shown = vertices.filter(vertex => !fold(vertex));
  for (const { x, y, width, height } of shown) {
    across.push([x - width / 2, x + width / 2]);
    down.push([y - height / 2, y + height / 2]);
  }
  for (const link of links.filter(link => !fold(link))) {
    const { left, right, top, bottom } = link;
    if (link.folded) {
      const place = box(link);
      across.push([place.left, place.right]);
      down.push([place.top, place.bottom]);
    } else {
      across.push([left, left + PADDING], [right - PADDING, right]);
      down.push([top, top + HEADER], [bottom - PADDING, bottom]);
    }
  }
  const lines = visibleLines();
  for (const points of lines) {
    for (const { x } of points ?? []) across.push([x - 8, x + 8]);
    // Bends need their height.
    for (let i = 1; i < points?.length; i++) {
      if (points[i].x !== points[i - 1].x) down.push([points[i - 1].y, points[i].y]);
    }
  }
  // Unfolded, everything stays in its original position.
  const isWhole = !links.some(link => link.folded);
  const stay = place => place;
  const toX = isWhole ? stay : squeeze(across, 40), toY = isWhole ? stay : squeeze(down, 40);

  vertices.forEach(vertex => vertex.element.classList.toggle("away", !!fold(vertex)));
  for (const { element, x, y } of shown) {
    element.setAttribute("transform", `translate(${toX(x)} ${toY(y)})`);
  }
  for (const link of links) {
    const { element, folded, path, size } = link;
    element.classList.toggle("away", !!fold(link));
    element.classList.toggle("folded", folded);
    element.setAttribute("aria-expanded", String(!folded));
    const { left, right, top, bottom } = folded ? box(link) : link;
    const [x, y] = [toX(left), toY(top)];
    const [width, height] = [toX(right) - x, toY(bottom) - y];
    const [rect, text] = element.children;
    for (const [name, value] of Object.entries({ x, y, width, height })) {
      rect.setAttribute(name, value);
    }
    link.label ??= text.textContent;
    const rows = folded ? [`▸ ${link.label}`, size] : [`▾ ${link.label}`];
    text.style.textAnchor = folded ? "middle" : link.anchor;
    const side = link.anchor === "end" ? x + width - PADDING : x + PADDING;
    text.replaceChildren(...rows.map((row, i) => {
      const span = document.createElementNS(text.namespaceURI, "tspan");
      span.textContent = row;
      span.setAttribute("x", folded ? x + width / 2 : side);
      span.setAttribute("y", folded ? y + height / 2 + (i - .5) * 16 : y + PADDING);
      return span;
    }));
    element.setAttribute("aria-label", `${path}, ${size}`);
  }
  edges.forEach(({ element }, i) => {
    const points = lines[i]?.map(({ x, y }) => ({ x: toX(x), y: toY(y) }));
    element.classList.toggle("away", !points);
    if (points) element.setAttribute("d", curve(points));
  });
  const reach = (intervals, map) => map(intervals.reduce((far, [, to]) => Math.max(far, to), 0));
  const top = shown.reduce((top, vertex) => !top || vertex.y < top.y ? vertex : top, null);
  extent = { width: reach(across, toX) + 20, height: reach(down, toY) + 20, top: top && toX(top.x) };
}

function setFolded(changed, folded) {
  changed.forEach(link => { link.folded = folded; });
  arrange();
  showMoment();
}

// ----- view: zoom and move

const view = { scale: 1, x: 0, y: 0 };
// Unless the whole picture is requested, a large one shows its beginning at this scale.
const READABLE = 0.7;

function look() {
  scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
}

function zoom(factor, x = svg.clientWidth / 2, y = svg.clientHeight / 2) {
  const scale = Math.min(4, Math.max(0.03, view.scale * factor));
  view.x = x - (x - view.x) * scale / view.scale;
  view.y = y - (y - view.y) * scale / view.scale;
  view.scale = scale;
  look();
}

function fit(least = 0) {
  const { clientWidth: width, clientHeight: height } = svg;
  const scale = Math.min(1.3, width / extent.width, height / extent.height);
  view.scale = Math.max(scale, least);
  view.x = (width - extent.width * view.scale) / 2;
  // Of a picture that is wider, the top is in sight.
  if (view.x < 0 && extent.top != null) {
    view.x = Math.min(0, Math.max(2 * view.x, width / 2 - extent.top * view.scale));
  }
  view.y = Math.max(0, (height - extent.height * view.scale) / 2);
  look();
}

svg.addEventListener("wheel", event => {
  event.preventDefault();
  const { left, top } = svg.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY / 500), event.clientX - left, event.clientY - top);
}, { passive: false });

let drag = null;
svg.addEventListener("pointerdown", event => {
  drag = { x: event.clientX, y: event.clientY, moved: false };
});
addEventListener("pointermove", event => {
  if (!drag) return;
  const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  view.x += dx;
  view.y += dy;
  drag = { x: event.clientX, y: event.clientY, moved: true };
  svg.classList.add("held");
  look();
});
addEventListener("pointerup", event => {
  const link = event.target.closest?.(".link");
  if (drag && !drag.moved && link && (link.classList.contains("folded") || event.target.closest("text"))) {
    const { folded } = linkOf.get(link.id);
    setFolded([linkOf.get(link.id)], !folded);
  }
  drag = null;
  svg.classList.remove("held");
});

// ----- information about the element under the pointer

function tell(element) {
  const thing = vertexOf.get(element?.id) ?? linkOf.get(element?.id);
  about.hidden = !thing;
  if (!thing) return;
  const list = document.createElement("dl");
  for (const line of thing.about.split("\n")) {
    const [what, ...rest] = line.split(": ");
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = what;
    text.textContent = rest.join(": ");
    list.append(term, text);
  }
  about.replaceChildren(list);
}

const target = event => event.target.closest?.(".vertex, .link");
svg.addEventListener("pointerover", event => tell(target(event) ?? document.activeElement));
svg.addEventListener("pointerleave", () => tell(document.activeElement));
svg.addEventListener("focusin", event => tell(target(event)));
svg.addEventListener("focusout", () => tell(null));

// ----- playing: moments 1 to n are the generations going forward, n + 1 to 2n those going back

const functions = vertices.filter(vertex => vertex.isFunction);
const generations = [...new Set(functions.map(vertex => vertex.generation))].sort((a, b) => a - b);
const last = generations.length;
const slider = button("moment");
const end = isProgram ? last : 2 * last;
slider.max = end;
let moment = 0;
let timer = null;

// The state of a vertex at this moment: "ahead", "done", "now", or nothing.
function state(vertex) {
  if (moment === 0) return "";
  if (moment <= last) {
    const at = generations[moment - 1];
    if (vertex.generation > at) return "ahead";
    return vertex.generation === at ? "now" : "done";
  }
  const at = generations[2 * last - moment];
  if (vertex.isFunction) {
    if (vertex.generation < at) return "ahead";
    return vertex.generation === at ? "now" : "done";
  }
  if (vertex.isConstant) return "ahead";
  const users = vertex.outputs.map(user => user.generation);
  if (users.includes(at) || (vertex.isOutput && moment === last + 1)) return "now";
  return vertex.isOutput || users.some(user => user > at) ? "done" : "ahead";
}

// A folded link is busy as long as one of its functions is.
function linkState(link) {
  const inside = functions.filter(vertex => {
    for (let at = linkOf.get(vertex.parent); at; at = linkOf.get(at.parent)) {
      if (at === link) return true;
    }
    return false;
  });
  const states = new Set(inside.map(state));
  if (states.has("now") || (states.has("done") && states.has("ahead"))) return "now";
  return [...states][0] ?? "";
}

function mark(element, phase, state) {
  element.classList.remove("forward", "backward", "ahead", "done", "now");
  if (state) element.classList.add(state);
  if (state && state !== "ahead") element.classList.add(phase);
}

function showMoment() {
  const phase = moment === 0 ? "idle" : moment <= last ? "forward" : "backward";
  root.dataset.phase = phase;
  root.dataset.moment = moment;
  slider.value = moment;
  for (const vertex of vertices) {
    const at = state(vertex);
    mark(vertex.element, phase, at);
    const { value, gradient } = vertex.element.dataset;
    if (!vertex.caption) continue;
    const seen = at === "now" || at === "done";
    const text = phase === "forward" ? value : gradient && `∇ ${gradient}`;
    vertex.caption.textContent = seen && text ? text : vertex.shape;
  }
  for (const link of links) mark(link.element, phase, link.folded ? linkState(link) : "");
  for (const { element, from, to } of edges) {
    const call = from.isFunction ? from : to;
    let at = state(call);
    // No gradient goes to constants, and none comes from unused results.
    const datum = from.isFunction ? to : from;
    if (phase === "backward" && state(datum) === "ahead") at = "ahead";
    mark(element, phase, at);
  }
  const busy = functions.filter(vertex => state(vertex) === "now");
  const names = busy.slice(0, 4).map(({ element }) => element.querySelector("text").textContent);
  if (busy.length > 4) names.push(`${busy.length - 4} more`);
  const step = phase === "forward" ? moment : moment - last;
  status.textContent = phase === "idle"
    ? isProgram
      ? "Blue: passes over memory, which a click opens. Violet: calls. Point at anything to learn about it."
      : "Data above, results below. Point at anything to learn about it."
    : `${isProgram ? "step" : phase} ${step} of ${last}: ${names.join(", ")}`;
}

// Moves the current elements into view.
function follow() {
  const busy = functions.find(vertex => state(vertex) === "now");
  if (!busy) return;
  const place = (fold(busy) ?? busy).element.getBoundingClientRect();
  const sight = svg.getBoundingClientRect();
  const inside = place.left > sight.left && place.right < sight.right
    && place.top > sight.top + 40 && place.bottom < sight.bottom - 60;
  if (inside) return;
  view.x += (sight.left + sight.right - place.left - place.right) / 2;
  view.y += (sight.top + sight.bottom - place.top - place.bottom) / 2;
  look();
}

function go(to) {
  moment = Math.min(end, Math.max(0, to));
  showMoment();
  follow();
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => moment < end ? go(moment + 1) : play(false), 900) : null;
  button("play").textContent = on ? "Pause" : "Play";
  button("play").setAttribute("aria-pressed", String(on));
}

const actions = {
  reset() { play(false); go(0); },
  // After the last generation, and during the way back, data starts again.
  forward() { play(false); go(moment < last ? moment + 1 : 1); },
  // Gradients start after all data has passed, so the rest of the data passes first.
  backward() { play(false); go(isProgram ? moment - 1 : moment < last ? last + 1 : moment + 1); },
  play() {
    const on = timer === null;
    if (on) go(moment < end ? moment + 1 : 1);
    play(on);
  },
  "fold-all"() { setFolded(links, true); fit(READABLE); },
  "unfold-all"() { setFolded(links, false); fit(READABLE); },
  "zoom-in"() { zoom(1.25); },
  "zoom-out"() { zoom(1 / 1.25); },
  fit() { fit(); },
  theme() { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; },
};
for (const [id, action] of Object.entries(actions)) button(id).addEventListener("click", action);
slider.addEventListener("input", () => { play(false); go(Number(slider.value)); });
button("folding").hidden = !links.length;
if (isProgram) {
  // Back is to the step before.
  button("backward").textContent = "↑ Back";
  button("backward").title = "The step before (←)";
  button("forward").textContent = "↓ Next";
  button("forward").title = "The next step (→)";
  document.getElementById("keys").textContent = document.getElementById("keys").textContent
    .replace("→ forward · ← backward", "→ next · ← back");
}
if (!last) for (const id of ["reset", "backward", "forward", "play", "moment"]) button(id).disabled = true;

// ----- keys

const keys = {
  ArrowRight: "forward", ArrowLeft: "backward", Home: "reset", " ": "play",
  "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", 0: "fit",
};
const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === slider) return;
  const link = linkOf.get(event.target.id);
  const presses = event.key === " " || event.key === "Enter";
  if (event.target.tagName === "BUTTON" && presses) return;
  if (link && presses) {
    setFolded([link], !link.folded);
    link.element.focus();
  } else if (event.shiftKey && moves[event.key]) {
    view.x += moves[event.key][0];
    view.y += moves[event.key][1];
    look();
  } else if (keys[event.key] && !button(keys[event.key]).disabled) {
    actions[keys[event.key]]();
  } else {
    return;
  }
  event.preventDefault();
});

// ----- start

for (const name of ["width", "height", "viewBox"]) svg.removeAttribute(name);
const arrow = document.getElementById("arrow");
for (const phase of ["forward", "backward"]) {
  const copy = arrow.cloneNode(true);
  copy.id = `arrow-${phase}`;
  arrow.after(copy);
}
for (const { element } of links) {
  element.setAttribute("tabindex", "0");
  element.setAttribute("role", "button");
}
vertices.forEach(({ element }) => element.setAttribute("role", "img"));
root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
arrange();
showMoment();
fit(READABLE);

// Commands in the address: #fold=layers/0,forward=3,about=f2
const commands = {
  fold(path) { setFolded(links.filter(link => link.path === path), true); fit(READABLE); },
  unfold(path) { setFolded(links.filter(link => link.path === path), false); fit(READABLE); },
  theme(name) { root.dataset.theme = name; },
  about(id) { document.getElementById(id).focus(); },
  wheel(delta) { svg.dispatchEvent(new WheelEvent("wheel", { deltaY: Number(delta), clientX: 400, clientY: 300 })); },
  key(name) { document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true })); },
};
for (const command of decodeURIComponent(location.hash.slice(1)).split(",").filter(Boolean)) {
  const [name, value] = command.split("=");
  if (commands[name]) commands[name](value);
  else for (let i = 0; i < Number(value ?? 1); i++) button(name).click();
}
root.dataset.ready = "true";
})();
