#include "hub/names/naming.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "dns/dns.h"
#include "hub/names/hosts_map.h"
#include "hub/port/route.h"
#include "hub/sync/node_book.h"
#include "model/check.h"
#include "model/json.h"

enum { PORT = 53 };

struct naming {
	struct naming_config config;
	struct zone_server *server; /* NULL: no zone */
	char *zone, *listen;
	struct hosts_map *hosts; /* NULL: none */
	struct timer *tick; /* for `hosts` */
	/* of the ingress: configured, or a Service's */
	struct in6_addr addresses[NAME_ADDRESSES_MAX];
	size_t n_addresses;
	char *service_ns, *service; /* NULL: configured addresses */
	struct node_book *book;
	uint64_t book_changes, book_ms; /* the counter and the time when the book was built */
	uint64_t told; /* counter of the changes that were passed to `hosts` */
	uint32_t serial; /* of the zone at the start */
	const char *note; /* what is configured but not done, and why; "": nothing */
};

/* --- the nodes ------------------------------------------------------------------------------ */

/* Increases with every change of the book's sources. */
static uint64_t
naming_changes(const struct naming *n)
{
	return cluster_node_changes(n->config.cluster) + n->config.joined_changes(n->config.arg) +
		1;
}

static void
make_book(struct naming *n)
{
	char **joined = NULL;
	size_t count = n->config.joined(n->config.arg, &joined);

	node_book_free(&n->book);
	n->book = node_book_new(n->config.cluster, joined, count);
	n->book_changes = naming_changes(n);
	n->book_ms = loop_now_ms(n->config.loop);
	for (size_t i = 0; i < count; i++)
		free(joined[i]);
	free(joined);
}

/* Rebuilds the book after a change, but not for each of a thousand nodes that come one after
 * another. Returns true if the book is up to date. */
static bool
use_book(struct naming *n)
{
	if (n->book != NULL && n->book_changes == naming_changes(n))
		return true;
	if (n->book != NULL && loop_now_ms(n->config.loop) - n->book_ms < NAMING_BOOK_MS)
		return false;
	make_book(n);
	return true;
}

static bool
is_node(const struct naming *n, const char *name, bool of_now)
{
	const char *site, *zone;

	if (cluster_node(n->config.cluster, name, &site, &zone) == 0 ||
		n->config.is_heard_of(n->config.arg, name))
		return true;
	if (of_now)
		return node_book_find(n->book, name) != NULL;
	return node_name_ok(name) && n->config.at_edge(n->config.arg, name);
}

/* --- the ingress ---------------------------------------------------------------------------- */

/* Returns how many; 0: a Service without an address. */
static size_t
edge_addresses(const struct naming *n, struct in6_addr to[NAME_ADDRESSES_MAX])
{
	if (n->service == NULL) {
		memcpy(to, n->addresses, n->n_addresses * sizeof *to);
		return n->n_addresses;
	}
	return cluster_service_ips(n->config.cluster, n->service_ns, n->service, to);
}

static void
describe_problem(const struct naming *n, char *to, size_t size)
{
	struct in6_addr any[NAME_ADDRESSES_MAX];

	snprintf(to, size, "%s", n->note);
	if (n->note[0] != '\0' || n->service == NULL || edge_addresses(n, any) > 0 ||
		!n->config.known(n->config.arg))
		return;
	snprintf(to, size,
		"ingress.nodeAddresses: there is no Service %.63s/%.63s with a clusterIP, so names "
		"of "
		"edge nodes mean nothing",
		n->service_ns, n->service);
}

/* --- the zone ------------------------------------------------------------------------------- */

static void
naming_find(void *arg, const char *name, struct name_found *to)
{
	struct naming *n = arg;
	bool of_now;

	to->is = NAME_UNKNOWN;
	to->n = 0;
	if (!n->config.known(n->config.arg))
		return;
	to->serial = n->serial + (uint32_t)naming_changes(n);
	of_now = use_book(n);
	if (name[0] == '\0') {
		to->is = NAME_ABOVE;
	} else if (!is_node(n, name, of_now)) {
		to->is = node_book_above(n->book, name) ? NAME_ABOVE : NAME_ABSENT;
	} else if (n->config.at_edge(n->config.arg, name)) {
		to->n = edge_addresses(n, to->addresses);
		to->is = to->n > 0 ? NAME_THERE : NAME_UNKNOWN;
	} else {
		to->n = cluster_node_ips(n->config.cluster, name, to->addresses);
		to->is = NAME_THERE;
	}
}

