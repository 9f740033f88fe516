// The page of an Edgeway hub: what it says over the websocket, shown as it changes. Read-only.
import {HEALTH, attribute, bytes, count, keyed, make, map, nodePath, rate, set, since, spark} from "./draw.js";

const HISTORY = 120, EVENTS = 500, PAGE = 50;
const main = document.getElementById("main"), foot = document.getElementById("foot");
const state = {top: null, data: {}, events: [], live: false, told: 0, history: [], node: {name: "", history: []}};
let route = {view: "overview", name: "", want: {}}, shown = null;

// --- where we are: the part of the address behind # ------------------------------------------------------------------

function readRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  let name = "";
  try {
    name = rest.map(decodeURIComponent).join("/");
  } catch { /* somebody typed it */ }
  const known = ["nodes", "services", "events", "node", "service"].includes(view);
  return {view: known ? view : "overview", name, want: Object.fromEntries(new URLSearchParams(query || ""))};
}

function writeRoute(changes) {
  const want = new URLSearchParams();
  for (const [k, v] of Object.entries({...route.want, ...changes}))
    if (v !== "" && v != null && v !== false && v !== 0) want.set(k, v === true ? "1" : v);
  const path = route.name ? `${route.view}/${route.name.split("/").map(encodeURIComponent).join("/")}` : route.view;
  history.replaceState(null, "", `#/${path}${want.size ? `?${want}` : ""}`);
  onRoute();
}

function onRoute() {
  const before = route;
  route = readRoute();
  const same = shown && before.view === route.view && before.name === route.name;
  for (const a of document.querySelectorAll("nav a"))
    attribute(a, "aria-current", a.dataset.view === route.view || a.dataset.view === `${route.view}s` ? "page" : null);
  if (!same) {
    state.data = {};
    shown = views[route.view]();
    main.replaceChildren(shown.root);
    document.title = route.name ? `${route.name} – Edgeway` : "Edgeway";
    window.scrollTo(0, 0);
    if (before !== route && document.activeElement && document.activeElement.closest("nav, main")) main.focus({preventScroll: true});
  }
  ask();
  update();
}

const service = (key) => `#/service/${key.split("/").map(encodeURIComponent).join("/")}`;

// --- the link: lines of JSON in binary frames, both ways --------------------------------------------------------------

let socket = null, wait = 0, timer = 0, nextTry = 0;
const linkText = document.getElementById("link"), banner = document.getElementById("banner");

function ask() {
  if (!socket || socket.readyState !== WebSocket.OPEN) return;
  const want = new URLSearchParams({view: route.view, ...route.want});
  if (route.name) want.set("name", route.name);
  socket.send(new TextEncoder().encode(`${want}\n`));
}

function take(message) {
  if (message.t === "top") {
    state.top = message;
  } else if (message.t === "events") {
    state.events = [...message.rows.reverse(), ...state.events].slice(0, EVENTS);
  } else if (message.t === route.view && (message.name ?? "") === route.name) {
    state.data = message;
  }
}

