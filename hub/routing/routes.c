#include "hub/routing/routes.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "hub/port/route.h"
#include "hub/routing/routes_private.h"
#include "model/check.h"
#include "model/pod_name.h"

enum { CANDIDATES_MAX = 8 };

struct routes_finder *
routes_new(const struct routes_config *config)
{
	struct routes_finder *f = xcalloc(1, sizeof *f);

	f->config = *config;
	return f;
}

static void
routes_forget(struct routes_kept *k)
{
	free(take_ptr(&k->key));
	view_free(&k->view);
}

void
routes_free(struct routes_finder **out)
{
	struct routes_finder *f = take_ptr(out);

	if (f == NULL)
		return;
	for (size_t i = 0; i < ROUTES_VIEWS_KEPT; i++)
		routes_forget(&f->kept[i]);
	free(f);
}

/* --- answers -------------------------------------------------------------------------------- */

unsigned
routes_refuse(struct routes *w, unsigned status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->reason, sizeof w->reason, fmt, ap);
	va_end(ap);
	w->n = 0;
	return status;
}

void
routes_set_target(struct routes *w, enum target_kind kind, const char *first, const char *second)
{
	snprintf(w->target_text[0], sizeof w->target_text[0], "%s", first);
	snprintf(w->target_text[1], sizeof w->target_text[1], "%s", second);
	w->target.kind = kind;
	w->target.node = w->target.ns = w->target.host = w->target_text[0];
	w->target.name = w->target_text[1];
}

struct way *
routes_add(struct routes *w, const char *node, const char *host, uint16_t port)
{
	struct way *way = &w->list[w->n++];
	bool v6 = strchr(host, ':') != NULL;

	snprintf(way->node, sizeof way->node, "%s", node);
	snprintf(way->authority, sizeof way->authority, v6 ? "[%s]:%u" : "%s:%u", host, port);
	return way;
}

/* --- nodes and pods ------------------------------------------------------------------------- */

static bool
is_node(const struct routes_finder *f, const char *name)
{
	const char *site, *zone;

	return node_name_ok(name) &&
		(cluster_node(f->config.cluster, name, &site, &zone) == 0 ||
			f->config.at_edge(f->config.arg, name));
}

static unsigned
to_node(struct routes_finder *f, const char *node, uint16_t port, struct routes *w)
{
	const char *address = cluster_node_address(f->config.cluster, node);

	routes_set_target(w, TARGET_NODE, node, "");
	if (routes_at_edge(f, node)) {
		routes_set_beside(routes_add(w, node, node, port), address, port);
		return 0;
	}
	if (*address == '\0')
		return routes_refuse(w, 503,
			"node %s has never joined this hub, and its Node object has no address "
			"that "
			"the hub could dial",
			node);
	routes_add(w, "", address, port);
	return 0;
}

static unsigned
routes_ambiguous(struct routes *w, const char *host, const struct cluster_place *places, size_t n)
{
	size_t shown = MIN(n, (size_t)CANDIDATES_MAX), at;

	routes_refuse(w, 421, "%s belongs to %zu:", host, n);
	for (size_t i = 0; i < shown; i++) {
		const struct cluster_place *p = &places[i];

		at = strlen(w->reason);
		snprintf(w->reason + at, sizeof w->reason - at, "%s %s%s%s%s%s", i > 0 ? "," : "",
			*p->pod != '\0' ? "pod " : "node ", *p->pod != '\0' ? p->ns : p->node,
			*p->pod != '\0' ? "/" : "", p->pod, *p->pod != '\0' ? " on " : "");
		at = strlen(w->reason);
		if (*p->pod != '\0')
			snprintf(w->reason + at, sizeof w->reason - at, "%s", p->node);
	}
	at = strlen(w->reason);
	snprintf(w->reason + at, sizeof w->reason - at, "%s; use a node's name",
		n > shown ? ", ..." : "");
	return 421;
}

