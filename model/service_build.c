#include <assert.h>
#include <string.h>

#include "base/core/hash.h"
#include "model/allow_from.h"
#include "model/check.h"
#include "model/http_route.h"
#include "model/mesh.h"
#include "model/pod_name.h"
#include "model/service_prefer.h"
#include "model/view.h"

/*
 * The only place where endpoints enter this node: decides by which route each is dialled, and
 * whether it may be (model/dial_guard). An endpoint refused here is reported, and cannot be dialled
 * by any part.
 *
 * Two passes: the first chooses endpoints and collects each text once, the second lays service,
 * ports, endpoints and texts into one allocation. A node keeps 10 000 of these: so their size
 * matters most.
 */
struct building {
	const struct view *view;
	const struct self *self;
	struct endpoint *endpoints; /* of all ports, whose texts point into the view */
	size_t n_endpoints;
	struct endpoint *refused; /* of one port */
	size_t n_refused;
	struct service_port *ports;
	/* Every distinct text and its position: a table with open addressing. */
	const char **texts;
	char **places;
	size_t n_slots, text_bytes;
	uint64_t seed; /* random: peers choose the texts */
};

static const char *
service_build_plain(const char *text)
{
	return text != NULL ? text : "";
}

static bool
service_build_same(const char *a, const char *b)
{
	return strcmp(service_build_plain(a), service_build_plain(b)) == 0;
}

static size_t
text_slot(const struct building *b, const char *text)
{
	size_t i = hash64(text, strlen(text), b->seed) & (b->n_slots - 1);

	while (b->texts[i] != NULL && strcmp(b->texts[i], text) != 0)
		i = (i + 1) & (b->n_slots - 1);
	return i;
}

static void
note_text(struct building *b, const char *text)
{
	size_t slot;

	if (*service_build_plain(text) == '\0')
		return;
	slot = text_slot(b, text);
	if (b->texts[slot] == NULL) {
		b->texts[slot] = text;
		b->text_bytes += strlen(text) + 1;
	}
}

/* The text's place in the service; the first request copies it there. */
static const char *
place_text(struct building *b, const char *text, char **end)
{
	size_t slot, len;

	if (*service_build_plain(text) == '\0')
		return "";
	slot = text_slot(b, text);
	if (b->places[slot] == NULL) {
		len = strlen(text) + 1;
		b->places[slot] = memcpy(*end, text, len);
		*end += len;
	}
	return b->places[slot];
}

static bool
is_own(const struct view_endpoint *e, const struct self *self)
{
	return *service_build_plain(e->node) != '\0' && service_build_same(e->node, self->node);
}

/* The state of the search for a route to one endpoint. */
struct way {
	const struct view_endpoint *from;
	const struct self *self;
	struct endpoint *to;
	bool own; /* of this node */
	bool encrypted; /* its way must be */
	bool cloud; /* the hub dials it, although no Pod stands for it */
	/* why the first existing route is forbidden, or SPECIAL_NONE */
	enum special_addr refused;
	bool own_refused; /* an address of this or an earlier route is this node's own */
	struct in6_addr refused_ip;
	uint16_t refused_port;
};

/* If an older hub does not send the pod's network, hostNetwork is assumed where addresses and ports
 * look like it: refusing them would cut off all such pods until the hub is upgraded. */
static bool
is_host_network(const struct view_endpoint *e)
{
	return *service_build_plain(e->pod) != '\0' &&
		(e->network == NETWORK_HOST ||
			(e->network == NETWORK_UNSAID && view_endpoint_looks_host(e)));
}

static void
refuse_way(struct way *w, enum special_addr why, const struct in6_addr *ip, uint16_t port)
{
	if (w->refused != SPECIAL_NONE)
		return;
	w->refused = why;
	w->refused_ip = *ip;
	w->refused_port = port;
}

