#include "dns/dns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/inherited.h"
#include "base/core/log.h"
#include "dns/dns_private.h"

#define RESOLVED "/run/systemd/resolve/resolv.conf"

enum { FOUND_MAX = 2 * FORWARD_UPSTREAMS_MAX }; /* room for duplicates and our own address */

/* --- upstreams ------------------------------------------------------------------------------ */

static bool
is_own(const struct dns *d, const struct addr *a)
{
	return addr_same(a, &d->listeners[DNS_IPV4].at) || addr_same(a, &d->listeners[DNS_IPV6].at);
}

/* Whether this loop probe has come back to one of the workers. */
static bool
has_come(void *arg, uint64_t mark)
{
	const struct dns *d = arg;

	for (size_t i = 0; i < d->n_servers; i++) {
		const struct forward_counters *c = &server_counters(d->servers[i])->lookup.forward;

		if (atomic_load(&c->loops[mark % FORWARD_LOOPS]) == mark)
			return true;
	}
	return false;
}

static const struct forward_counters *
counters_of(void *arg, size_t i)
{
	const struct dns *d = arg;

	return &server_counters(d->servers[i])->lookup.forward;
}

static void
on_roster(void *arg)
{
	struct dns *d = arg;
	const struct addr *upstreams;
	size_t n = upstreams_in_use(d->roster, &upstreams);

	for (size_t i = 0; i < d->n_servers; i++)
		server_use_upstreams(d->servers[i], upstreams, n);
	if (d->on_upstreams != NULL)
		d->on_upstreams(d->on_upstreams_arg);
}