/* Finds who has the address: 0 found, 404 nobody. */
static unsigned
to_address(struct routes_finder *f, const char *host, uint16_t port, struct routes *w)
{
	struct cluster_place places[CANDIDATES_MAX];
	size_t n = cluster_places(f->config.cluster, host, places, CANDIDATES_MAX);

	if (n == 0)
		return 404;
	if (n > 1)
		return routes_ambiguous(w, host, places, n);
	if (*places->pod == '\0')
		return to_node(f, places->node, port, w);
	routes_set_target(w, TARGET_POD, places->ns, places->pod);
	routes_add(w, routes_at_edge(f, places->node) ? places->node : "", host, port);
	return 0;
}

/* --- services ------------------------------------------------------------------------------- */

static const struct view *
keep_view(struct routes_finder *f, const struct fanout_item *item)
{
	struct routes_kept *k = &f->kept[f->next];
	struct view *view = NULL;

	for (size_t i = 0; i < ROUTES_VIEWS_KEPT; i++)
		if (f->kept[i].key != NULL && f->kept[i].digest == item->digest &&
			strcmp(f->kept[i].key, item->key) == 0)
			return f->kept[i].view;
	if (view_parse(&view, item->content, item->content_len, NULL) < 0)
		return NULL;
	f->next = (f->next + 1) % ROUTES_VIEWS_KEPT;
	routes_forget(k);
	*k = (struct routes_kept){.key = xstrdup(item->key), .digest = item->digest, .view = view};
	return view;
}

static bool
routes_serves(const struct view_endpoint *e, bool ready)
{
	if (ready)
		return (e->flags & ENDPOINT_READY) != 0;
	return (e->flags & ENDPOINT_SERVING) != 0;
}

/* How well a call from here can reach the endpoint: 3 now, 2 through a neighbour, 1 perhaps, 0 not
 * at all. */
static int
routes_rank(const struct routes_finder *f, const struct view_endpoint *e)
{
	if (e->pod_port == 0 && e->given_port == 0)
		return 0;
	if (!routes_at_edge(f, e->node) || f->config.tunnelled(f->config.arg, e->node))
		return 3;
	return e->host_port != 0 && routes_has_neighbour(f, e->node) ? 2 : 1;
}

static void
add_address(const struct routes_finder *f, struct routes *w, const struct view_endpoint *e,
	const char *ip)
{
	bool pod = e->pod_port != 0;
	struct way *way = routes_add(w, routes_at_edge(f, e->node) ? e->node : "", ip,
		pod ? e->pod_port : e->given_port);

	way->without_pod = !pod;
	way->given = !pod ||
		!cluster_pod_serves(f->config.cluster,
			&(struct cluster_place){.ns = w->target.ns, .pod = e->pod}, ip, e->pod_port,
			w->udp);
	if (*way->node != '\0')
		routes_set_beside(way, e->host_ip, e->host_port);
}

/* A node knows its endpoint's other address by itself. */
static void
add_endpoint(const struct routes_finder *f, struct routes *w, const struct view_endpoint *e)
{
	const char *other = e->pod_port != 0 ? e->other_pod_ip : e->other_given_ip;

	add_address(f, w, e, e->pod_port != 0 ? e->pod_ip : e->given_ip);
	if (other != NULL && *other != '\0' && w->n < ROUTES_MAX && !routes_at_edge(f, e->node))
		add_address(f, w, e, other);
}

static bool
is_closed(const struct view_endpoint *e, uint64_t closed)
{
	return e->gate > 0 && (closed >> (e->gate - 1) & 1) != 0;
}

static void
add_endpoints(struct routes_finder *f, struct routes *w, const struct view_port *p, uint64_t closed,
	bool ready)
{
	for (int want = 3; want > 0; want--) {
		size_t first = p->n_endpoints > 0 ? f->turn % p->n_endpoints : 0;

		for (size_t i = 0; i < p->n_endpoints && w->n < ROUTES_MAX; i++) {
			const struct view_endpoint *e = &p->endpoints[(first + i) % p->n_endpoints];

			if (routes_serves(e, ready) && routes_rank(f, e) == want &&
				!is_closed(e, closed))
				add_endpoint(f, w, e);
		}
	}
}