static int
start_zone(struct naming *n, const struct hub_ways_in *w, struct err *err)
{
	struct zone_server_config config = {
		.loop = n->config.loop,
		.zone = w->zone,
		.ttl_s = w->dns_ttl_s,
		.find = naming_find,
		.arg = n,
	};
	char text[ADDR_TEXT_MAX];
	int rc = addr_parse(&config.listen, w->dns_listen, PORT, err);

	if (rc == 0)
		rc = zone_server_start(&n->server, &config, err);
	if (rc < 0)
		return err_wrap(err, rc, "ingress.dnsListen");
	n->zone = xstrdup(w->zone);
	n->listen = xstrdup(addr_text(&config.listen, text));
	n->serial = (uint32_t)(wall_ms() / 1000);
	log_info("dns", "serves the names of nodes zone=%s listen=%s", n->zone, n->listen);
	return 0;
}

/* --- the ConfigMap -------------------------------------------------------------------------- */

static void
add_lines(struct hosts_lines *to, const char *name, const struct in6_addr *ips, size_t n)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < n; i++)
		hosts_lines_add(to, ip_text(&ips[i], text), name);
}

/* Whether a node is at the edge depends on data that all replicas share, not on the tunnels of this
 * one: so all write the same lines. */
static bool
naming_lines(void *arg, struct hosts_lines *to)
{
	struct naming *n = arg;
	struct in6_addr edge[NAME_ADDRESSES_MAX], own[2];
	size_t n_edge = edge_addresses(n, edge);

	if (n_edge == 0 || !n->config.known(n->config.arg))
		return false;
	use_book(n);
	for (size_t i = 0; i < node_book_count(n->book); i++) {
		const struct node_entry *e = node_book_at(n->book, i);

		if (e->joined)
			add_lines(to, e->name, edge, n_edge);
		else
			add_lines(to, e->name, own,
				cluster_node_ips(n->config.cluster, e->name, own));
	}
	return true;
}

static void
on_tick(void *arg)
{
	struct naming *n = arg;
	struct in6_addr edge[NAME_ADDRESSES_MAX];
	size_t n_edge = edge_addresses(n, edge);
	uint64_t now = n->config.known(n->config.arg) && n_edge > 0 ? naming_changes(n) : 0;

	if (now == 0)
		return;
	if (n->service != NULL)
		now ^= hash64(edge, n_edge * sizeof *edge, 1);
	if (now == n->told)
		return;
	n->told = now;
	hosts_map_refresh(n->hosts);
}

static int
start_hosts(struct naming *n, const struct hub_ways_in *w, struct err *err)
{
	const struct hosts_map_config config = {
		.loop = n->config.loop,
		.api = n->config.api,
		.name = w->hosts_map,
		.key = w->hosts_key,
		.lines = naming_lines,
		.arg = n,
	};
	int rc = hosts_map_start(&n->hosts, &config, err);

	if (rc < 0)
		return err_wrap(err, rc, "ingress.hostsConfigMap");
	n->tick = timer_new(n->config.loop, on_tick, n);
	timer_start(n->tick, NAMING_TICK_MS, NAMING_TICK_MS);
	return 0;
}

/* --- start, stop, state --------------------------------------------------------------------- */

static int
take_addresses(struct naming *n, const char *const *list, struct err *err)
{
	for (; list != NULL && *list != NULL; list++) {
		const char *slash = strchr(*list, '/');

		if (slash != NULL && n->service == NULL) {
			n->service_ns = xstrndup(*list, (size_t)(slash - *list));
			n->service = xstrdup(slash + 1);
			continue;
		}
		if (n->n_addresses == NAME_ADDRESSES_MAX ||
			!ip_parse(*list, &n->addresses[n->n_addresses++]))
			return err_set(err, EINVAL,
				"ingress.nodeAddresses: \"%.120s\": expected at most %d addresses, "
				"or "
				"NAMESPACE/NAME of one Service",
				*list, NAME_ADDRESSES_MAX);
	}
	return 0;
}

/* Why what is configured cannot be done; "": it can. */
static const char *
find_note(const struct naming *n, bool zone, bool hosts)
{
	if (hosts && n->config.api == NULL)
		return "ingress.hostsConfigMap needs source.kubernetes: nothing is written";
	if ((zone || hosts) && n->service == NULL && n->n_addresses == 0)
		return "ingress.dns is a suffix of names alone and not served: say in "
		       "ingress.nodeAddresses by which address callers reach the ingress";
	return "";
}