function connect() {
  clearTimeout(timer);
  const decoder = new TextDecoder();
  let text = "";
  const mine = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`);
  socket = mine;
  mine.binaryType = "arraybuffer";
  mine.onopen = () => {
    state.events = []; // all that are kept come again
    ask();
  };
  mine.onmessage = (m) => {
    const lines = (text + decoder.decode(m.data, {stream: true})).split("\n");
    text = lines.pop();
    if (!lines.length) return;
    lines.forEach((line) => take(JSON.parse(line)));
    state.told = Date.now();
    state.live = true;
    wait = 0;
    showLink();
    update();
  };
  mine.onclose = () => {
    if (socket !== mine) return;
    socket = null;
    state.live = false;
    wait = Math.min(wait ? wait * 2 : 1000, 30000);
    nextTry = Date.now() + wait * (0.75 + Math.random() / 2);
    timer = setTimeout(connect, nextTry - Date.now());
    showLink();
    askWhy();
  };
}

/** A browser does not tell scripts why a websocket was refused; an ordinary request does. */
let refused = "";
async function askWhy() {
  refused = "";
  try {
    const answer = await fetch("/icon.svg", {method: "HEAD", cache: "no-store"});
    if (answer.status === 401 || answer.status === 403) refused = "You are not let in any more: load the page again to sign in.";
    else if (answer.ok) refused = "The hub answers, but gives no live data: perhaps as many look as it lets (web.viewers).";
  } catch { /* it is away */ }
  showLink();
}

function showLink() {
  attribute(linkText, "class", `link ${state.live ? "live" : state.told ? "lost" : ""}`);
  set(linkText.lastChild, state.live ? "live" : state.told || wait ? "lost" : "connecting");
  document.body.classList.toggle("stale", !state.live && state.told > 0);
  banner.hidden = state.live || !wait;
  if (banner.hidden) return;
  const seconds = Math.max(0, Math.ceil((nextTry - Date.now()) / 1000));
  const of = state.told ? ` What you see is of ${new Date(state.told).toLocaleTimeString()}.` : "";
  set(banner.firstChild, `${refused || "The link to the hub is lost."}${of} ${socket ? "Trying again…" : `Trying again in ${seconds} s.`}`);
}

banner.lastChild.addEventListener("click", () => {
  if (!socket) connect();
});

// --- pieces ----------------------------------------------------------------------------------------------------------------

const badge = () => make("span.badge");
function showHealth(e, health) {
  attribute(e, "class", `badge ${health}`);
  set(e, HEALTH[health] || health);
}

/** Columns: {label, sort, num, wide, make, show}. Rows keep their elements. */
function table(columns, key, empty) {
  const heads = columns.map((c) => {
    const th = make(`th${c.num ? ".num" : ""}${c.wide ? ".wide-only" : ""}`, {scope: "col"});
    th.append(c.sort ? make("button", {type: "button", click: () => sortBy(c)}, c.label) : c.label);
    return th;
  });
  const body = make("tbody"), root = make("div.frame", {}, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
  root.update = (rows) => {
    columns.forEach((c, i) => {
      const sorted = c.sort && (route.want.sort || "name") === c.sort;
      attribute(heads[i], "aria-sort", sorted ? (route.want.desc ? "descending" : "ascending") : null);
    });
    const items = rows && !rows.length ? [null] : rows || [];
    keyed(body, items, (r) => (r ? key(r) : "\u0000"), (r) => {
      if (!r) return make("tr", {}, make("td.empty", {colspan: columns.length}, empty));
      return make("tr", {}, ...columns.map((c) => make(`td${c.num ? ".num" : ""}${c.wide ? ".wide-only" : ""}`, {}, c.make ? c.make(r) : null)));
    }, (tr, r) => r && columns.forEach((c, i) => (c.make ? c.show(tr.children[i].firstChild, r) : set(tr.children[i], c.show(r)))));
  };
  return root;
}

function sortBy(column) {
  const same = (route.want.sort || "name") === column.sort;
  const desc = same ? !route.want.desc : Boolean(column.num);
  writeRoute({sort: column.sort === "name" ? "" : column.sort, desc, from: 0});
}

let typed = 0;
function searchBox(hint) {
  const box = make("input", {type: "search", placeholder: hint, "aria-label": hint, maxlength: 100, value: route.want.q || "", input: () => {
    clearTimeout(typed);
    typed = setTimeout(() => writeRoute({q: box.value, from: 0}), 150);
  }});
  return box;
}

function checkBox(name, label) {
  const box = make("input", {type: "checkbox", checked: Boolean(route.want[name]), change: () => writeRoute({[name]: box.checked, from: 0})});
  return make("label", {}, box, label);
}

function pages() {
  const text = make("span"), back = make("button", {type: "button", "aria-label": "previous page"}, "‹"), on = make("button", {type: "button", "aria-label": "next page"}, "›");
  const root = make("div.pages", {}, text, back, on);
  root.update = (data) => {
    const {total = 0, from = 0, rows = []} = data, page = data.page || PAGE;
    set(text, total ? `${count(from + 1)}–${count(from + rows.length)} of ${count(total)}` : "");
    back.disabled = from === 0;
    on.disabled = from + rows.length >= total;
    back.onclick = () => writeRoute({from: Math.max(0, from - page)});
    on.onclick = () => writeRoute({from: from + page});
  };
  return root;
}

function facts(names) {
  const cells = names.map(() => make("dd")), root = make("div.frame", {}, make("dl.facts", {}, ...names.map((n, i) => make("div", {}, make("dt", {}, n), cells[i]))));
  root.update = (values) => values.forEach((v, i) => set(cells[i], v === "" || v == null ? "–" : v));
  return root;
}

function traffic(whom) {
  const halves = ["in", "out"].map((way) => {
    const value = make("div.value"), line = spark(way, `${way === "in" ? "from" : "to"} ${whom}, the last two minutes`);
    const root = make("div", {}, make("div.label", {}, make(`i.key.${way}`), `${way === "in" ? "From" : "To"} ${whom}`), value, line);
    return {way, value, line, root};
  });
  const root = make("div.traffic", {}, ...halves.map((h) => h.root));
  root.update = (history) => halves.forEach((h) => {
    const values = history.map((p) => p[h.way]);
    set(h.value, rate(values.at(-1) || 0));
    h.line.draw(values, HISTORY);
  });
  return root;
}

function tile(label, href) {
  const value = make("div.value"), note = make("div.note"), root = make(href ? "a.tile" : "div.tile", {href}, make("div.label", {}, label), value, note);
  root.update = (main, small, text, mood) => {
    attribute(root, "class", `tile ${mood || ""}`);
    if (value.dataset.said !== `${main}|${small}`) {
      value.dataset.said = `${main}|${small}`;
      value.replaceChildren(String(main), ...(small ? [make("small", {}, ` ${small}`)] : []));
    }
    set(note, text || "");
  };
  return root;
}

// --- views -------------------------------------------------------------------------------------------------------------------

function overview() {
  const nodes = tile("Nodes", "#/nodes"), services = tile("Services", "#/services"), flow = traffic("nodes"), drawn = map();
  const root = make("div", {}, make("h1.sr", {hidden: true}, "Overview"), make("div.tiles", {}, nodes, services, make("div.tile.wide", {}, flow)), make("h2", {}, "Hub, sites and nodes"), drawn);
  return {root, update() {
    const top = state.top;
    if (!top) return;
    const h = top.health, all = top.nodes - h.revoked, ill = [[h.down, "away"], [h.lags, "behind"], [h.bare, "without tunnel"]].filter((x) => x[0]);
    nodes.update(count(all - h.down), `of ${count(all)} connected`, ill.map(([n, what]) => `${count(n)} ${what}`).join(", ") || "all are well", h.down ? "bad" : ill.length ? "warn" : "");
    services.update(count(top.services), "", top.unread ? "counting…" : top.idle ? `${count(top.idle)} without an endpoint` : "all have endpoints", top.idle ? "warn" : "");
    flow.update(state.history);
    if (state.data.sites) drawn.update(top, state.data);
  }};
}

function nodes() {
  const list = table([
    {label: "Node", sort: "name", make: (r) => make("a.name", {href: nodePath(r.name), title: r.name}, r.name), show: () => {}},
    {label: "Health", sort: "health", make: badge, show: (e, r) => showHealth(e, r.health)},
    {label: "Site", sort: "site", wide: true, show: (r) => r.site},
    {label: "Version", wide: true, show: (r) => r.version},
    {label: "From nodes", sort: "in", num: true, show: (r) => (r.tunnel ? rate(r.in) : "")},
    {label: "To nodes", sort: "out", num: true, show: (r) => (r.tunnel ? rate(r.out) : "")},
    {label: "Streams", sort: "streams", num: true, wide: true, show: (r) => (r.tunnel ? count(r.streams) : "")},
    {label: "RTT", sort: "rtt", num: true, wide: true, show: (r) => (r.tunnel ? `${r.rtt} ms` : "")},
    {label: "Connected", sort: "since", num: true, wide: true, show: (r) => since(r.since)},
  ], (r) => r.name, "No node is like that.");
  const turn = pages(), site = make("button", {type: "button", click: () => writeRoute({site: null, from: 0})});
  const root = make("div", {}, make("h1", {}, "Nodes"), make("div.tools", {}, searchBox("Search name, site, address, version"), checkBox("troubled", "not well"), site, turn), list);
  return {root, update() {
    site.hidden = route.want.site == null;
    set(site, `site: ${route.want.site || "none"} ✕`);
    turn.update(state.data);
    list.update(state.data.rows);
  }};
}

function services() {
  const list = table([
    {label: "Service", sort: "name", make: (r) => make("a.name", {href: service(r.name), title: r.name}, r.name), show: () => {}},
    {label: "Ready", sort: "ready", num: true, show: (r) => (r.external ? "external" : r.known ? count(r.ready) : "…")},
    {label: "Endpoints", sort: "endpoints", num: true, show: (r) => (r.external ? "" : r.known ? count(r.endpoints) : "…")},
    {label: "Ports", num: true, wide: true, show: (r) => (r.known ? r.ports : "…")},
    {label: "State", make: badge, show: (e, r) => {
      const word = r.external ? "bare" : !r.known ? "" : r.ready === 0 ? "down" : r.ready < r.endpoints || r.reason ? "lags" : "good";
      attribute(e, "class", `badge ${word}`);
      set(e, {bare: "another name", down: "no endpoint serves", lags: r.ready < r.endpoints ? "some not ready" : "see why", good: "serves"}[word] || "…");
    }},
    {label: "Why", wide: true, show: (r) => r.reason},
  ], (r) => r.name, "No service is like that.");
  const turn = pages(), root = make("div", {}, make("h1", {}, "Services"), make("div.tools", {}, searchBox("Search namespace/name"), checkBox("troubled", "without an endpoint"), turn), list);
  return {root, update() {
    turn.update(state.data);
    list.update(state.data.rows);
  }};
}

function node() {
  const health = badge(), about = facts(["Site", "Zone", "Comes from", "Agent", "Connected for", "Metadata", "Tunnel for", "Round trip", "Streams", "Carried, from / to"]);
  const flow = traffic("the node"), gone = make("p.reason", {hidden: true}, "No node of this name has joined this hub.");
  const tunnels = table([
    {label: "Tunnel", show: (r) => `#${r.epoch}`}, {label: "From", show: (r) => r.address}, {label: "State", show: (r) => (r.takes ? "open" : "finishing")},
    {label: "Streams", num: true, show: (r) => `${count(r.streams)} of ${count(r.opened)}`}, {label: "RTT", num: true, show: (r) => `${r.rtt} ms`},
    {label: "From node", num: true, wide: true, show: (r) => bytes(r.totalIn)}, {label: "To node", num: true, wide: true, show: (r) => bytes(r.totalOut)},
    {label: "Certificate ends", wide: true, show: (r) => new Date(r.ends).toISOString().slice(0, 10)},
  ], (r) => r.epoch, "No tunnel of this node ends at this hub.");
  const root = make("div", {}, make("div.head", {}, make("a.back", {href: "#/nodes"}, "‹ Nodes"), make("h1", {}, route.name), health), gone, about,
    make("h2", {}, "Traffic in its tunnel"), make("div.tile", {}, flow), make("h2", {}, "Tunnels"), tunnels);
  state.node = {name: route.name, history: []};
  return {root, update() {
    const d = state.data;
    if (d.found === undefined) return;
    gone.hidden = d.found;
    health.hidden = !d.found;
    if (!d.found) return;
    showHealth(health, d.health);
    about.update([d.site, d.zone, d.address, d.version, since(d.since), d.connected ? (d.pending ? `${count(d.pending)} changes under way` : d.unserved ? `${count(d.unserved)} services without an address` : "up to date") : "",
      since(d.tunnelSince), d.tunnel ? `${d.rtt} ms` : "", d.tunnel ? count(d.streams) : "", d.tunnel ? `${bytes(d.totalIn)} / ${bytes(d.totalOut)}` : ""]);
    flow.update(state.node.history);
    tunnels.update(d.tunnels);
  }};
}

