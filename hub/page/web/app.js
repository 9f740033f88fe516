// The page of an Edgeway hub: what it says over the websocket, shown as it changes. Read-only.
import {HEALTH, attribute, bytes, count, keyed, make, map, nodePath, perSecond, rate, set, since, spark} from "./draw.js";

const HISTORY = 120, EVENTS = 500, PAGE = 50;
const main = document.getElementById("main"), foot = document.getElementById("foot");
const AVERAGED = 5; // seconds of which a rate of requests is the average
const BY_TROUBLE = "health"; // lists come like that unless something else is asked for
const state = {top: null, data: {}, events: [], live: false, told: 0, history: [], counted: null, node: {name: "", history: []}};
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
  if (!want.has("sort") && shown.sorted) want.set("sort", shown.sorted);
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

/** Columns: {label, sort, num, wide, area, make, show}. Rows keep their elements. sorted: by what they come unless something else is asked for;
 * group: (row) => what stands above it and those like it, or ""; show is given the element of its heading. */
function table(columns, key, empty, {sorted = "name", group = null, heading = null} = {}) {
  const heads = columns.map((c) => {
    const th = make(`th${c.num ? ".num" : ""}${c.wide ? ".wide-only" : ""}`, {scope: "col"});
    th.append(c.sort ? make("button", {type: "button", click: () => sortBy(c)}, c.label) : c.label);
    return th;
  });
  const body = make("tbody"), root = make("div.frame", {}, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
  const inOrder = () => route.want.sort || sorted;
  const grouped = (rows) => rows.flatMap((r, i) => (i && group(rows[i - 1]) === group(r) ? [r] : [{group: group(r)}, r]));
  function sortBy(column) {
    const desc = inOrder() === column.sort ? !route.want.desc : Boolean(column.num);
    writeRoute({sort: column.sort === sorted ? "" : column.sort, desc, from: 0});
  }
  const cell = (c, r) => make(`td${c.num ? ".num" : ""}${c.wide ? ".wide-only" : ""}${c.area ? `.${c.area}` : ""}`, {}, c.make ? c.make(r) : null);
  root.update = (rows) => {
    columns.forEach((c, i) => attribute(heads[i], "aria-sort", c.sort && inOrder() === c.sort ? (route.want.desc ? "descending" : "ascending") : null));
    const items = rows && !rows.length ? [null] : group && rows && inOrder() === sorted ? grouped(rows) : rows || [];
    keyed(body, items, (r) => (!r ? "\u0000" : r.group ? `\u0001${r.group}` : key(r)), (r) => {
      if (!r) return make("tr", {}, make("td.empty", {colspan: columns.length}, empty));
      if (r.group) return make("tr.group", {}, make("th", {colspan: columns.length, scope: "rowgroup"}, badge(), make("span")));
      return make("tr", {}, ...columns.map((c) => cell(c, r)));
    }, (tr, r) => {
      if (r && r.group) heading(tr.firstChild.firstChild, tr.firstChild.lastChild, r.group);
      else if (r) columns.forEach((c, i) => (c.make ? c.show(tr.children[i].firstChild, r) : set(tr.children[i], c.show(r))));
    });
  };
  return root;
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

/** Numbers with their curves: [{key, label, text}]; text: of the last values. */
function curves(of) {
  const parts = of.map(({key, label, text}) => {
    const value = make("div.value"), line = spark(key, `${label}, the last two minutes`);
    return {key, text, value, line, root: make("div", {}, make("div.label", {}, make(`i.key.${key}`), label), value, line)};
  });
  const root = make("div.traffic", {}, ...parts.map((p) => p.root));
  root.update = (history) => parts.forEach((p) => {
    const values = history.map((h) => h[p.key]);
    set(p.value, p.text(values));
    p.line.draw(values, HISTORY);
  });
  return root;
}

const traffic = (whom) => curves([
  {key: "in", label: `From ${whom}`, text: (v) => rate(v.at(-1) || 0)},
  {key: "out", label: `To ${whom}`, text: (v) => rate(v.at(-1) || 0)},
]);

const average = (values) => perSecond(values.slice(-AVERAGED).reduce((a, b) => a + b, 0) / Math.max(1, Math.min(values.length, AVERAGED)));

const requests = () => curves([
  {key: "asked", label: "Requests", text: average},
  {key: "refused", label: "Refused or failed", text: average},
]);

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

/** What needs attention: each kind with its names as links. Kinds come from the hub, the worst first; two more are known here. */
const ATTENTION = {
  hub: {mark: "down", title: () => "The hub is not ready", all: "#/events"},
  hubCertificates: {mark: "down", title: () => "A certificate of the hub ends soon", all: "#/events", text: (r) => `${ends(r.since)}; ${r.text}`},
  replicas: {mark: "down", title: (n) => `${many(n, "replica")} away`, all: "#/events"},
  away: {mark: "down", title: (n) => `${many(n, "node")} away`, all: "#/nodes?troubled=1", link: nodePath, text: (r) => [r.since ? `for ${since(r.since)}` : "since before the hub started", r.text].filter(Boolean).join(", ")},
  idle: {mark: "down", title: (n) => `${many(n, "service")} without an endpoint that serves`, all: "#/services?troubled=1", link: service, text: (r) => r.text},
  faults: {mark: "down", title: (n) => `${many(n, "service")} with a fault in ${n === 1 ? "its" : "their"} definition`, all: "#/services?troubled=1", link: service, text: (r) => r.text},
  manifests: {mark: "lags", title: (n) => `${many(n, "manifest file")} cannot be read; what was said before counts on`, all: "#/events?q=manifests", link: (name) => `#/events?q=${encodeURIComponent(name)}`, text: (r) => r.text},
  kubernetes: {mark: "lags", title: (n) => `${many(n, "resource")} of the API server cannot be read`, all: "#/events?q=kubernetes", link: (name) => `#/events?q=${encodeURIComponent(name)}`, text: (r) => r.text},
  dead: {mark: "down", title: (n) => `${many(n, "service")} with endpoints that nodes find dead`, all: "#/services", link: service, text: (r) => r.text},
  partly: {mark: "lags", title: (n) => `${many(n, "service")} with endpoints that do not serve`, all: "#/services?troubled=1", link: service, text: (r) => r.text},
  behind: {mark: "lags", title: (n) => `${many(n, "node")} behind with what the cluster says`, all: "#/nodes?troubled=1", link: nodePath, text: (r) => r.text},
  bare: {mark: "bare", title: (n) => `${many(n, "node")} without a tunnel: the cloud does not reach ${n === 1 ? "it" : "them"}`, all: "#/nodes?troubled=1", link: nodePath, text: (r) => r.text},
  nodeCertificates: {mark: "lags", title: (n) => (n === 1 ? "A certificate of a node ends soon and was not renewed" : `${count(n)} certificates of nodes end soon and were not renewed`), all: "#/nodes", link: nodePath, text: (r) => ends(r.since)},
};
const many = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const ends = (ms) => (ms > Date.now() ? `ends in ${since(2 * Date.now() - ms)}` : `ended ${since(ms)} ago`);

/** Those of the hub itself and of replicas are in every message. */
function attentionNow(top, told) {
  const list = [...told], away = top.peers.filter((p) => !["open", "itself", "twin"].includes(p.state));
  if (away.length) list.unshift({kind: "replicas", total: away.length, rows: away.slice(0, 6).map((p) => ({name: p.peer || p.address, text: p.error || p.state}))});
  if (!top.ready) list.unshift({kind: "hub", total: 1, rows: [{name: "", text: top.waits}]});
  return list.filter((a) => ATTENTION[a.kind]);
}

function attention() {
  const title = make("h2.first", {}, "Needs attention"), well = make("p.well", {}, make("i.dot.good"), make("span")), list = make("ul.attention");
  const root = make("section", {"aria-label": "Needs attention"}, title, well, list);
  root.update = (top, told) => {
    const items = attentionNow(top, told), nodes = top.nodes - top.health.revoked;
    well.hidden = items.length > 0;
    list.hidden = !items.length;
    set(well.lastChild, nodes ? "Nothing does: all nodes are connected, all services have endpoints." : "Nothing does; no node has joined yet.");
    keyed(list, items, (a) => a.kind, (a) => make(`li.${ATTENTION[a.kind].mark}`, {}, make("a.what", {href: ATTENTION[a.kind].all}, make(`i.dot.${ATTENTION[a.kind].mark}`), make("span")), make("ul")), (li, a) => {
      const kind = ATTENTION[a.kind], more = a.total - a.rows.length;
      set(li.firstChild.lastChild, kind.title(a.total));
      const rows = more > 0 ? [...a.rows, {more}] : a.rows;
      keyed(li.lastChild, rows, (r) => r.name ?? "\u0000more", (r) => (r.more ? make("li", {}, make("a", {href: kind.all}))
        : make("li", {}, kind.link ? make("a.name", {href: kind.link(r.name)}, r.name) : make("b", {}, r.name), make("span"))), (e, r) => {
        if (r.more) set(e.firstChild, `and ${count(r.more)} more`);
        else set(e.lastChild, ` ${kind.text ? kind.text(r) : r.text}`);
      });
    });
  };
  return root;
}

/** No node has joined: the two commands that change that. */
function firstNode() {
  const hub = make("pre"), node = make("pre"), nearby = /^(localhost|127\..*|\[::1\])$/.test(location.hostname); // no node finds it there
  const root = make("section.start", {hidden: true}, make("h2", {}, "Join the first node"), make("ol", {},
    make("li", {}, "On this hub's machine make a token for the node. It is the last line that this prints, and good for one join:", hub,
      make("p.soft", {}, "In Kubernetes: ", make("code", {}, "kubectl -n edgeway exec deploy/edgeway-hub -- edgewayctl token create --node edge-1"))),
    make("li", {}, "On the node put that line into /etc/edgeway/token, and start the agent:", node,
      make("p.soft", {}, "The name after wss:// must lead the node to this hub, and be one of its tls.names. The unit of the package does the same with /etc/edgeway/agent.yaml."))));
  root.update = (top) => {
    set(hub, "edgewayctl --socket /run/edgeway/hub.sock token create --node edge-1");
    set(node, `edgeway-agent --node edge-1 --hub.url wss://${nearby ? "HUB" : location.hostname}:${top.port} --hub.tokenFile /etc/edgeway/token`);
  };
  return root;
}

function overview() {
  const nodes = tile("Nodes", "#/nodes"), services = tile("Services", "#/services"), asked = requests(), flow = traffic("nodes"), drawn = map();
  const needs = attention(), start = firstNode(), places = make("section", {}, make("h2", {}, "Hub, sites and nodes"), drawn);
  const root = make("div", {}, make("h1.sr", {hidden: true}, "Overview"), needs, start,
    make("div.tiles", {}, nodes, services, make("div.tile.wide", {title: "What callers ask of this hub for the edge, and what of it was answered with an error"}, asked), make("div.tile.full", {}, flow)), places);
  return {root, update() {
    const top = state.top;
    if (!top) return;
    const h = top.health, all = top.nodes - h.revoked, ill = [[h.down, "away"], [h.lags, "behind"], [h.bare, "without tunnel"]].filter((x) => x[0]);
    nodes.update(count(all - h.down), `of ${count(all)} connected`, ill.map(([n, what]) => `${count(n)} ${what}`).join(", ") || (all ? "all are well" : "none has joined"), h.down ? "bad" : ill.length ? "warn" : "");
    services.update(count(top.services), "", top.idle ? `${count(top.idle)} without an endpoint` : top.services ? "all have endpoints" : "none is known", top.idle ? "warn" : "");
    asked.update(state.history);
    flow.update(state.history);
    start.hidden = all > 0;
    places.hidden = !all;
    start.update(top);
    if (!state.data.sites) return;
    needs.update(top, state.data.attention || []);
    drawn.update(top, state.data);
  }};
}

/** Why it is as its health says. */
function whyNode(r) {
  if (r.health === "down") return r.seen ? `away for ${since(r.seen)}${r.words ? `: ${r.words}` : ""}` : "not seen since the hub started";
  if (r.health === "elsewhere") return r.at ? `connected to ${r.at}` : "";
  if (r.health === "lags") return r.unserved ? `${many(r.unserved, "service")} refused or without an address` : r.pending ? `${many(r.pending, "change")} under way` : "is brought up to date";
  if (r.health === "bare") return "nothing opens a tunnel: something on the way may pass websockets alone";
  return r.noTunnel ? "its tunnel is switched off" : "";
}

function nodes() {
  const list = table([
    {label: "Node", sort: "name", area: "who", make: (r) => make("a.name", {href: nodePath(r.name), title: r.name}, r.name), show: () => {}},
    {label: "State", sort: "health", area: "state", make: badge, show: (e, r) => showHealth(e, r.health)},
    {label: "Why", area: "why", show: whyNode},
    {label: "Site", sort: "site", wide: true, show: (r) => r.site},
    {label: "Version", wide: true, show: (r) => r.version},
    {label: "From nodes", sort: "in", num: true, wide: true, show: (r) => (r.tunnel ? rate(r.in) : "")},
    {label: "To nodes", sort: "out", num: true, wide: true, show: (r) => (r.tunnel ? rate(r.out) : "")},
    {label: "Streams", sort: "streams", num: true, wide: true, show: (r) => (r.tunnel ? count(r.streams) : "")},
    {label: "RTT", sort: "rtt", num: true, wide: true, show: (r) => (r.tunnel ? `${r.rtt} ms` : "")},
    {label: "Connected", sort: "since", num: true, wide: true, show: (r) => since(r.since)},
  ], (r) => r.name, "No node is like that.", {sorted: BY_TROUBLE, group: (r) => r.health, heading: (e, text, health) => {
    showHealth(e, health);
    set(text, count(state.data.health[health]));
  }});
  list.classList.add("cards");
  const turn = pages(), site = make("button", {type: "button", click: () => writeRoute({site: null, from: 0})});
  const root = make("div", {}, make("h1", {}, "Nodes"), make("div.tools", {}, searchBox("Search name, site, address, version"), checkBox("troubled", "not well"), site, turn), list);
  return {root, sorted: BY_TROUBLE, update() {
    site.hidden = route.want.site == null;
    set(site, `site: ${route.want.site || "none"} ✕`);
    turn.update(state.data);
    list.update(state.data.rows);
  }};
}

const SERVES = {down: "no endpoint serves", lags: "some do not serve", bare: "another name", good: "serves", said: "see why", fault: "fault"};
const serviceState = (r) => (r.external ? "bare" : r.idle ? "down" : r.fault ? "fault" : r.ready < r.endpoints ? "lags" : r.reason ? "said" : "good");
function showService(e, word) {
  attribute(e, "class", `badge ${{said: "lags", fault: "down"}[word] || word}`);
  set(e, SERVES[word]);
}

function services() {
  const list = table([
    {label: "Service", sort: "name", area: "who", make: (r) => make("a.name", {href: service(r.name), title: r.name}, r.name), show: () => {}},
    {label: "State", sort: "health", area: "state", make: badge, show: (e, r) => showService(e, serviceState(r))},
    {label: "Why", area: "why", show: (r) => r.reason || (serviceState(r) === "lags" ? `${count(r.endpoints - r.ready)} of ${count(r.endpoints)} endpoints do not serve` : "")},
    {label: "Ready", sort: "ready", num: true, wide: true, show: (r) => (r.external ? "external" : count(r.ready))},
    {label: "Endpoints", sort: "endpoints", num: true, wide: true, show: (r) => (r.external ? "" : count(r.endpoints))},
    {label: "Ports", num: true, wide: true, show: (r) => r.ports},
  ], (r) => r.name, "No service is like that.", {sorted: BY_TROUBLE});
  list.classList.add("cards");
  const turn = pages(), root = make("div", {}, make("h1", {}, "Services"), make("div.tools", {}, searchBox("Search namespace/name"), checkBox("troubled", "not well"), turn), list);
  return {root, sorted: BY_TROUBLE, update() {
    turn.update(state.data);
    list.update(state.data.rows);
  }};
}

function node() {
  const health = badge(), about = facts(["Site", "Zone", "Comes from", "Agent", "Connected for", "Metadata", "Tunnel for", "Round trip", "Streams", "Carried, from / to"]);
  const flow = traffic("the node"), gone = make("p.reason", {hidden: true}, "No node of this name has joined this hub.");
  const tunnels = table([
    {label: "Tunnel", show: (r) => `#${r.epoch}`}, {label: "From", show: (r) => r.address}, {label: "State", show: (r) => (!r.takes ? "finishing" : r.standby ? "standby" : "open")},
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
    about.update([d.site, d.zone, d.address, d.version, since(d.since), d.connected ? (d.pending ? `${count(d.pending)} changes under way` : d.unserved ? `${many(d.unserved, "service")} refused or without an address` : "up to date") : whyNode(d),
      d.noTunnel ? "switched off" : since(d.tunnelSince), d.tunnel ? `${d.rtt} ms` : "", d.tunnel ? count(d.streams) : "", d.tunnel ? `${bytes(d.totalIn)} / ${bytes(d.totalOut)}` : ""]);
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
  const keep = (list, p) => list.push(p) > HISTORY && list.shift();
  const {in: from, out: to, requests: all, refused: bad} = state.top, before = state.counted || state.top;
  keep(state.history, {in: from, out: to, asked: Math.max(0, all - before.requests), refused: Math.max(0, bad - before.refused)});
  state.counted = {requests: all, refused: bad};
  if (route.view === "node" && state.data.found) keep(state.node.history, {in: state.data.in, out: state.data.out});
  update();
}, 1000);
addEventListener("hashchange", onRoute);
onRoute();
connect();
