#include "base/net/resolve_channels.h"

#include <assert.h>
#include <string.h>

enum {
	EDNS_SIZE = 1232, /* DNS flag day 2020: passes without fragmentation */
	CHANNELS_MAX = 4, /* 74 kB each in 1.18 */
	CHANNEL_QUERIES = 32, /* making a channel costs 30 us: 1 us for each */
	CHANNEL_MS = 2000,
};

struct sock {
	struct sock *next;
	struct channel *channel;
	struct watch *watch;
	int fd;
};

static void
channel_free(struct channel *c)
{
	ares_destroy(c->ares);
	while (c->socks != NULL) {
		struct sock *s = c->socks;

		c->socks = s->next;
		watch_stop(&s->watch);
		free(s);
	}
	timer_free(&c->timeout);
	free(c);
}

static bool
resolve_channels_worn(const struct channel *c)
{
	return c->used >= CHANNEL_QUERIES || loop_now_ms(c->all->loop) - c->born_ms >= CHANNEL_MS;
}

static void
drop_worn(struct channels *all)
{
	for (struct channel **at = &all->first, *c; (c = *at) != NULL;) {
		if (c->open > 0 || !resolve_channels_worn(c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		all->n--;
		channel_free(c);
	}
}

static void
resolve_channels_rearm(struct channel *c)
{
	struct timeval tv, *wait = ares_timeout(c->ares, NULL, &tv);

	c->touched = false;
	if (wait == NULL)
		timer_cancel(c->timeout);
	else
		timer_start(c->timeout,
			(uint64_t)wait->tv_sec * 1000 + (uint64_t)wait->tv_usec / 1000 + 1, 0);
}

void
channels_leave(struct channels *all, struct channel *c)
{
	if (c != NULL)
		c->touched = true;
	if (--all->inside > 0)
		return;
	if (all->dying) {
		all->dead(all->arg);
		return;
	}
	for (c = all->first; c != NULL; c = c->next) {
		if (c->touched)
			resolve_channels_rearm(c);
	}
	drop_worn(all);
}

static void
on_socket(void *arg, int fd, unsigned events)
{
	struct channel *c = ((struct sock *)arg)->channel;
	bool hup = (events & WATCH_HUP) != 0;
	unsigned before = c->all->outcomes;

	channels_enter(c->all);
	ares_process_fd(c->ares, events & WATCH_READ || hup ? fd : ARES_SOCKET_BAD,
		events & WATCH_WRITE || hup ? fd : ARES_SOCKET_BAD);
	if ((events & WATCH_READ) && !hup && c->all->outcomes == before)
		c->all->stray_ms = loop_now_ms(c->all->loop); /* c-ares has dropped it */
	channels_leave(c->all, c);
}

static void
on_timeout(void *arg)
{
	struct channel *c = arg;

	channels_enter(c->all);
	ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	channels_leave(c->all, c);
}

/* c-ares tells which events of a socket it wants; neither: it is about to close the socket. */
static void
on_interest(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct channel *c = arg;
	struct sock **at = &c->socks, *s;
	unsigned want = (readable ? WATCH_READ : 0u) | (writable ? WATCH_WRITE : 0u);

	while (*at != NULL && (*at)->fd != fd)
		at = &(*at)->next;
	s = *at;
	if (want == 0 && s != NULL) {
		*at = s->next;
		watch_stop(&s->watch);
		free(s);
	} else if (want != 0 && s == NULL) {
		s = xcalloc(1, sizeof *s);
		s->channel = c;
		s->fd = fd;
		s->next = c->socks;
		c->socks = s;
		s->watch = watch_start(c->all->loop, fd, want, on_socket, s);
	} else if (want != 0) {
		watch_set(s->watch, want);
	}
}

/* Without CAP_NET_ADMIN the mark fails; the queries are still good. */
static int
on_new_socket(ares_socket_t fd, int type, void *arg)
{
	struct channels *all = ((struct channel *)arg)->all;
	const struct resolve_config *config = all->config;

	all->outcomes += type == SOCK_STREAM;
	if (config->mark != 0 &&
		setsockopt(fd, SOL_SOCKET, SO_MARK, &config->mark, sizeof config->mark) < 0)
		return 0;
	return 0;
}

/* Since 1.31 c-ares caches answers by default; dns/ has its own cache, with its own rules. */
#ifdef ARES_OPT_QUERY_CACHE
#	define QUERY_CACHE ARES_OPT_QUERY_CACHE
#else
#	define QUERY_CACHE 0
#endif

/* The first try waits for timeout_ms, each further one for twice as long. Since 1.23 c-ares takes a
 * random part, up to one half, off all but the first, and since 1.32 begins with five times what
 * the server's answers took lately, at least 250 ms: a quick server that is slow for once would be
 * given up too early. There it may try so often that the same time passes all the same. */
#ifdef ARES_OPT_MAXTIMEOUTMS
#	define MAX_TIMEOUT ARES_OPT_MAXTIMEOUTMS
static void
channels_set_patience(struct ares_options *o, unsigned timeout_ms, unsigned tries)
{
	unsigned least = MIN(250U, timeout_ms), most = timeout_ms << (tries - 1), sum = least;

	o->timeout = (int)timeout_ms;
	o->maxtimeout = (int)most;
	for (o->tries = 1; sum < 2 * most - timeout_ms; o->tries++)
		sum += MAX(least, MIN(least << o->tries, most) / 2);
}
#else
#	define MAX_TIMEOUT 0
static void
channels_set_patience(struct ares_options *o, unsigned timeout_ms, unsigned tries)
{
	o->timeout = (int)timeout_ms;
	o->tries = (int)tries;
}
#endif

/* ares_getaddrinfo and the like need a channel that reads no file: every option that resolv.conf
 * could set is given, empty where necessary. */
static int
open_channel(struct channel *c, const struct resolve_config *config)
{
	struct ares_options o = {0};
	char lookups[] = "fb", files_only[] = "f", nowhere[] = "/dev/null";

	o.flags = ARES_FLAG_EDNS | ARES_FLAG_NOSEARCH;
	if (config->every_rcode)
		o.flags |= ARES_FLAG_NOCHECKRESP;
	if (config->tcp)
		o.flags |= ARES_FLAG_USEVC;
	channels_set_patience(&o, config->timeout_ms > 0 ? config->timeout_ms : 2000,
		config->tries > 0 ? config->tries : 2);
	o.ndots = 1;
	o.lookups = config->n_servers > 0 ? lookups : files_only;
	o.ednspsz = EDNS_SIZE;
	o.resolvconf_path = nowhere;
	o.sock_state_cb = on_interest;
	o.sock_state_cb_data = c;
	return ares_init_options(&c->ares,
		&o, /* o.qcache_max_ttl, where there is one, is 0: none */
		QUERY_CACHE | MAX_TIMEOUT | ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
			ARES_OPT_NDOTS | ARES_OPT_LOOKUPS | ARES_OPT_EDNSPSZ | ARES_OPT_RESOLVCONF |
			ARES_OPT_SOCK_STATE_CB | ARES_OPT_SERVERS | ARES_OPT_DOMAINS |
			ARES_OPT_SORTLIST | ARES_OPT_NOROTATE);
}

int
channels_add(struct channels *all)
{
	struct channel *c = xcalloc(1, sizeof *c);
	int status;

	c->all = all;
	status = open_channel(c, all->config);
	if (status != ARES_SUCCESS) {
		free(c);
		return status;
	}
	ares_set_socket_configure_callback(c->ares, on_new_socket, c);
	c->timeout = timer_new(all->loop, on_timeout, c);
	c->born_ms = loop_now_ms(all->loop);
	if (all->config->n_servers > 0)
		status = ares_set_servers_ports(c->ares, all->servers);
	if (status != ARES_SUCCESS) {
		channel_free(c);
		return status;
	}
	c->next = all->first;
	all->first = c;
	all->n++;
	return ARES_SUCCESS;
}

struct channel *
channels_pick(struct channels *all)
{
	struct channel *c;
	unsigned skip;

	if (all->n < CHANNELS_MAX && (all->first == NULL || resolve_channels_worn(all->first)))
		channels_add(all);
	c = all->first;
	if (c != NULL && resolve_channels_worn(c)) {
		random_bytes(&skip, sizeof skip);
		for (skip %= all->n; skip > 0; skip--)
			c = c->next;
	}
	if (c != NULL)
		c->used++;
	return c;
}

static void
copy_servers(struct channels *all, const struct resolve_config *config)
{
	struct ares_addr_port_node *nodes =
		xcalloc(config->n_servers > 0 ? config->n_servers : 1, sizeof *nodes);

	for (size_t i = 0; i < config->n_servers; i++) {
		const struct addr *a = &config->servers[i];
		uint16_t port = addr_port(a);

		nodes[i].family = a->sa.sa_family;
		nodes[i].udp_port = nodes[i].tcp_port = port != 0 ? port : 53;
		if (a->sa.sa_family == AF_INET)
			nodes[i].addr.addr4 = a->in.sin_addr;
		else
			memcpy(&nodes[i].addr.addr6, &a->in6.sin6_addr, sizeof a->in6.sin6_addr);
		nodes[i].next = i + 1 < config->n_servers ? &nodes[i + 1] : NULL;
	}
	all->servers = nodes;
}

void
channels_init(struct channels *all, struct loop *loop, const struct resolve_config *config,
	loop_fn *dead, void *arg)
{
	*all = (struct channels){.loop = loop, .config = config, .dead = dead, .arg = arg};
	copy_servers(all, config);
}

void
channels_enter(struct channels *all)
{
	all->inside++;
}

void
channels_fini(struct channels *all)
{
	assert(all->inside == 0);
	all->inside = 1; /* the callbacks that ares_destroy makes must not end here again */
	while (all->first != NULL) {
		struct channel *c = all->first;

		all->first = c->next;
		channel_free(c);
	}
	free(all->servers);
}