const SHARES = {has: ["good", "has it"], "under way": ["lags", "under way"], kept: ["revoked", "kept from it"], refused: ["down", "refuses it"], "no address": ["down", "no fake IP left"], elsewhere: ["elsewhere", "told by another replica"], away: ["down", "away: it serves what it had"]};
const STATES = {up: "up", ill: "fails its health check", ejected: "ejected", unused: "not used lately"};

/** What the node itself says: words for its row, and the state of one endpoint. */
function ownWords(live) {
  if (!live) return "…";
  if (live.why) return `not told${live.at ? ` by ${live.at}` : ""}: ${live.why}`;
  const words = Object.keys(STATES).map((h) => [live.said.filter((e) => e.health === h).length, STATES[h]]);
  if (live.more) words.push([live.more, "more"]);
  const text = words.filter(([n]) => n).map(([n, word]) => `${count(n)} ${word}`).join(", ") || (live.known ? "no endpoint" : "it does not know this service");
  return live.at ? `${text} (by ${live.at})` : text;
}

function ownState(row, port, way) {
  const found = row.live && row.live.said && row.live.said.find((e) => e.port === port && e.address === way.address && e.node === way.node);
  return found ? found.health : "";
}

const VIA = {pod: "on this node", host: "by host", given: "as given", tunnel: "through the hub"};