/* An IPv4-mapped IPv6 address denotes the same server as the IPv4 address. */
static struct addr
dns_unmapped(const struct addr *a)
{
	uint32_t host;

	if (a->sa.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		return *a;
	memcpy(&host, &a->in6.sin6_addr.s6_addr[12], sizeof host);
	return addr_ipv4(ntohl(host), addr_port(a));
}

/* The mesh's IPv4 address, host byte order; 0: DNS does not listen. */
static uint32_t
dns_address(const struct dns *d)
{
	return dns_listening(d) ? ntohl(d->listeners[DNS_IPV4].at.in.sin_addr.s_addr) : 0;
}

/* The configured upstreams, then those of resolv.conf; never our own address. */
static void
find_upstreams(struct dns *d)
{
	struct addr found[FOUND_MAX];
	size_t n = 0, others = 0;

	for (size_t i = 0; i < d->n_configured && n < ARRAY_LEN(found); i++)
		found[n++] = d->configured[i];
	/* with a route for the cluster's names alone resolved itself may be asked for the others */
	n = resolvconf_upstreams(
		d->resolvconf, d->resolved ? dns_address(d) : 0, found, n, ARRAY_LEN(found));
	for (size_t i = 0; i < n; i++) {
		found[i] = dns_unmapped(&found[i]);
		if (!is_own(d, &found[i]))
			found[others++] = found[i];
		else if (i < d->n_configured)
			log_limited(LOG_LEVEL_WARN, 1, "dns",
				"our own address among dns.upstreams is left out");
	}
	upstreams_use(d->roster, found, others);
}

static void
on_resolvconf_changed(void *arg)
{
	struct dns *d = arg;

	find_upstreams(d);
	resolvlink_look(d->link);
}

size_t
dns_upstreams(const struct dns *d, const struct addr **upstreams)
{
	return upstreams_in_use(d->roster, upstreams);
}

size_t
dns_upstreams_known(const struct dns *d, const struct addr **upstreams)
{
	return upstreams_known(d->roster, upstreams);
}

void
dns_follow_upstreams(struct dns *d, loop_fn *fn, void *arg)
{
	d->on_upstreams = fn;
	d->on_upstreams_arg = arg;
}

/* --- opening -------------------------------------------------------------------------------- */

static void
dns_free(struct dns *d)
{
	upstreams_free(&d->roster);
	for (size_t i = 0; i < d->n_servers; i++)
		server_free(&d->servers[i]);
	resolvwatch_stop(&d->watch);
	resolvconf_close(&d->resolvconf);
	for (int i = 0; i < DNS_FAMILIES; i++)
		free(d->listeners[i].sockets);
	free(d->path);
	for (char **name = d->interfaces; name != NULL && *name != NULL; name++)
		free(*name);
	free(d->interfaces);
	free(d->servers);
	free(d->configured);
	free(d);
}

static void
watch_resolvconf(struct dns *d)
{
	const struct resolvwatch_config config = {.loop = d->main,
		.keeper = d->resolvconf,
		.path = d->path,
		.also = RESOLVED,
		.changed = on_resolvconf_changed,
		.arg = d};

	resolvwatch_start(&d->watch, &config);
}

static void
open_link(struct dns *d, const struct dns_config *config)
{
	const struct resolvlink_config link = {.loop = config->main,
		.wanted = config->resolved,
		.cluster_domain = config->cluster_domain,
		.subnet = config->subnet,
		.mask = config->mask,
		.subnet6 = config->subnet6,
		.port = config->port,
		.servers = RESOLVED,
		.keep = config->keep,
		.held = config->succeeds};

	resolvlink_open(&d->link, &link);
}

static void
open_roster(struct dns *d, uint32_t mark)
{
	const struct upstreams_config config = {.loop = d->main,
		.mark = mark,
		.seen = has_come,
		.counters = counters_of,
		.n_workers = d->n_servers,
		.changed = on_roster,
		.arg = d};

	upstreams_new(&d->roster, &config);
}

static void
copy_interfaces(struct dns *d, const struct dns_config *config)
{
	size_t n = 0, at = 0;

	while (config->interfaces != NULL && config->interfaces[n] != NULL)
		n++;
	d->interfaces = xcalloc(n + 2, sizeof *d->interfaces);
	if (config->interface != NULL)
		d->interfaces[at++] = xstrdup(config->interface);
	for (size_t i = 0; i < n; i++)
		d->interfaces[at++] = xstrdup(config->interfaces[i]);
}

static void
copy_configured(struct dns *d, const struct dns_config *config)
{
	d->configured = xcalloc(config->n_upstreams + 1, sizeof *d->configured);
	d->n_configured = config->n_upstreams;
	for (size_t i = 0; i < config->n_upstreams; i++) {
		struct addr *a = &d->configured[i];

		*a = config->upstreams[i];
		if (addr_port(a) != 0)
			continue;
		if (a->sa.sa_family == AF_INET)
			a->in.sin_port = htons(53);
		else if (a->sa.sa_family == AF_INET6)
			a->in6.sin6_port = htons(53);
	}
}

int
dns_open(struct dns **out, const struct dns_config *config, struct err *err)
{
	struct resolvconf_config rc = {
		.path = config->resolv_conf,
		.cluster_domain = config->cluster_domain,
		.resolved = RESOLVED,
		.manage = config->manage_resolv_conf && config->port == 53,
		.keep = config->keep,
		.stay = config->succeeds,
	};
	const struct addr *upstreams;
	struct snapshot *nothing;
	struct dns_zone zone;
	struct dns *d;
	int code = dns_zone_init(&zone, config->cluster_domain, config->ttl_s);

	if (code < 0)
		return err_set(err, code,
			"mesh.clusterDomain \"%s\" is no domain name of at most 122 characters",
			config->cluster_domain);
	zone.subnet = config->subnet;
	zone.mask = config->mask;
	zone.subnet6 = config->subnet6;
	d = xcalloc(1, sizeof *d);
	d->main = config->main;
	d->port = config->port;
	d->resolved = config->resolved;
	d->path = xstrdup(config->resolv_conf);
	code = resolvconf_open(&d->resolvconf, &rc, err);
	if (code < 0) {
		dns_free(d);
		return code;
	}
	if (config->manage_resolv_conf && config->port != 53)
		log_warn("dns",
			"resolv.conf is left alone: it cannot name a port, and dns.port is %u",
			d->port);
	copy_configured(d, config);
	copy_interfaces(d, config);
	nothing = snapshot_new(false);
	d->servers = xcalloc(config->n_workers, sizeof *d->servers);
	for (int i = 0; i < DNS_FAMILIES; i++)
		d->listeners[i].sockets = xcalloc(2 * config->n_workers + 2, sizeof(int));
	for (; d->n_servers < config->n_workers; d->n_servers++)
		d->servers[d->n_servers] = server_new(config->workers[d->n_servers], &zone, nothing,
			config->mark, (const char *const *)d->interfaces);
	snapshot_unref(&nothing);
	for (size_t i = 0; i < d->n_servers; i++)
		server_share(d->servers[i], d->servers, d->n_servers);
	for (size_t i = 0; i < d->n_servers; i++)
		server_ask_pods(d->servers[i], config->ask_pod, config->ask_pod_arg);
	open_roster(d, config->mark);
	find_upstreams(d);
	if (dns_upstreams(d, &upstreams) == 0)
		log_warn("dns", "no upstream: names outside the cluster get SERVFAIL");
	open_link(d, config);
	watch_resolvconf(d);
	*out = d;
	return 0;
}

void
dns_use(struct dns *d, const struct snapshot *snapshot)
{
	for (size_t i = 0; i < d->n_servers; i++)
		server_use(d->servers[i], snapshot);
}

/* --- listening ------------------------------------------------------------------------------ */

/* Bound sockets of all workers, or none. */
struct bound {
	int *fds; /* UDP, then TCP, of each worker */
	size_t n;
};

static void
close_bound(struct bound *b)
{
	for (size_t i = 0; i < b->n; i++)
		close(b->fds[i]);
}

static int
bind_pair(const struct addr *a, unsigned flags, struct bound *b, struct err *err)
{
	int code = sock_udp(a, flags | SOCK_INTERFACE, &b->fds[b->n], err);

	if (code < 0)
		return code;
	b->n++;
	code = sock_listen(a, flags, &b->fds[b->n], err);
	if (code == 0)
		b->n++;
	return code;
}

/* SO_REUSEPORT would let a second agent bind beside us without an error: try without it first. A
 * predecessor's sockets are ours. */
static int
probe_free(const struct addr *a, struct err *err)
{
	int fds[2], code;
	struct bound b = {.fds = fds};

	if (inherited_count(a, SOCK_DGRAM) > 0)
		return 0;
	code = bind_pair(a, SOCK_FREEBIND, &b, err);
	close_bound(&b);
	return code;
}

static int
bind_all(struct dns *d, const struct dns_listener *l, const struct addr *a, struct err *err)
{
	struct bound b = {.fds = l->sockets};
	int code = addr_same(a, &l->last) ? 0 : probe_free(a, err);

	for (size_t i = 0; code == 0 && i < d->n_servers; i++)
		code = bind_pair(a, SOCK_REUSEPORT | SOCK_FREEBIND | SOCK_TRANSPARENT, &b, err);
	if (code == 0)
		return 0;
	close_bound(&b);
	if (code == -EADDRINUSE)
		err_wrap(err, code,
			"another DNS server (dnsmasq, systemd-resolved, named, a second agent) "
			"holds the port, see "
			"`ss -lnptu sport = :%u`",
			d->port);
	else if (code == -EACCES)
		err_wrap(err, code, "ports below 1024 need CAP_NET_BIND_SERVICE");
	return code;
}

/* at: without an address in it: stops listening */
static int
dns_listen_at(struct dns *d, bool six, const struct addr *at, struct err *err)
{
	struct dns_listener *l = &d->listeners[six];
	bool closes = at->sa.sa_family == AF_UNSPEC;
	int code;

	if (addr_same(at, &l->at))
		return 0;
	code = closes ? 0 : bind_all(d, l, at, err);
	if (code < 0)
		return err_wrap(err, code, "DNS");
	for (size_t i = 0; i < d->n_servers; i++)
		server_listen(d->servers[i], six, closes ? -1 : l->sockets[2 * i],
			closes ? -1 : l->sockets[2 * i + 1], at);
	l->at = *at;
	if (closes)
		return 0;
	l->last = *at;
	find_upstreams(d);
	upstreams_check(d->roster);
	return 0;
}

int
dns_listen(struct dns *d, uint32_t address, struct err *err)
{
	const struct addr at = address != 0 ? addr_ipv4(address, d->port) : (struct addr){0};

	return dns_listen_at(d, false, &at, err);
}

int
dns_listen6(struct dns *d, const struct in6_addr *address, struct err *err)
{
	const struct addr at =
		IN6_IS_ADDR_UNSPECIFIED(address) ? (struct addr){0} : addr_of(address, d->port);

	return dns_listen_at(d, true, &at, err);
}

/* --- handing over to a successor ------------------------------------------------------------ */

size_t
dns_sockets(const struct dns *d, bool six, int *fds)
{
	if (d->listeners[six].at.sa.sa_family == AF_UNSPEC)
		return 0;
	memcpy(fds, d->listeners[six].sockets, 2 * d->n_servers * sizeof *fds);
	return 2 * d->n_servers;
}

void
dns_freeze(struct dns *d)
{
	d->on_upstreams = NULL;
	resolvwatch_stop(&d->watch);
	resolvlink_hold(d->link, true);
}

void
dns_settle(struct dns *d, bool ours)
{
	resolvconf_settle(d->resolvconf, ours);
	if (ours)
		resolvlink_hold(d->link, false);
}

void
dns_thaw(struct dns *d)
{
	resolvlink_hold(d->link, false);
	watch_resolvconf(d);
}

void
dns_hand_over(struct dns *d)
{
	for (size_t i = 0; i < d->n_servers; i++)
		server_hand_over(d->servers[i]);
}

bool
dns_listening(const struct dns *d)
{
	return d->listeners[DNS_IPV4].at.sa.sa_family != AF_UNSPEC;
}

int
dns_resolvconf_write(struct dns *d, struct err *err)
{
	int code;

	if (!dns_listening(d))
		return err_set(
			err, ENOTCONN, "resolv.conf is left alone while DNS does not listen");
	resolvlink_use(d->link, dns_address(d));
	code = resolvconf_write(d->resolvconf, dns_address(d), err);
	find_upstreams(d);
	upstreams_check(d->roster); /* upstreams may read the file as well */
	return code;
}

int
dns_resolvconf_restore(struct dns *d, struct err *err)
{
	resolvlink_use(d->link, 0);
	return resolvconf_restore(d->resolvconf, err);
}

struct recovery {
	struct loop *loop; /* while it runs for this */
	bool done;
};

static void
on_recovered(void *arg)
{
	struct recovery *r = arg;

	r->done = true;
	if (r->loop != NULL)
		loop_stop(r->loop);
}

int
dns_resolvconf_recover(
	struct loop *loop, const char *path, const struct dns_keep *keep, struct err *err)
{
	const struct resolvlink_config config = {
		.loop = loop, .cluster_domain = "", .servers = RESOLVED, .keep = *keep};
	int code = resolvconf_recover(path, keep, err);
	struct resolvlink *link;
	struct recovery r = {0};

	resolvlink_open(&link, &config);
	resolvlink_close(&link, on_recovered, &r);
	r.loop = loop;
	if (!r.done)
		loop_run(loop);
	return code;
}

/* --- stopping ------------------------------------------------------------------------------- */

static loop_fn on_server_stopped;

static void
stop_servers(struct dns *d)
{
	d->stopping = d->n_servers;
	for (size_t i = 0; i < d->n_servers; i++)
		server_stop(d->servers[i], d->main, on_server_stopped, d);
}

static void
on_link_closed(void *arg)
{
	struct dns *d = arg;
	loop_fn *fn = d->on_stopped;
	void *fn_arg = d->on_stopped_arg;

	dns_free(d);
	if (fn != NULL)
		fn(fn_arg);
}

static void
on_server_stopped(void *arg)
{
	struct dns *d = arg;

	if (--d->stopping > 0)
		return;
	/* A server may have posted to another before it stopped. After all have stopped a second
	 * time, those posts have arrived. */
	if (!d->stopped_once) {
		d->stopped_once = true;
		stop_servers(d);
		return;
	}
	resolvlink_close(&d->link, on_link_closed, d);
}

void
dns_stop(struct dns **out, loop_fn *on_stopped, void *arg)
{
	struct dns *d = take_ptr(out);

	if (d == NULL)
		return;
	d->on_upstreams = NULL;
	upstreams_free(&d->roster);
	resolvwatch_stop(&d->watch); /* on this loop, before the servers are stopped */
	d->on_stopped = on_stopped;
	d->on_stopped_arg = arg;
	stop_servers(d);
}
