#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "model/check.h"
#include "model/view.h"

/*
 * Two passes: the first chooses endpoints and collects each text once, the second lays service,
 * ports, endpoints and texts into one allocation. A node keeps 10 000 of these: their size is what
 * counts.
 */
struct building {
	const struct view *view;
	const struct self *self;
	struct endpoint *endpoints; /* of all ports, texts pointing into the view */
	size_t n_endpoints;
	struct service_port *ports;
	/* Every distinct text and its place: a table with open addressing. */
	const char **texts;
	char **places;
	size_t n_slots, text_bytes;
};

static const char *
plain(const char *text)
{
	return text != NULL ? text : "";
}

static bool
same(const char *a, const char *b)
{
	return strcmp(plain(a), plain(b)) == 0;
}

static size_t
text_slot(const struct building *b, const char *text)
{
	size_t i = hash64(text, strlen(text), 0) & (b->n_slots - 1);

	while (b->texts[i] != NULL && strcmp(b->texts[i], text) != 0)
		i = (i + 1) & (b->n_slots - 1);
	return i;
}

static void
note_text(struct building *b, const char *text)
{
	size_t slot;

	if (*plain(text) == '\0')
		return;
	slot = text_slot(b, text);
	if (b->texts[slot] == NULL) {
		b->texts[slot] = text;
		b->text_bytes += strlen(text) + 1;
	}
}

/* The text's place in the service, copied there when it is asked for first. */
static const char *
place_text(struct building *b, const char *text, char **end)
{
	size_t slot, len;

	if (*plain(text) == '\0')
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
	return *plain(e->node) != '\0' && same(e->node, self->node);
}

static bool
set_way(struct endpoint *e, enum endpoint_via via, const char *ip, uint16_t port)
{
	if (port == 0 || !ip_parse(plain(ip), &e->ip))
		return false;
	e->via = (uint8_t)via;
	e->port = port;
	return true;
}

/* How this node reaches the endpoint; VIA_TUNNEL when it has no way of its own, and then port 0 when the hub is none either. */
static void
choose_way(struct endpoint *e, const struct view_endpoint *from, const struct self *self)
{
	bool own = is_own(from, self);
	struct in6_addr there;

	*e = (struct endpoint){
		.tier = TIER_REST,
		.flags = from->flags & (ENDPOINT_READY | ENDPOINT_SERVING | ENDPOINT_TERMINATING),
		.node = plain(from->node),
		.hostname = plain(from->hostname),
		.far = "",
	};
	if (own)
		e->flags |= ENDPOINT_LOCAL;
	if (own && set_way(e, VIA_POD, from->pod_ip, from->pod_port))
		return;
	if (set_way(e, VIA_GIVEN, from->given_ip, from->given_port))
		return;
	if (own || same(from->site, self->site)) {
		if (set_way(e, VIA_HOST, from->host_ip, from->host_port) &&
			(own || !ip_is_loopback(&e->ip)))
			return;
	} else if (set_way(e, VIA_HOST, from->public_ip, from->host_port)) {
		return;
	} else if (from->node_public && set_way(e, VIA_HOST, from->host_ip, from->host_port) &&
		!ip_is_loopback(&e->ip)) {
		return;
	}
	e->via = VIA_TUNNEL;
	e->tier = TIER_TUNNEL;
	e->port = from->pod_port;
	if (!self->forward || from->pod_port == 0 || *e->node == '\0' || own ||
		!ip_parse(plain(from->pod_ip), &there)) {
		e->port = 0;
		return;
	}
	if (!IN6_IS_ADDR_V4MAPPED(&there))
		e->far = from->pod_ip;
	e->ip = endpoint_far(e->node, &there);
}

static bool
is_ready(uint8_t flags)
{
	return (flags & ENDPOINT_READY) != 0;
}

static bool
is_leaving(uint8_t flags)
{
	return (flags & (ENDPOINT_SERVING | ENDPOINT_TERMINATING)) ==
		(ENDPOINT_SERVING | ENDPOINT_TERMINATING);
}

/* --- which go first -------------------------------------------------------- */

/* What this node prefers at one port. */
struct preference {
	bool node_hints, zone_hints; /* kube-proxy would follow them */
	bool own_node, own_zone; /* the service asks for it */
};

/* kube-proxy's rule: hints count where every ready endpoint has some and one is for us. */
static bool
hints_count(const struct view_port *p, size_t offset, const char *self)
{
	bool ours = false;

	for (size_t i = 0; i < p->n_endpoints; i++) {
		const struct view_endpoint *e = &p->endpoints[i];
		const struct view_names *hints = (const void *)((const char *)e + offset);

		if (!is_ready(e->flags))
			continue;
		if (hints->n == 0)
			return false;
		ours = ours || view_names_hold(hints, self);
	}
	return ours;
}

static struct preference
prefer(const struct building *b, const struct view_port *p)
{
	const char *node = plain(b->self->node), *zone = plain(b->self->zone);

	return (struct preference){
		.node_hints = hints_count(p, offsetof(struct view_endpoint, hint_nodes), node),
		.zone_hints = hints_count(p, offsetof(struct view_endpoint, hint_zones), zone),
		.own_node = b->view->distribution == DISTRIBUTE_NODE,
		.own_zone = b->view->distribution != DISTRIBUTE_ALL && *zone != '\0',
	};
}

/* Hints decide where they count, else what the service asks for. The others stay, behind: the first
 * ones may all be dead, or beyond reach from here. */
static enum endpoint_tier
choose_tier(const struct preference *p, const struct view_endpoint *from, const struct self *self)
{
	if (p->node_hints ? view_names_hold(&from->hint_nodes, self->node)
			  : p->own_node && is_own(from, self))
		return TIER_NODE;
	if (p->zone_hints ? view_names_hold(&from->hint_zones, self->zone)
			  : p->own_zone && same(from->zone, self->zone))
		return TIER_ZONE;
	return TIER_REST;
}