/* May this node dial the address? */
static bool
may_dial(struct way *w, const char *text, uint16_t port, struct in6_addr *ip)
{
	bool host_network = (w->to->flags & ENDPOINT_HOST_NETWORK) != 0;
	enum special_addr why;

	if (!ip_parse(service_build_plain(text), ip))
		return false;
	why = dial_guard_check(w->self->guard, ip, host_network);
	w->own_refused |= why == SPECIAL_OWN;
	if (why != SPECIAL_NONE)
		refuse_way(w, why, ip, port);
	return why == SPECIAL_NONE;
}

/* Of the two addresses one is enough. */
static bool
set_way(struct way *w, enum endpoint_via via, const char *first, const char *second, uint16_t port)
{
	struct in6_addr ips[2];
	size_t n = 0;

	if (port == 0)
		return false;
	n += may_dial(w, first, port, &ips[n]);
	n += may_dial(w, second, port, &ips[n]);
	if (n == 0)
		return false;
	w->to->ip = ips[0];
	w->to->other = n > 1 ? ips[1] : in6addr_any;
	w->to->via = (uint8_t)via;
	w->to->port = port;
	return true;
}

/* Another node's loopback is unreachable from here, and not an error: a hostPort may be bound
 * there. */
static const char *
without_loopback(const struct way *w, const char *text)
{
	struct in6_addr ip;

	return !w->own && ip_parse(service_build_plain(text), &ip) && ip_is_loopback(&ip) ? ""
											  : text;
}

static bool
set_host_way(struct way *w)
{
	return set_way(w, VIA_HOST, without_loopback(w, w->from->host_ip),
		without_loopback(w, w->from->other_host_ip), w->from->host_port);
}

/* A direct route from this node, not through the hub. */
static bool
set_direct_way(struct way *w)
{
	const struct view_endpoint *from = w->from;

	if (w->own && set_way(w, VIA_POD, from->pod_ip, from->other_pod_ip, from->pod_port))
		return true;
	if (set_way(w, VIA_GIVEN, from->given_ip, from->other_given_ip, from->given_port))
		return true;
	if (w->own || service_build_same(from->site, w->self->site))
		return set_host_way(w);
	return set_way(w, VIA_HOST, from->public_ip, from->other_public_ip, from->host_port) ||
		(from->node_public && set_host_way(w));
}

/* The address at which this node may dial the agent of the endpoint's node, by the rules for its
 * hostPorts; "": none. */
static const char *
find_peer(const struct way *w)
{
	const struct view_endpoint *from = w->from;
	bool near = service_build_same(from->site, w->self->site);
	const char *const ips[] = {near ? from->host_ip : from->public_ip,
		near ? from->other_host_ip : from->other_public_ip,
		!near && from->node_public ? from->host_ip : NULL,
		!near && from->node_public ? from->other_host_ip : NULL};
	struct in6_addr ip;

	for (size_t i = 0; i < ARRAY_LEN(ips) && w->self->direct; i++)
		if (ip_parse(service_build_plain(ips[i]), &ip) &&
			dial_guard_check(w->self->guard, &ip, false) == SPECIAL_NONE)
			return ips[i];
	return "";
}

/* The route through the agent of the endpoint's node, or the hub. The address belongs to another
 * network, of that node or of the cloud: it may equal one of ours. */
static bool
set_tunnel_way(struct way *w)
{
	const struct view_endpoint *from = w->from;
	const bool pod = from->pod_port != 0;
	const char *const ips[] = {pod ? from->pod_ip : from->given_ip,
		pod ? from->other_pod_ip : from->other_given_ip};
	struct endpoint *e = w->to;
	uint16_t port = pod ? from->pod_port : from->given_port;
	enum special_addr why;
	struct in6_addr there;

	if (!w->self->forward || port == 0 || (pod ? *e->node == '\0' : !w->cloud) || w->own)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(ips); i++) {
		if (!ip_parse(service_build_plain(ips[i]), &there))
			continue;
		if ((why = special_addr_class(&there)) != SPECIAL_NONE) {
			refuse_way(w, why, &there, port);
			continue;
		}
		e->via = VIA_TUNNEL;
		e->tier = TIER_TUNNEL;
		e->port = port;
		if (!IN6_IS_ADDR_V4MAPPED(&there))
			e->far = ips[i];
		e->ip = endpoint_far(e->node, &there);
		e->peer = pod ? find_peer(w) : "";
		return true;
	}
	return false;
}