function showWays(cell, row, many) {
  keyed(cell, row.ports.flatMap((p) => [{port: p}, {ways: p}]), (x) => (x.port ? `p${x.port.port}` : `w${x.ways.port}`), (x) => (x.port ? make("p.port") : make("div.ways")), (e, x) => {
    if (x.port) {
      e.hidden = !many;
      set(e, `port ${x.port.port}`);
      return;
    }
    const p = x.ways, more = p.n - p.endpoints.length;
    const items = p.endpoints.map((w) => ({...w, key: w.address + w.node, state: ownState(row, p.port, w)}));
    if (more > 0) items.push({key: "more", text: `and ${count(more)} more`});
    if (p.unreachable) items.push({key: "un", text: `${count(p.unreachable)} it cannot reach`});
    if (!items.length) items.push({key: "none", text: "none"});
    keyed(e, items, (w) => w.key, () => make("span.way", {}, make("span"), make("em")), (s, w) => {
      attribute(s, "class", `way ${w.via === "tunnel" ? "tunnel" : ""} ${w.key === "un" ? "ill" : w.state || ""}`);
      set(s.firstChild, w.text || w.address);
      set(s.lastChild, w.text ? "" : ` ${VIA[w.via]}${w.node ? `, ${w.node}` : ""}`);
      attribute(s, "title", w.state ? `the node says: ${STATES[w.state]}` : null);
    });
  });
}

