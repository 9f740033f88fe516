// What is drawn: elements, lists that keep their elements, lines of traffic, the map. Texts go in as texts alone.
const SVG = "http://www.w3.org/2000/svg";

/** An element: make("a.chip", {href: "#/"}, "text", child). No member of `attributes` and no child is ever markup. */
export function make(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const e = tag === "svg" || tag === "path" ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) e.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") e.addEventListener(name, value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value != null) e.setAttribute(name, value);
  }
  e.append(...children.filter((c) => c != null && c !== false));
  return e;
}

export function set(e, text) {
  const said = String(text);
  if (e.textContent !== said) e.textContent = said;
}

export function attribute(e, name, value) {
  if (value == null || value === false) e.removeAttribute(name);
  else if (e.getAttribute(name) !== String(value)) e.setAttribute(name, value);
}

/** Children of `parent` for `items`, in their order; those that were there stay the same elements, focus and all. */
export function keyed(parent, items, key, create, update) {
  const old = parent.keyed || new Map();
  const now = new Map();
  let at = parent.firstChild;
  items.forEach((item, i) => {
    const k = key(item, i);
    let e = now.has(k) ? null : old.get(k);
    if (!e) e = create(item);
    now.set(k, e);
    update(e, item);
    if (e === at) at = at.nextSibling;
    else parent.insertBefore(e, at);
  });
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
  parent.keyed = now;
}