/* The lower tiers first, else as they stand: in as many passes as there are tiers. */
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

/* --- building --------------------------------------------------------------- */

/* Adds those endpoints of the port that `wanted` accepts; returns how many cannot be reached. */
static size_t
take_endpoints(struct building *b, const struct view_port *from, bool (*wanted)(uint8_t flags))
{
	struct preference preference = prefer(b, from);
	size_t unreachable = 0, first = b->n_endpoints;

	for (size_t i = 0; i < from->n_endpoints; i++) {
		struct endpoint e;

		if (!wanted(from->endpoints[i].flags) ||
			(b->view->local_only && !is_own(&from->endpoints[i], b->self)))
			continue;
		choose_way(&e, &from->endpoints[i], b->self);
		if (e.via == VIA_TUNNEL && e.port == 0) {
			unreachable++;
			continue;
		}
		if (e.via != VIA_TUNNEL)
			e.tier = (uint8_t)choose_tier(&preference, &from->endpoints[i], b->self);
		note_text(b, e.node);
		note_text(b, e.hostname);
		note_text(b, e.far);
		b->endpoints[b->n_endpoints++] = e;
	}
	sort_tiers(b, first);
	return unreachable;
}

static void
take_port(struct building *b, size_t i)
{
	const struct view_port *from = &b->view->ports[i];
	size_t before = b->n_endpoints, unreachable, leaving = 0;

	note_text(b, from->name);
	unreachable = take_endpoints(b, from, is_ready);
	if (b->n_endpoints == before)
		leaving = take_endpoints(b, from, is_leaving);
	if (unreachable == 0)
		unreachable = leaving;
	b->ports[i] = (struct service_port){
		.name = plain(from->name),
		.port = from->port,
		.mode = from->mode,
		.extra = from->extra,
		.n_endpoints = (uint16_t)(b->n_endpoints - before),
		.n_unreachable = (uint16_t)unreachable,
	};
}

static struct service *
lay_out(struct building *b)
{
	const struct view *v = b->view;
	size_t ports_at = sizeof(struct service);
	size_t endpoints_at = ports_at + v->n_ports * sizeof(struct service_port);
	size_t texts_at = endpoints_at + b->n_endpoints * sizeof(struct endpoint);
	char *block = xmalloc(texts_at + b->text_bytes);
	char *end = block + texts_at;
	struct service *s = (void *)block;
	struct service_port *ports = (void *)(block + ports_at);
	struct endpoint *endpoints = (void *)(block + endpoints_at);
	size_t next = 0;

	*s = (struct service){
		.namespace = place_text(b, v->ns, &end),
		.name = place_text(b, v->name, &end),
		.external_name = place_text(b, v->external_name, &end),
		.hash_key = place_text(b, v->hash_key, &end),
		.health_path = place_text(b, v->health_path, &end),
		.n_ports = (uint16_t)v->n_ports,
		.ports = ports,
	};
	for (size_t i = 0; i < v->n_ports; i++) {
		ports[i] = b->ports[i];
		ports[i].name = place_text(b, b->ports[i].name, &end);
		ports[i].endpoints = &endpoints[next];
		next += ports[i].n_endpoints;
	}
	for (size_t i = 0; i < b->n_endpoints; i++) {
		endpoints[i] = b->endpoints[i];
		endpoints[i].node = place_text(b, b->endpoints[i].node, &end);
		endpoints[i].hostname = place_text(b, b->endpoints[i].hostname, &end);
		endpoints[i].far = place_text(b, b->endpoints[i].far, &end);
	}
	assert(end == block + texts_at + b->text_bytes);
	return s;
}

static bool
names_pods(const struct view *v)
{
	/* The view of such a name itself has none below. */
	if (!v->headless || strchr(plain(v->name), '.') != NULL)
		return false;
	for (size_t i = 0; i < v->n_ports; i++)
		for (size_t k = 0; k < v->ports[i].n_endpoints; k++)
			if (*plain(v->ports[i].endpoints[k].hostname) != '\0')
				return true;
	return false;
}

struct service *
service_build(const struct view *v, const struct self *self, uint32_t fake_ip, uint64_t digest)
{
	struct building b = {.view = v, .self = self};
	size_t most = 0;
	struct service *s;

	for (size_t i = 0; i < v->n_ports; i++)
		most += v->ports[i].n_endpoints;
	for (b.n_slots = 8; b.n_slots < 2 * (5 + v->n_ports + 3 * most);)
		b.n_slots *= 2;
	b.texts = xcalloc(b.n_slots, sizeof *b.texts);
	b.places = xcalloc(b.n_slots, sizeof *b.places);
	b.endpoints = xcalloc(most + 1, sizeof *b.endpoints);
	b.ports = xcalloc(v->n_ports + 1, sizeof *b.ports);
	note_text(&b, v->ns);
	note_text(&b, v->name);
	note_text(&b, v->external_name);
	note_text(&b, v->hash_key);
	note_text(&b, v->health_path);
	for (size_t i = 0; i < v->n_ports; i++)
		take_port(&b, i);
	s = lay_out(&b);
	atomic_init(&s->refs, 1);
	s->digest = digest;
	s->fake_ip = fake_ip;
	s->cluster_ip = ip_v4(plain(v->cluster_ip));
	s->headless = v->headless;
	s->named_pods = names_pods(v);
	s->lb = v->lb;
	free(b.ports);
	free(b.endpoints);
	free(b.places);
	free(b.texts);
	return s;
}