function oneService() {
  const about = facts(["Cluster IP", "Kind", "Prefers", "For", "Nodes"]), why = make("p.reason", {hidden: true}), ports = make("div");
  const turn = pages(), gone = make("p.reason", {hidden: true}, "There is no such service, or no longer.");
  const seen = table([
    {label: "Node", make: (r) => make("a.name", {href: nodePath(r.name), title: r.name}, r.name), show: () => {}},
    {label: "Site", wide: true, show: (r) => r.site},
    {label: "This service", make: badge, show: (e, r) => {
      const [word, text] = SHARES[r.share === "away" && r.live && r.live.said ? "elsewhere" : r.share];
      attribute(e, "class", `badge ${word}`);
      set(e, text);
    }},
    {label: "Dials", make: () => make("div", {}, make("div"), make("p.soft.narrow-only")), show: (e, r) => {
      showWays(e.firstChild, r, state.data.ports.length > 1);
      set(e.lastChild, ownWords(r.live));
    }},
    {label: "Says itself", wide: true, show: (r) => ownWords(r.live)},
  ], (r) => r.name, "No node is like that.");
  const rest = make("div", {}, why, about, ports, make("h2", {}, "As every node sees it"),
    make("p.soft.tight", {}, "What each node dials, worked out by the hub as the node does it; and how that goes, which the node says itself."), make("div.tools", {}, searchBox("Search node or site"), turn), seen);
  const root = make("div", {}, make("div.head", {}, make("a.back", {href: "#/services"}, "‹ Services"), make("h1", {}, route.name)), gone, rest);
  const states = {ready: "good", leaving: "lags", "not ready": "down"};
  const places = () => table([
    {label: "Endpoint", show: (r) => r.pod || r.given || r.inside || "–"},
    {label: "State", make: badge, show: (e, r) => {
      attribute(e, "class", `badge ${states[r.state]}`);
      set(e, r.state);
    }},
    {label: "Node", make: (r) => (r.node ? make("a", {href: nodePath(r.node)}, r.node) : make("span")), show: () => {}},
    {label: "Site", wide: true, show: (r) => r.site},
    {label: "Addresses", wide: true, show: (r) => [r.inside && `${r.inside} on its node`, r.host && `${r.host} from its site`, r.public && `${r.public} from elsewhere`, r.given].filter(Boolean).join(" · ")},
  ], (r) => `${r.pod} ${r.node} ${r.inside} ${r.given} ${r.host}`, "No endpoint.");
  return {root, update() {
    const d = state.data;
    if (d.found === undefined) return;
    gone.hidden = d.found;
    rest.hidden = !d.found;
    if (!d.found) return;
    why.hidden = !d.reason;
    set(why, d.reason);
    about.update([d.clusterIP, d.externalName ? `another name: ${d.externalName}` : d.headless ? "headless" : "Service", d.localOnly ? "only the node itself" : d.prefers || "nobody",
      d.narrowed ? "some nodes (edgeway.io/nodes)" : "all nodes", count(d.total)]);
    keyed(ports, d.ports, (p) => `${p.port} ${p.mode === "udp"}`, () => {
      const head = make("h2"), list = places();
      return Object.assign(make("section", {}, head, list), {head, list});
    }, (e, p) => {
      set(e.head, `Port ${p.port}${p.name ? ` (${p.name})` : ""}, ${p.mode}${p.extra ? ", of its pods" : ""}: ${count(p.n)} endpoint${p.n === 1 ? "" : "s"}${p.n > p.places.length ? `, the first ${p.places.length}` : ""}`);
      e.list.update(p.places);
    });
    turn.update(d);
    seen.update(d.rows);
  }};
}