int
naming_start(struct naming **out, const struct naming_config *config, struct err *err)
{
	const struct hub_ways_in *w = config->ways_in;
	bool zone = w->zone != NULL && w->zone[0] != '\0' && w->dns_listen != NULL &&
		w->dns_listen[0] != '\0';
	bool hosts = w->hosts_map != NULL && w->hosts_map[0] != '\0';
	struct naming *n;
	int rc;

	*out = NULL;
	if (!zone && !hosts)
		return 0;
	n = xcalloc(1, sizeof *n);
	n->config = *config;
	n->config.ways_in = NULL; /* it belongs to the caller */
	rc = take_addresses(n, w->addresses, err);
	n->note = find_note(n, zone, hosts);
	if (rc == 0 && n->note[0] != '\0')
		log_warn("hub", "%s", n->note);
	if (rc == 0 && zone && (n->service != NULL || n->n_addresses > 0))
		rc = start_zone(n, w, err);
	if (rc == 0 && hosts && config->api != NULL)
		rc = start_hosts(n, w, err);
	if (rc < 0)
		naming_stop(&n);
	*out = n;
	return rc;
}

void
naming_stop(struct naming **out)
{
	struct naming *n = take_ptr(out);

	if (n == NULL)
		return;
	zone_server_stop(&n->server);
	hosts_map_stop(&n->hosts);
	timer_free(&n->tick);
	node_book_free(&n->book);
	free(n->zone);
	free(n->listen);
	free(n->service_ns);
	free(n->service);
	free(n);
}

void
naming_metrics(const struct naming *n, struct metrics *m)
{
	if (n == NULL)
		return;
	if (n->server != NULL)
		zone_server_metrics(n->server, "edgeway_hub_dns_queries_total", m);
	if (n->hosts != NULL)
		hosts_map_metrics(n->hosts, m);
}

static void
zone_state(const struct naming *n, struct buf *out)
{
	size_t names = n->book != NULL ? node_book_count(n->book) : 0;
	const char *unheld = NULL;
	uint64_t answered, found;

	for (size_t i = 0; i < names && unheld == NULL; i++)
		if (!name_zone_holds(zone_server_zone(n->server), node_book_at(n->book, i)->name))
			unheld = node_book_at(n->book, i)->name;
	zone_server_counts(n->server, &answered, &found);
	buf_printf(out,
		"{\"zone\":\"%s\",\"listen\":\"%s\",\"names\":%zu,\"answered\":%llu,\"found\":%llu,"
		"\"problem\":",
		n->zone, n->listen, names, (unsigned long long)answered, (unsigned long long)found);
	if (unheld != NULL) {
		auto_free char *why = xasprintf(
			"the name of a node is too long for DNS, and cannot be asked for: %s",
			unheld);

		json_add_text(out, why);
	} else {
		buf_adds(out, "\"\"");
	}
	buf_adds(out, "}");
}

static void
addresses_state(const struct naming *n, struct buf *out)
{
	struct in6_addr ips[NAME_ADDRESSES_MAX];
	struct hosts_lines texts = {0};
	size_t count = edge_addresses(n, ips);

	add_lines(&texts, "", ips, count);
	for (size_t i = 0; i < texts.n; i++)
		buf_printf(out, "%s\"%.*s\"", i > 0 ? "," : "", (int)strcspn(texts.line[i], "\t"),
			texts.line[i]);
	hosts_lines_fini(&texts);
}

void
naming_state(const struct naming *n, struct buf *out)
{
	char problem[300];

	if (n == NULL) {
		buf_adds(out, "null");
		return;
	}
	buf_adds(out, "{");
	if (n->server != NULL) {
		buf_adds(out, "\"zone\":");
		zone_state(n, out);
		buf_adds(out, ",");
	}
	if (n->hosts != NULL) {
		buf_adds(out, "\"hosts\":");
		hosts_map_state(n->hosts, out);
		buf_adds(out, ",");
	}
	buf_adds(out, "\"addresses\":[");
	addresses_state(n, out);
	buf_adds(out, "],\"problem\":");
	describe_problem(n, problem, sizeof problem);
	json_add_text(out, problem);
	buf_adds(out, "}");
}