/* Nodes need a rule for endpoints that no Pod stands for. */
static void
routes_mark_cloud(const struct routes_finder *f, struct routes *w)
{
	bool without_pod = f->caller != NULL && f->caller->node[0] != '\0' && w->n > 0;

	for (size_t i = 0; i < w->n; i++)
		without_pod = without_pod && w->list[i].without_pod;
	if (without_pod)
		w->target.kind = TARGET_CLOUD_SERVICE;
}

static unsigned
to_service(struct routes_finder *f, const struct fanout_item *item, uint16_t port, struct routes *w)
{
	const struct view *v = keep_view(f, item);
	const struct view_port *p = NULL;
	uint64_t closed;
	unsigned status;

	if (v == NULL)
		return routes_refuse(w, 503, "the service %s cannot be read", item->key);
	routes_set_target(w, TARGET_SERVICE, v->ns, v->name);
	snprintf(w->service, sizeof w->service, "%s", item->key);
	w->encrypted = v->lb.encrypt != ENCRYPT_DEFAULT && v->lb.encrypt != ENCRYPT_OFF;
	for (size_t i = 0; i < v->n_ports; i++)
		if (v->ports[i].port == port && (v->ports[i].mode == PORT_UDP) == w->udp)
			p = &v->ports[i];
	if (p == NULL)
		return routes_refuse(w, 404, "the service %s has no %s port %u", item->key,
			w->udp ? "UDP" : "TCP", port);
	if ((status = routes_permit(f, v, &closed, w)) != 0)
		return status;
	f->turn++;
	add_endpoints(f, w, p, closed, true);
	if (w->n == 0)
		add_endpoints(f, w, p, closed, false);
	if (w->n == 0 && closed != 0)
		return routes_refuse(w, 403,
			"a NetworkPolicy keeps this caller from the endpoints of service %s",
			item->key);
	if (w->n == 0)
		return routes_refuse(
			w, 503, "the service %s has no endpoint at port %u", item->key, port);
	routes_mark_cloud(f, w);
	return 0;
}

static struct fanout_item *
find_key(const struct routes_finder *f, const char *key)
{
	struct fanout_item *item = fanout_find(f->config.fanout, key);

	return item != NULL && item->present ? item : NULL;
}

static struct fanout_item *
find_service(const struct routes_finder *f, const char *ns, const char *name)
{
	auto_free char *key = xasprintf("%s/%s", ns, name);

	return find_key(f, key);
}

/* `host` without `.suffix`, allocated; NULL if it does not end in that. */
static char *
routes_without(const char *host, const char *suffix)
{
	size_t n = strlen(host), m = strlen(suffix);

	if (m == 0 || n <= m + 1 || host[n - m - 1] != '.' || strcasecmp(host + n - m, suffix) != 0)
		return NULL;
	return xstrndup(host, n - m - 1);
}

/* "namespace/name" of SERVICE.NAMESPACE[.svc[.DOMAIN]], also of a service with the name of a pod:
 * allocated. NULL: the name has another form. */
static char *
routes_service_key(const struct routes_finder *f, const char *host)
{
	auto_free char *domain = xasprintf("svc.%s", f->config.cluster_domain);
	auto_free char *name = routes_without(host, domain);
	char *dot;

	if (name == NULL)
		name = routes_without(host, "svc");
	if (name == NULL)
		name = xstrdup(host);
	dot = strrchr(name, '.');
	if (dot == NULL)
		return NULL;
	*dot = '\0';
	return xasprintf("%s/%s", dot + 1, name);
}

static struct fanout_item *
find_name(const struct routes_finder *f, const char *host)
{
	auto_free char *key = routes_service_key(f, host);

	return key != NULL ? find_key(f, key) : NULL;
}

const char *
routes_service(const struct routes_finder *f, const char *host)
{
	const struct fanout_item *item = find_name(f, host);

	return item != NULL ? item->key : NULL;
}

static bool
routes_have_read(const struct routes_finder *f)
{
	return f->config.services_known == NULL || f->config.services_known(f->config.arg);
}