function events() {
  const levels = {error: "down", warn: "lags", info: "revoked"};
  const list = table([
    {label: "Time", show: (r) => new Date(r.time).toLocaleTimeString([], {hour12: false})},
    {label: "Level", make: badge, show: (e, r) => {
      attribute(e, "class", `badge ${levels[r.level]}`);
      set(e, r.level);
    }},
    {label: "Part", show: (r) => r.part},
    {label: "Event", show: (r) => r.event},
  ], (r) => r.time + r.event, "Nothing like that was said lately.");
  list.classList.add("log");
  const level = make("select", {"aria-label": "Level", change: () => writeRoute({level: level.value})}, make("option", {value: ""}, "all levels"), make("option", {value: "warn"}, "warnings and errors"), make("option", {value: "error"}, "errors"));
  level.value = route.want.level || "";
  const root = make("div", {}, make("h1", {}, "Recent events"), make("div.tools", {}, searchBox("Search"), level), list);
  return {root, update() {
    const q = (route.want.q || "").toLowerCase(), least = {error: ["error"], warn: ["error", "warn"]}[route.want.level];
    list.update(state.events.filter((e) => (!least || least.includes(e.level)) && (!q || `${e.part} ${e.event}`.toLowerCase().includes(q))));
  }};
}

const views = {overview, nodes, services, node, service: oneService, events};

// --- going on -------------------------------------------------------------------------------------------------------------------

function update() {
  if (shown) shown.update();
  const top = state.top;
  if (top) set(foot, `edgeway-hub ${top.version}, up for ${since(top.started)}${top.ready ? "" : `, not ready: ${top.waits}`} · ${top.viewers} looking`);
}

setInterval(() => {
  showLink();
  if (!state.live || !state.top) return;
  const keep = (list, p) => list.push({in: p.in, out: p.out}) > HISTORY && list.shift();
  keep(state.history, state.top);
  if (route.view === "node" && state.data.found) keep(state.node.history, state.data);
  update();
}, 1000);
addEventListener("hashchange", onRoute);
onRoute();
connect();