/* A direct route in clear text that must not be: one that leaves this node. */
static bool
take_back_clear(struct way *w)
{
	struct endpoint *e = w->to;

	if (!w->encrypted || e->via == VIA_POD || (e->via == VIA_HOST && w->own))
		return false;
	refuse_way(w, SPECIAL_CLEAR, &e->ip, e->port);
	e->ip = e->other = in6addr_any;
	e->port = 0;
	return true;
}

static bool
wants_encryption(const struct building *b, const struct view_endpoint *from)
{
	uint8_t wanted =
		b->view->lb.encrypt != ENCRYPT_DEFAULT ? b->view->lb.encrypt : b->self->encrypt;

	return wanted == ENCRYPT_ALWAYS ||
		(wanted == ENCRYPT_SITE && *service_build_plain(from->node) != '\0' &&
			service_build_same(from->site, b->self->site));
}

static bool
is_apiserver(const struct building *b)
{
	return service_is_apiserver(
		service_build_plain(b->view->ns), service_build_plain(b->view->name));
}

/* Chooses this node's route to the endpoint; tunnel: that through the hub or another node. False:
 * there is none, and port is 0 unless the endpoint was refused. */
static bool
choose_way(
	const struct building *b, struct endpoint *e, const struct view_endpoint *from, bool tunnel)
{
	const struct self *self = b->self;
	struct way w = {.from = from,
		.self = self,
		.to = e,
		.own = is_own(from, self),
		.encrypted = wants_encryption(b, from),
		.cloud = b->view->cloud && (self->apiserver || !is_apiserver(b))};

	*e = (struct endpoint){
		.tier = TIER_REST,
		.flags = from->flags & (ENDPOINT_READY | ENDPOINT_SERVING | ENDPOINT_TERMINATING),
		.node = service_build_plain(from->node),
		.hostname = service_build_plain(from->hostname),
		.far = "",
		.peer = "",
		.gate = from->gate,
	};
	if (w.own)
		e->flags |= ENDPOINT_LOCAL;
	if (w.own && is_host_network(from))
		e->flags |= ENDPOINT_HOST_NETWORK;
	if (w.encrypted)
		e->flags |= ENDPOINT_ENCRYPTED;
	if ((!tunnel && set_direct_way(&w) && !take_back_clear(&w)) || set_tunnel_way(&w)) {
		if (w.own_refused)
			e->flags |= ENDPOINT_HALF;
		return true;
	}
	if (w.refused != SPECIAL_NONE) {
		e->via = VIA_REFUSED;
		e->tier = (uint8_t)w.refused;
		e->ip = w.refused_ip;
		e->port = w.refused_port;
	}
	return false;
}

static bool
is_ready(uint8_t flags)
{
	return (flags & ENDPOINT_READY) != 0;
}

static bool
is_leaving(uint8_t flags)
{
	return !is_ready(flags) &&
		(flags & (ENDPOINT_SERVING | ENDPOINT_TERMINATING)) ==
		(ENDPOINT_SERVING | ENDPOINT_TERMINATING);
}

/* --- order of endpoints --------------------------------------------------------------------- */

/* Stable sort, lower tiers first: one pass per tier. */
static void
sort_tiers(struct building *b, size_t first)
{
	size_t n = b->n_endpoints - first, next = 0;
	struct endpoint *from = &b->endpoints[first], *sorted;
	bool in_order = true;

	for (size_t i = 1; i < n; i++)
		in_order = in_order && from[i - 1].tier <= from[i].tier;
	if (in_order)
		return;
	sorted = xcalloc(n, sizeof *sorted);
	for (uint8_t tier = TIER_NODE; tier <= TIER_TUNNEL; tier++)
		for (size_t i = 0; i < n; i++)
			if (from[i].tier == tier)
				sorted[next++] = from[i];
	memcpy(from, sorted, n * sizeof *sorted);
	free(sorted);
}