/* Before the Services have been read: names of nodes with more dots are no Service's. */
static bool
routes_may_be_service(const struct routes_finder *f, const char *host)
{
	auto_free char *key = routes_service_key(f, host);

	return !routes_have_read(f) && key != NULL && strchr(key, '.') == NULL;
}

/* --- lookup --------------------------------------------------------------------------------- */

static void
routes_fold(char *to, size_t size, const char *host)
{
	size_t n = strlen(host);

	if (n > 0 && host[n - 1] == '.')
		n--;
	n = MIN(n, size - 1);
	for (size_t i = 0; i < n; i++)
		to[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] + 32 : host[i]);
	to[n] = '\0';
}

static unsigned
routes_no_service(struct routes *w, const char *host)
{
	return routes_refuse(
		w, 404, "there is no Service %s: expected SERVICE.NAMESPACE or a ClusterIP", host);
}

static unsigned
routes_unread(struct routes *w, const char *host)
{
	return routes_refuse(w, 503,
		"the hub has not read its objects yet, and %s could be the address of any", host);
}

static unsigned
find_ip(struct routes_finder *f, const char *host, const struct in6_addr *ip,
	enum routes_names names, struct routes *w)
{
	const char *ns, *name;
	struct fanout_item *item;
	const bool of_service = cluster_service_at(f->config.cluster, host, &ns, &name);
	unsigned status;

	/* Services come first: nodes and pods report their own addresses, and might claim a
	 * ClusterIP. */
	if (of_service && (item = find_service(f, ns, name)) != NULL)
		return to_service(f, item, w->target.port, w);
	/* A network of a rule to cloud/... may have nodes in it: they are no part of that. */
	if (!routes_have_read(f) && !ip_is_loopback(ip) &&
		!acl_names_address(f->config.access, NULL, ip, w->target.port))
		return routes_unread(w, host);
	if (!of_service && names != ROUTES_SERVICES &&
		(status = to_address(f, host, w->target.port, w)) != 404) {
		return status;
	}
	if (names == ROUTES_SERVICES)
		return routes_no_service(w, host);
	if (ip_is_loopback(ip))
		return routes_refuse(w, 403, "%s is the hub itself; use a node's name", host);
	if ((status = routes_to_site(f, host, ip, w)) != 404)
		return status;
	routes_set_target(w, TARGET_CLOUD, host, "");
	routes_add(w, "", host, w->target.port);
	return 0;
}

static unsigned
routes_find_name(struct routes_finder *f, const struct routes_wish *wish, struct routes *w)
{
	const char *host = wish->host;
	uint16_t port = wish->port;
	char name[CALLER_HOST_MAX + 1];
	auto_free char *short_name = NULL;
	struct fanout_item *item;
	struct in6_addr ip;
	unsigned status;

	w->target.port = port;
	if (port == 0 || strlen(host) > CALLER_HOST_MAX)
		return routes_refuse(w, 400, "expected HOST:PORT");
	routes_fold(name, sizeof name, host);
	if (ip_parse(name, &ip))
		return find_ip(f, name, &ip, wish->names, w);
	/* Services come first here as well: whoever has a certificate of such a name would get
	 * their calls. */
	if (wish->names != ROUTES_NODES && (item = find_name(f, name)) != NULL)
		return to_service(f, item, port, w);
	if (wish->names == ROUTES_SERVICES)
		return routes_no_service(w, name);
	short_name = routes_without(name, f->config.suffix);
	if (short_name != NULL && is_node(f, short_name))
		return to_node(f, short_name, port, w);
	if (is_node(f, name)) {
		if (wish->names == ROUTES_ANY && routes_may_be_service(f, name))
			return routes_refuse(w, 503,
				"the hub has not read its Services yet, and %s could be one", name);
		return to_node(f, name, port, w);
	}
	status = to_address(f, name, port, w);
	if (status == 404)
		return routes_refuse(w, 404, "%s is neither a node, nor an address of one%s", name,
			wish->names == ROUTES_ANY ? ", nor SERVICE.NAMESPACE" : "");
	return status;
}