// --- numbers for people -------------------------------------------------------------------------------------------

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let i = 0;
  while (n >= 999.5 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  return `${i === 0 || n >= 99.5 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export const rate = (n) => `${bytes(n)}/s`;
export const perSecond = (n) => `${n === 0 ? "0" : n < 10 ? n.toFixed(1) : count(Math.round(n))} /s`;
export const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

export function since(ms, now = Date.now()) {
  if (!ms) return "";
  const s = Math.max(0, Math.round((now - ms) / 1000));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

// --- traffic --------------------------------------------------------------------------------------------------------

/** A line of the last values; `most`: how many fit. */
export function spark(className, label) {
  const area = make("path.area"), line = make("path.line");
  const svg = make(`svg.spark.${className}`, {viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": label}, area, line);
  svg.draw = (values, most) => {
    const top = Math.max(...values, 1);
    const points = values.map((v, i) => `${(100 - (values.length - 1 - i) * 100 / (most - 1)).toFixed(2)} ${(29 - 27 * v / top).toFixed(2)}`);
    if (!points.length) return;
    line.setAttribute("d", `M${points.join("L")}`);
    area.setAttribute("d", `M${points[0].split(" ")[0]} 30L${points.join("L")}L100 30Z`);
  };
  return svg;
}

// --- the map ----------------------------------------------------------------------------------------------------------

export const HEALTH = {
  good: "good", lags: "behind", bare: "no tunnel", down: "away", elsewhere: "at another replica", revoked: "revoked",
};
const ORDER = ["down", "lags", "bare", "good", "elsewhere", "revoked"];
const NAMED = 60; // nodes that have their names beside them
const TOGETHER = 4; // sites that are one group, in one row of a wide window
const NAMED_ILL = 8; // of a site, where the others are marks alone

export const nodePath = (name) => `#/node/${encodeURIComponent(name)}`;

function worst(health) {
  return ORDER.find((h) => h !== "revoked" && health[h] > 0) || "revoked";
}

function siteCard() {
  const name = make("a"), note = make("span"), body = make("div.dots"), bar = make("div.share"), ill = make("p.ill");
  const card = make("section.site", {}, make("header", {}, name, note), ill, body, bar);
  Object.assign(card, {name, note, body, bar, ill});
  return card;
}

const rank = (node) => ORDER.indexOf(node[2]);
const isIll = (health) => ["down", "lags", "bare"].includes(health);

/** Those in trouble first. Where there are too many for names the first of these have one, and the others are marks. */
function drawNodes(body, nodes, named) {
  const items = [...nodes].sort((a, b) => rank(a) - rank(b)).map((n, i) => ({n, named: named || (isIll(n[2]) && i < NAMED_ILL)}));
  keyed(body, items, (i) => i.n[0] + i.named, (i) => (i.named
    ? make("a.chip", {href: nodePath(i.n[0])}, make("i.dot"), make("b", {}, i.n[0]), make("span"))
    : make("a.mark", {href: nodePath(i.n[0])}, make("i.dot"))), (e, {n, named: long}) => {
    const said = `${n[0]}: ${HEALTH[n[2]]}${n[3] ? `, ${rate(n[3])}` : ""}`;
    attribute(e, "aria-label", said);
    attribute(e, "title", said);
    attribute(e.firstChild, "class", `dot ${n[2]}`);
    if (long) set(e.lastChild, n[2] === "good" ? (n[3] ? rate(n[3]) : "") : HEALTH[n[2]]);
  });
}

function drawShares(bar, site) {
  keyed(bar, ORDER.filter((h) => site.health[h] > 0), (h) => h, (h) => make(`i.${h}`), (e, h) => {
    e.style.width = `${100 * site.health[h] / site.nodes}%`;
    attribute(e, "title", `${HEALTH[h]}: ${count(site.health[h])}`);
  });
}

function updateSite(card, {site, nodes, named}) {
  const label = site.site || "nodes without a site";
  set(card.name, label);
  attribute(card.name, "href", `#/nodes?site=${encodeURIComponent(site.site)}`);
  attribute(card.name, "title", label);
  const well = site.health.good + site.health.elsewhere, all = site.nodes - site.health.revoked;
  set(card.note, `${count(well)} of ${count(all)}${site.in + site.out ? ` · ${rate(site.in + site.out)}` : ""}`);
  card.body.hidden = !nodes.length;
  card.bar.hidden = nodes.length > 0;
  drawNodes(card.body, nodes, named);
  drawShares(card.bar, site);
  card.health = worst(site.health);
  const ill = ORDER.filter((h) => isIll(h) && site.health[h] > 0).map((h) => `${count(site.health[h])} ${HEALTH[h]}`).join(", ");
  card.ill.hidden = !ill || named;
  set(card.ill, ill);
  attribute(card, "class", `site ${card.health}`);
  card.flows = site.in + site.out > 0;
}

/** Lines from the hub to each site, where all sites stand in one row below it: behind a row of cards nobody would see them. */
function drawLines(map, svg, hub, cards) {
  const frame = map.getBoundingClientRect(), from = hub.getBoundingClientRect();
  const x0 = from.left + from.width / 2 - frame.left, y0 = from.bottom - frame.top;
  const tops = cards.map((card) => card.getBoundingClientRect());
  const lines = [], oneRow = tops.every((t) => Math.abs(t.top - tops[0].top) < 1);
  map.classList.toggle("lined", oneRow);
  for (const card of oneRow ? cards : []) {
    const to = card.getBoundingClientRect(), x = to.left + to.width / 2 - frame.left, y = to.top - frame.top;
    const d = `M${x0.toFixed(1)} ${y0.toFixed(1)}C${x0.toFixed(1)} ${(y0 + 40).toFixed(1)} ${x.toFixed(1)} ${(y - 46).toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)}`;
    lines.push({d, classes: card.health, key: `${card.name.textContent}`});
    if (card.flows) lines.push({d, classes: `${card.health} flows`, key: `${card.name.textContent} flows`});
  }
  keyed(svg, lines, (l) => l.key, () => make("path"), (e, l) => {
    attribute(e, "d", l.d);
    attribute(e, "class", l.classes);
  });
}

/** Sites with trouble, the worst and largest first; where there are many those where all is well stand apart, below. */
function siteGroups(items) {
  const trouble = (i) => ORDER.filter(isIll).findIndex((h) => i.site.health[h] > 0);
  const place = (i) => (trouble(i) < 0 ? ORDER.length : trouble(i));
  items.sort((a, b) => place(a) - place(b) || b.site.health.down - a.site.health.down || b.site.nodes - a.site.nodes || (a.site.site < b.site.site ? -1 : 1));
  if (items.length <= TOGETHER) return [{key: "all", title: "", items}];
  const ill = items.filter((i) => trouble(i) >= 0), well = items.filter((i) => trouble(i) < 0);
  return [{key: "ill", title: `Sites with trouble: ${count(ill.length)}`, items: ill}, {key: "well", title: `Sites where all is well: ${count(well.length)}`, items: well}].filter((g) => g.items.length);
}

export function map() {
  const svg = make("svg", {"aria-hidden": "true"}), hubs = make("div.hubs"), sites = make("div.groups");
  const legend = make("p.legend", {}, ...["good", "lags", "bare", "down", "elsewhere"].map((h) => make("span", {}, make(`i.dot.${h}`), HEALTH[h])));
  const beyond = make("p.soft", {hidden: true});
  const root = make("div", {}, make("div.map", {}, svg, hubs, sites), beyond, legend);
  const frame = root.firstChild;
  const lines = () => {
    const own = hubs.querySelector(".own");
    if (own) drawLines(frame, svg, own, [...sites.querySelectorAll(".site")]);
  };
  root.update = (top, data) => {
    const others = top.peers.filter((p) => p.state !== "itself" && p.state !== "twin");
    keyed(hubs, [null, ...others], (p) => (p ? `${p.peer} ${p.address}` : "own"), (p) => make(p ? "div.hub.peer" : "div.hub.own", {}, make("span"), make("small")), (e, p) => {
      set(e.firstChild, p ? p.peer || p.address : "this hub");
      set(e.lastChild, p ? (p.state === "open" ? `replica, ${count(p.nodes)} nodes` : `replica: ${p.state}`)
        : `${count(top.tunnels)} tunnel${top.tunnels === 1 ? "" : "s"}, ${count(top.streams)} stream${top.streams === 1 ? "" : "s"}`);
      e.classList.toggle("away", !!p && p.state !== "open");
    });
    const named = data.drawn.length <= NAMED, of = data.sites.map((site) => ({site, named, nodes: []}));
    data.drawn.forEach((n) => n[1] >= 0 && of[n[1]].nodes.push(n));
    const groups = siteGroups(of);
    keyed(sites, groups, (g) => g.key, () => make("div.group", {}, make("h3"), make("div.sites")), (e, g) => {
      set(e.firstChild, g.title);
      e.classList.toggle("many", of.length > TOGETHER);
      e.firstChild.hidden = !g.title;
      keyed(e.lastChild, g.items, (i) => i.site.site, siteCard, updateSite);
    });
    beyond.hidden = !data.beyond;
    set(beyond, `${count(data.beyond)} nodes of more sites than are drawn here: see the list of nodes.`);
    lines();
  };
  new ResizeObserver(lines).observe(frame);
  return root;
}