/* --- building ------------------------------------------------------------------------------- */

static void
note_endpoint(struct building *b, const struct endpoint *e)
{
	note_text(b, e->node);
	note_text(b, e->hostname);
	note_text(b, e->far);
	note_text(b, e->peer);
}

static void
take_endpoint(struct building *b, const struct endpoint *e)
{
	note_endpoint(b, e);
	b->endpoints[b->n_endpoints++] = *e;
}

/*
 * No Pod stands for the endpoint `e`, and the hub dials it as well: that is a second endpoint, in
 * the tier that is used where those before fail, so that the balancer's ejections and probes find
 * the route. The API server is at home in the hub's network, and at a site its address may be
 * anybody's: there the hub comes first.
 */
static void
take_by_hub(struct building *b, const struct view_endpoint *from, struct endpoint *e)
{
	struct endpoint far;

	if (e->via != VIA_GIVEN || !choose_way(b, &far, from, true))
		return;
	if (is_apiserver(b)) {
		far.tier = e->tier;
		e->tier = TIER_TUNNEL;
	}
	take_endpoint(b, &far);
}

/* Adds those endpoints of the port that `wanted` accepts; own: of this node alone. Returns how many
 * cannot be reached. */
static size_t
take_endpoints(
	struct building *b, const struct view_port *from, bool (*wanted)(uint8_t flags), bool own)
{
	const struct service_prefer prefer = service_prefer_of(b->view, from, b->self);
	size_t unreachable = 0, first = b->n_endpoints;

	for (size_t i = 0; i < from->n_endpoints; i++) {
		struct endpoint e;

		if (!wanted(from->endpoints[i].flags) ||
			(own && !is_own(&from->endpoints[i], b->self)))
			continue;
		if (!choose_way(b, &e, &from->endpoints[i], false)) {
			if (e.port == 0) {
				unreachable++;
				continue;
			}
			note_endpoint(b, &e);
			b->refused[b->n_refused++] = e;
			continue;
		}
		if (e.via != VIA_TUNNEL || *e.peer != '\0')
			e.tier =
				(uint8_t)service_prefer_tier(&prefer, &from->endpoints[i], b->self);
		take_by_hub(b, &from->endpoints[i], &e);
		take_endpoint(b, &e);
	}
	sort_tiers(b, first);
	return unreachable;
}

/* Puts the refused endpoints after the port's endpoints. */
static void
place_refused(struct building *b, struct service_port *p)
{
	memcpy(&b->endpoints[b->n_endpoints], b->refused, b->n_refused * sizeof *b->refused);
	b->n_endpoints += b->n_refused;
	p->n_refused = (uint16_t)b->n_refused;
}

static bool
has_local(const struct building *b, size_t first)
{
	for (size_t i = first; i < b->n_endpoints; i++)
		if ((b->endpoints[i].flags & ENDPOINT_LOCAL) != 0)
			return true;
	return false;
}

static void
take_port(struct building *b, size_t i)
{
	const struct view_port *from = &b->view->ports[i];
	size_t before = b->n_endpoints, unreachable, leaving = 0, end;

	note_text(b, from->name);
	note_text(b, service_build_plain(from->why));
	b->n_refused = 0;
	unreachable = take_endpoints(b, from, is_ready, b->view->local_only);
	end = b->n_endpoints;
	if (end == before) {
		leaving = take_endpoints(b, from, is_leaving, b->view->local_only);
		end = b->n_endpoints;
	} else if (b->view->external_local && !has_local(b, before)) {
		/* KEP-1669: a load balancer notices later that the last one here leaves. */
		take_endpoints(b, from, is_leaving, true);
	}
	if (unreachable == 0)
		unreachable = leaving;
	b->ports[i] = (struct service_port){
		.name = service_build_plain(from->name),
		.why = service_build_plain(from->why),
		.port = from->port,
		.mode = from->mode,
		.extra = from->extra,
		.tls = from->tls > 0 ? b->view->tls[from->tls - 1] : NULL,
		.node_port = from->node_port,
		.n_endpoints = (uint16_t)(end - before),
		.n_leaving = (uint16_t)(b->n_endpoints - end),
		.n_unreachable = (uint16_t)unreachable,
	};
	place_refused(b, &b->ports[i]);
}