static bool
is_hub_itself(const struct way *way)
{
	struct addr a;

	if (*way->node != '\0' || addr_parse(&a, way->authority, 0, NULL) < 0)
		return false;
	return a.sa.sa_family == AF_INET ? ntohl(a.in.sin_addr.s_addr) >> 24 == 127
					 : ip_is_loopback(&a.in6.sin6_addr);
}

/* Loopback is the hub itself, whatever a Node, a pod or an EndpointSlice says: programs that listen
 * there do not check their callers. */
static unsigned
leave_out_itself(struct routes *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n; i++)
		if (!is_hub_itself(&w->list[i]))
			w->list[kept++] = w->list[i];
	if (kept == 0 && w->n > 0)
		return routes_refuse(w, 403,
			"%s is the hub itself, whatever the cluster says of this target",
			w->list[0].authority);
	w->n = kept;
	return 0;
}

/* While it is not known which nodes are at the edge, the hub dials no node and no pod: in the hub's
 * own network the address belongs to someone else. */
static unsigned
routes_settle(const struct routes_finder *f, struct routes *w, unsigned status)
{
	if (status == 0)
		status = leave_out_itself(w);
	if (status != 0 || w->target.kind == TARGET_CLOUD || f->config.edge_known == NULL ||
		f->config.edge_known(f->config.arg))
		return status;
	for (size_t i = 0; i < w->n; i++)
		if (*w->list[i].node == '\0')
			return routes_refuse(w, 503,
				"the hub's authority waits, see /readyz: it is not known yet which "
				"nodes are at the edge");
	return 0;
}

unsigned
routes_find_as(struct routes_finder *f, const struct routes_wish *wish, struct routes *w)
{
	memset(w, 0, sizeof *w);
	w->udp = wish->udp;
	return routes_settle(f, w, routes_find_name(f, wish, w));
}

unsigned
routes_find(struct routes_finder *f, const char *host, uint16_t port, struct routes *w)
{
	return routes_find_as(f, &(struct routes_wish){.host = host, .port = port}, w);
}

/* --- an address as a node sees it ----------------------------------------------------------- */

/* Returns true if the Node object lists this address; otherwise sets *other to a node of the same
 * site that lists it, or "". */
static bool
is_own(const struct routes_finder *f, const char *node, const char *host, const char **other)
{
	struct cluster_place places[CANDIDATES_MAX];
	size_t n = cluster_places(f->config.cluster, host, places, CANDIDATES_MAX);
	const char *site, *its, *zone;
	bool own = false;

	*other = "";
	cluster_node(f->config.cluster, node, &site, &zone);
	for (size_t i = 0; i < MIN(n, (size_t)CANDIDATES_MAX); i++) {
		if (*places[i].pod != '\0')
			continue;
		own |= strcmp(places[i].node, node) == 0;
		cluster_node(f->config.cluster, places[i].node, &its, &zone);
		if (strcmp(its, site) == 0)
			*other = places[i].node;
	}
	return own;
}

/* An address as the node sees it: its own, or that of another machine. */
static unsigned
to_address_at(struct routes_finder *f, const char *node, const char *host, struct routes *w)
{
	struct in6_addr ip = {0};
	const char *other;
	bool own = is_own(f, node, host, &other);
	struct way *way;

	ip_parse(host, &ip);
	own |= ip_is_loopback(&ip);
	if (!own && *other != '\0' && routes_declares(f, node, other))
		return to_node(f, other, w->target.port, w);
	if (!own && routes_to_declared(f, node, &ip, w))
		return 0;
	routes_set_target(w, TARGET_NODE, node, "");
	way = routes_add(w, node, host, w->target.port);
	if (own)
		routes_set_beside(
			way, cluster_node_address(f->config.cluster, node), w->target.port);
	return 0;
}

unsigned
routes_find_at(struct routes_finder *f, const char *node, const char *dest, struct routes *w)
{
	char name[CALLER_HOST_MAX + 1], host[INET6_ADDRSTRLEN] = "";
	struct cluster_place pod;
	struct in6_addr ip;
	struct addr addr;

	memset(w, 0, sizeof *w);
	routes_fold(name, sizeof name, node);
	if (!is_node(f, name))
		return routes_refuse(w, 404, "%s is not a node", name);
	if (addr_parse(&addr, dest, 0, NULL) < 0 || addr.sa.sa_family == AF_UNIX ||
		(w->target.port = addr_port(&addr)) == 0)
		return routes_refuse(w, 400, "\"%.80s\" is not IP:PORT", dest);
	if (!routes_at_edge(f, name))
		return routes_refuse(w, 503, "node %s has no tunnel", name);
	if (addr.sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &addr.in.sin_addr, host, sizeof host);
	else
		inet_ntop(AF_INET6, &addr.in6.sin6_addr, host, sizeof host);
	if (!cluster_pod_at(f->config.cluster, name, host, &pod)) {
		if (!routes_have_read(f) && !(ip_parse(host, &ip) && ip_is_loopback(&ip)))
			return routes_unread(w, host);
		return to_address_at(f, name, host, w);
	}
	routes_set_target(w, TARGET_POD, pod.ns, pod.pod);
	routes_add(w, name, host, w->target.port);
	return 0;
}

/* --- one endpoint of a service -------------------------------------------------------------- */

static bool
routes_is_at(const char *text, const struct in6_addr *ip)
{
	struct in6_addr its;

	return text != NULL && ip_parse(text, &its) && memcmp(&its, ip, sizeof its) == 0;
}

/* Has the endpoint this address, as the Service's own objects say? */
static bool
routes_endpoint_is(const struct view_endpoint *e, const struct in6_addr *ip, uint16_t port)
{
	if (e->pod_port != 0)
		return e->pod_port == port && routes_is_at(e->pod_ip, ip);
	return e->given_port == port &&
		(routes_is_at(e->given_ip, ip) || routes_is_at(e->other_given_ip, ip));
}

static bool
routes_port_opens(const struct routes_finder *f, const struct view *v,
	const struct view_endpoint *e, uint16_t port, const struct caller *asker)
{
	return acl_check(f->config.access, asker,
		&(struct acl_target){
			.kind = e->pod_port != 0 ? TARGET_SERVICE : TARGET_CLOUD_SERVICE,
			.ns = v->ns,
			.name = v->name,
			.port = port,
		});
}

/* Several ports of the Service may lead to the endpoint, and rules open some of them: *port is the
 * first that is open to the asker, or else the first. */
static const struct view_endpoint *
find_endpoint(const struct routes_finder *f, const struct view *v,
	const struct routes_endpoint *wanted, uint16_t *port)
{
	const struct view_endpoint *found = NULL;
	struct caller asker;
	struct in6_addr ip;
	struct addr at;
	bool open;

	caller_node(&asker, wanted->asker);
	if (addr_parse(&at, wanted->at, 0, NULL) < 0 || !addr_ip(&at, &ip) || addr_port(&at) == 0)
		return NULL;
	for (size_t i = 0; i < v->n_ports; i++)
		for (size_t k = 0; k < v->ports[i].n_endpoints; k++) {
			const struct view_endpoint *e = &v->ports[i].endpoints[k];

			if (strcmp(e->node != NULL ? e->node : "", wanted->node) != 0 ||
				(v->ports[i].mode == PORT_UDP) != wanted->udp ||
				!routes_endpoint_is(e, &ip, addr_port(&at)))
				continue;
			open = routes_port_opens(f, v, e, v->ports[i].port, &asker);
			if (found == NULL || open) {
				found = e;
				*port = v->ports[i].port;
			}
			if (open)
				return found;
		}
	return found;
}

/* The service's item, if edgeway.io/nodes selects the node. */
static const struct fanout_item *
service_of(const struct routes_finder *f, const char *service, const char *asker)
{
	const struct fanout_item *item = fanout_find(f->config.fanout, service);

	if (item == NULL || !item->present ||
		!selector_matches(item->nodes, cluster_node_labels(f->config.cluster, asker)))
		return NULL;
	return item;
}