static void
begin_building(struct building *b, size_t n_ports, size_t most)
{
	for (b->n_slots = 8; b->n_slots < 2 * (6 + 2 * n_ports + 4 * most);)
		b->n_slots *= 2;
	b->texts = xcalloc(b->n_slots, sizeof *b->texts);
	b->places = xcalloc(b->n_slots, sizeof *b->places);
	b->endpoints = xcalloc(most + 1, sizeof *b->endpoints);
	b->refused = xcalloc(most + 1, sizeof *b->refused);
	b->ports = xcalloc(n_ports + 1, sizeof *b->ports);
}

/* A text that this version cannot parse permits nobody. */
static struct allow_from *
read_allow_from(const struct view *v, const char *text)
{
	struct allow_from *a;

	return allow_from_parse(&a, text, v->ns, NULL) < 0 ? allow_from_nobody() : a;
}

static void
read_restriction(struct service *s, const struct view *v)
{
	if (!view_restricted(v))
		return;
	s->restricted = true;
	if (*service_build_plain(v->allow_from) != '\0')
		s->allow_from = read_allow_from(v, v->allow_from);
	s->gates = xcalloc(v->n_gates + 1, sizeof *s->gates);
	for (; s->n_gates < v->n_gates; s->n_gates++)
		s->gates[s->n_gates] = read_allow_from(v, v->gates[s->n_gates]);
}

/* `to` is a plain copy of `from`: takes references for it. */
static void
service_build_share(struct service *to, const struct service *from)
{
	to->routes = http_routes_ref(from->routes);
	to->tls = backend_tls_list_ref(from->tls, from->n_tls);
	if (!from->restricted)
		return;
	to->allow_from = allow_from_ref(from->allow_from);
	to->gates = xcalloc(from->n_gates + 1u, sizeof *to->gates);
	for (size_t i = 0; i < from->n_gates; i++)
		to->gates[i] = allow_from_ref(from->gates[i]);
}

/* Builds the service in one allocation. head: all members but references and ports; its texts may
 * be anywhere. */
static struct service *
lay_out(struct building *b, const struct service *head)
{
	size_t ports_at = sizeof(struct service);
	size_t endpoints_at = ports_at + head->n_ports * sizeof(struct service_port);
	size_t external_at = endpoints_at + b->n_endpoints * sizeof(struct endpoint);
	size_t external_bytes = head->n_external_ips * sizeof(struct in6_addr);
	size_t texts_at = external_at + external_bytes;
	const char *const texts[] = {head->namespace, head->name, head->external_name,
		head->hash_key, head->health_path, head->allow_text};
	struct service_port *ports;
	struct endpoint *endpoints;
	char *block, *end;
	size_t next = 0;
	struct service *s;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		note_text(b, texts[i]);
	block = xmalloc(texts_at + b->text_bytes);
	end = block + texts_at;
	s = (void *)block;
	ports = (void *)(block + ports_at);
	endpoints = (void *)(block + endpoints_at);
	memcpy(s, head, sizeof *s);
	atomic_init(&s->refs, 1);
	s->namespace = place_text(b, head->namespace, &end);
	s->name = place_text(b, head->name, &end);
	s->external_name = place_text(b, head->external_name, &end);
	s->hash_key = place_text(b, head->hash_key, &end);
	s->health_path = place_text(b, head->health_path, &end);
	s->allow_text = place_text(b, head->allow_text, &end);
	service_build_share(s, head);
	s->ports = ports;
	s->external_ips = external_bytes == 0
		? NULL
		: memcpy(block + external_at, head->external_ips, external_bytes);
	for (size_t i = 0; i < head->n_ports; i++) {
		ports[i] = b->ports[i];
		ports[i].name = place_text(b, b->ports[i].name, &end);
		ports[i].why = place_text(b, b->ports[i].why, &end);
		ports[i].endpoints = &endpoints[next];
		next += ports[i].n_endpoints + ports[i].n_leaving + ports[i].n_refused;
	}
	for (size_t i = 0; i < b->n_endpoints; i++) {
		endpoints[i] = b->endpoints[i];
		endpoints[i].node = place_text(b, b->endpoints[i].node, &end);
		endpoints[i].hostname = place_text(b, b->endpoints[i].hostname, &end);
		endpoints[i].far = place_text(b, b->endpoints[i].far, &end);
		endpoints[i].peer = place_text(b, b->endpoints[i].peer, &end);
	}
	s->ipv4_alone = service_is_ipv4_alone(s);
	assert(end == block + texts_at + b->text_bytes);
	free(b->ports);
	free(b->refused);
	free(b->endpoints);
	free(b->places);
	free(b->texts);
	return s;
}