static void
routes_want_port(struct routes_finder *f, const struct routes_endpoint *wanted, const char *address,
	uint16_t port)
{
	const char *slash = strchr(wanted->service, '/');
	auto_free char *ns = xstrndup(wanted->service, (size_t)(slash - wanted->service));
	uint64_t hash = hash64(wanted->asker, strlen(wanted->asker), 0);

	if (rate_count_take(&f->pods_wanted[hash % ROUTES_PODS_COUNTERS], ROUTES_PODS_PER_S,
		    ROUTES_PODS_BURST, mono_ms()))
		f->config.want_pod(f->config.arg, ns, address, port, wanted->asker);
	else
		log_limited(LOG_LEVEL_WARN, 4, "hub",
			"a node asks for pods by their address too often: this one is not looked "
			"up node=%s pod=%.200s",
			wanted->asker, wanted->service);
}

/* Whom the pod admits its view says; who may not call it is not given a port. */
static void
routes_want_pod(struct routes_finder *f, const struct routes_endpoint *wanted, struct routes *w)
{
	const char *slash = strchr(wanted->service, '/');
	char address[INET6_ADDRSTRLEN];
	struct fanout_item *item;
	const struct view *v;
	uint64_t closed;
	struct addr at;
	uint16_t port;

	if (f->config.want_pod == NULL || slash == NULL || !pod_name_address(slash + 1, address) ||
		addr_parse(&at, wanted->at, 0, NULL) < 0)
		return;
	item = fanout_find(f->config.fanout, wanted->service);
	if (item == NULL || !item->present) {
		routes_want_port(f, wanted, address, 0);
		item = fanout_find(f->config.fanout, wanted->service);
	}
	if (item == NULL || !item->present || (v = keep_view(f, item)) == NULL)
		return;
	fanout_touch_pod(f->config.fanout, item);
	if (!wanted->udp && find_endpoint(f, v, wanted, &port) == NULL &&
		routes_permit(f, v, &closed, w) == 0)
		routes_want_port(f, wanted, address, addr_port(&at));
}

void
routes_pass(struct routes_finder *f, const struct routes_endpoint *wanted)
{
	struct routes none = {0};

	routes_for(f, NULL);
	routes_want_pod(f, wanted, &none);
}

unsigned
routes_find_endpoint(
	struct routes_finder *f, const struct routes_endpoint *wanted, struct routes *w)
{
	const struct fanout_item *item;
	const struct view *v;
	const struct view_endpoint *e;
	uint16_t port = 0;
	uint64_t closed;
	unsigned status;

	routes_want_pod(f, wanted, w);
	item = service_of(f, wanted->service, wanted->asker);
	v = item != NULL ? keep_view(f, item) : NULL;
	memset(w, 0, sizeof *w);
	w->udp = wanted->udp;
	if (v == NULL)
		return routes_refuse(w, 404, "%.200s is no service",
			*wanted->service != '\0' ? wanted->service : "\"\"");
	routes_set_target(w, TARGET_SERVICE, v->ns, v->name);
	snprintf(w->service, sizeof w->service, "%s", item->key);
	w->encrypted = v->lb.encrypt != ENCRYPT_DEFAULT && v->lb.encrypt != ENCRYPT_OFF;
	e = find_endpoint(f, v, wanted, &port);
	if (e == NULL)
		return routes_refuse(w, 404, "the service %s has no endpoint %.60s%s%.100s",
			item->key, wanted->at, *wanted->node != '\0' ? " on " : "", wanted->node);
	w->target.port = port;
	if ((status = routes_permit(f, v, &closed, w)) != 0)
		return status;
	if (is_closed(e, closed))
		return routes_refuse(w, 403,
			"a NetworkPolicy keeps the pods of node %s from pod %s/%s", wanted->asker,
			v->ns, e->pod);
	/* If the pod does not have the address, the EndpointSlice may name anything in the hub's
	 * own network. */
	if (e->pod_port != 0 && !routes_at_edge(f, e->node) &&
		!cluster_pod_has(f->config.cluster, v->ns, e->pod, e->pod_ip))
		return routes_refuse(
			w, 404, "the pod %s/%s has no address %s", v->ns, e->pod, e->pod_ip);
	add_endpoint(f, w, e);
	routes_mark_cloud(f, w);
	return routes_settle(f, w, 0);
}