static bool
names_pods(const struct view *v)
{
	/* The view of a pod name has no names below it. */
	if (!v->headless || strchr(service_build_plain(v->name), '.') != NULL)
		return false;
	for (size_t i = 0; i < v->n_ports; i++)
		for (size_t k = 0; k < v->ports[i].n_endpoints; k++)
			if (*service_build_plain(v->ports[i].endpoints[k].hostname) != '\0')
				return true;
	return false;
}

/* Traffic to a ClusterIP is redirected to the mesh: the hub must not be able to redirect loopback
 * or metadata addresses. */
static void
take_cluster_ip(struct service *s, const char *text)
{
	struct in6_addr ip;

	if (!ip_parse(service_build_plain(text), &ip) || special_addr_class(&ip) != SPECIAL_NONE)
		return;
	if (IN6_IS_ADDR_V4MAPPED(&ip))
		s->cluster_ip = ip_v4(text);
	else
		s->cluster_ip6 = ip;
}

/* The same for addresses outside. */
static void
take_external_ips(struct service *s, const struct view_names *from, struct in6_addr *room)
{
	for (size_t i = 0; i < from->n; i++)
		if (ip_parse(from->list[i], &room[s->n_external_ips]) &&
			special_addr_class(&room[s->n_external_ips]) == SPECIAL_NONE)
			s->n_external_ips++;
	s->external_ips = room;
}

struct service *
service_build(const struct view *v, const struct self *self, uint32_t fake_ip, uint64_t digest)
{
	struct service head = {
		.namespace = service_build_plain(v->ns),
		.name = service_build_plain(v->name),
		.digest = digest,
		.fake_ip = fake_ip,
		.external_local = v->external_local,
		.health_port = v->health_port,
		.gateway = v->gateway,
		.cloud = v->cloud,
		.headless = v->headless,
		.named_pods = names_pods(v),
		.lb = v->lb,
		.hash_key = service_build_plain(v->hash_key),
		.health_path = service_build_plain(v->health_path),
		.external_name = service_build_plain(v->external_name),
		.allow_text = service_build_plain(v->allow_from),
		.n_ports = (uint16_t)v->n_ports,
	};
	struct building b = {.view = v, .self = self};
	struct in6_addr external[MESH_HINTS_MAX];
	char pod_ip[INET6_ADDRSTRLEN];
	struct service *s;
	size_t most = 0;

	take_cluster_ip(&head, v->cluster_ip);
	take_cluster_ip(&head, v->cluster_ip6);
	head.used_ms = mono_ms();
	head.pod_ip = pod_name_address(head.name, pod_ip) ? ip_v4(pod_ip) : 0;
	take_external_ips(&head, &v->external_ips, external);
	random_bytes(&b.seed, sizeof b.seed);
	head.routes = http_routes_ref(v->routes);
	head.n_tls = (uint8_t)v->n_tls;
	head.tls = backend_tls_list_ref(v->tls, v->n_tls);
	read_restriction(&head, v);
	for (size_t i = 0; i < v->n_ports; i++)
		most += v->ports[i].n_endpoints * (v->cloud ? 2u : 1u);
	begin_building(&b, v->n_ports, most);
	for (size_t i = 0; i < v->n_ports; i++)
		take_port(&b, i);
	s = lay_out(&b, &head);
	service_drop_shared(&head);
	return s;
}

/* --- when this node's addresses change ------------------------------------------------------ */

/* Takes away what must not be dialled any more: one of two addresses, or all, with the reason.
 * False: nothing. */
static bool
service_recheck_endpoint(struct endpoint *e, const struct dial_guard *guard)
{
	bool host_network = (e->flags & ENDPOINT_HOST_NETWORK) != 0;
	bool two = !IN6_IS_ADDR_UNSPECIFIED(&e->other);
	enum special_addr why, other;

	if (e->via == VIA_TUNNEL || e->via == VIA_REFUSED)
		return false;
	why = dial_guard_check(guard, &e->ip, host_network);
	other = two ? dial_guard_check(guard, &e->other, host_network) : why;
	if (why == SPECIAL_NONE && other == SPECIAL_NONE)
		return false;
	if (why != SPECIAL_NONE && other != SPECIAL_NONE) {
		e->via = VIA_REFUSED;
		e->tier = (uint8_t)why;
	} else {
		e->ip = why != SPECIAL_NONE ? e->other : e->ip;
		e->flags |= ENDPOINT_HALF;
	}
	e->other = in6addr_any;
	return true;
}

static bool
has_newly_refused(const struct service *s, const struct dial_guard *guard)
{
	for (size_t p = 0; p < s->n_ports; p++)
		for (size_t i = 0; i < service_port_most(&s->ports[p], true); i++) {
			struct endpoint e = s->ports[p].endpoints[i];

			if (service_recheck_endpoint(&e, guard))
				return true;
		}
	return false;
}

static void
recheck_port(struct building *b, size_t at, const struct service_port *from,
	const struct dial_guard *guard)
{
	size_t first = b->n_endpoints, leaving = first;

	b->n_refused = 0;
	note_text(b, from->name);
	note_text(b, from->why);
	for (size_t i = 0; i < service_port_most(from, true) + (size_t)from->n_refused; i++) {
		struct endpoint e = from->endpoints[i];

		service_recheck_endpoint(&e, guard);
		note_endpoint(b, &e);
		if (e.via == VIA_REFUSED)
			b->refused[b->n_refused++] = e;
		else
			b->endpoints[b->n_endpoints++] = e;
		if (i + 1 == from->n_endpoints)
			leaving = b->n_endpoints;
	}
	b->ports[at] = *from;
	b->ports[at].n_endpoints = (uint16_t)(leaving - first);
	b->ports[at].n_leaving = (uint16_t)(b->n_endpoints - leaving);
	place_refused(b, &b->ports[at]);
}

struct service *
service_recheck(const struct service *s, const struct dial_guard *guard)
{
	struct building b = {0};
	size_t most = 0;

	if (!has_newly_refused(s, guard))
		return NULL;
	random_bytes(&b.seed, sizeof b.seed);
	for (size_t i = 0; i < s->n_ports; i++)
		most += service_port_most(&s->ports[i], true) + (size_t)s->ports[i].n_refused;
	begin_building(&b, s->n_ports, most);
	for (size_t i = 0; i < s->n_ports; i++)
		recheck_port(&b, i, &s->ports[i], guard);
	return lay_out(&b, s);
}

bool
service_refused_in_vain(const struct service *s, const struct dial_guard *guard)
{
	for (size_t p = 0; p < s->n_ports; p++) {
		const struct service_port *port = &s->ports[p];

		for (size_t i = 0; i < service_port_most(port, true); i++)
			if ((port->endpoints[i].flags & ENDPOINT_HALF) != 0)
				return true; /* which address that was is not kept */
		for (size_t i = 0; i < port->n_refused; i++) {
			const struct endpoint *e = &service_port_refused(port)[i];

			if (e->tier == SPECIAL_OWN &&
				dial_guard_check(guard, &e->ip, false) == SPECIAL_NONE)
				return true;
		}
	}
	return false;
}
