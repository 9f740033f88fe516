#include "base/resolve.h"

/* Of 1.34: what stands in for ares_send takes and gives parsed messages, which we neither have nor want. */
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>

enum {
	EDNS_SIZE = 1232, /* DNS flag day 2020: what passes without fragments */
	HOSTS_MAX = 16, /* addresses of one name that we hand on */
	ANSWER_MAX = 65535,
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

/* c-ares 1.18 keeps one UDP source port for as long as a channel has anything open. So a channel takes
 * a few queries, then the next one is made and the old one is freed when its last query is over. */
struct channel {
	struct channel *next;
	struct resolve *r;
	ares_channel ares;
	struct timer *timeout; /* when c-ares wants to be called */
	struct sock *socks;
	unsigned used, open;
	bool touched; /* its timeout may be another now */
	uint64_t born_ms;
};

/* One call of resolve_query or resolve_host until its callback. Lives in `open` until c-ares has
 * told the outcome; an outcome that comes before the call returned waits in `done` for the timer.
 */
struct request {
	struct request *prev, *next;
	struct resolve *r;
	struct channel *channel; /* NULL: not one for c-ares, or over */
	resolve_answer_fn *on_answer; /* one of the two; both NULL once told */
	resolve_host_fn *on_host;
	void *arg;
	uint16_t port;
	int status;
	uint8_t *answer;
	size_t len; /* bytes of answer, or number of addrs */
	struct addr *addrs;
};

struct list {
	struct request head;
};

struct resolve {
	struct loop *loop;
	struct resolve_config config;
	struct ares_addr_port_node *servers;
	struct channel *channels; /* newest first */
	unsigned n_channels;
	struct timer *deferred; /* runs `done` */
	struct list open, done;
	unsigned inside; /* depth of calls from and into c-ares: no channel may be destroyed */
	unsigned calling; /* in resolve_query or resolve_host: outcomes must wait */
	bool dying;
};

static void
list_init(struct list *l)
{
	l->head.prev = l->head.next = &l->head;
}

static void
list_add(struct list *l, struct request *q)
{
	q->prev = l->head.prev;
	q->next = &l->head;
	q->prev->next = q;
	l->head.prev = q;
}

static void
list_remove(struct request *q)
{
	q->prev->next = q->next;
	q->next->prev = q->prev;
}

static int
errno_of(int status)
{
	switch (status) {
	case ARES_SUCCESS:
		return 0;
	case ARES_ETIMEOUT:
		return -ETIMEDOUT;
	case ARES_ECONNREFUSED:
		return -ECONNREFUSED;
	case ARES_ECANCELLED:
	case ARES_EDESTRUCTION:
		return -ECANCELED;
	case ARES_ENODATA:
	case ARES_ENOTFOUND:
		return -ENOENT;
	default:
		return -EIO;
	}
}

/* --- the channel's life -------------------------------------------------- */

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

static void
destroy(struct resolve *r)
{
	assert(r->inside == 0);
	r->inside = 1; /* the callbacks that ares_destroy makes must not end here again */
	while (r->channels != NULL) {
		struct channel *c = r->channels;

		r->channels = c->next;
		channel_free(c);
	}
	timer_free(&r->deferred);
	free(r->servers);
	free(r);
}

static void
enter(struct resolve *r)
{
	r->inside++;
}

static bool
worn(const struct channel *c)
{
	return c->used >= CHANNEL_QUERIES || loop_now_ms(c->r->loop) - c->born_ms >= CHANNEL_MS;
}

static void
drop_worn(struct resolve *r)
{
	for (struct channel **at = &r->channels, *c; (c = *at) != NULL;) {
		if (c->open > 0 || !worn(c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		r->n_channels--;
		channel_free(c);
	}
}

static void
rearm(struct channel *c)
{
	struct timeval tv, *wait = ares_timeout(c->ares, NULL, &tv);

	c->touched = false;
	if (wait == NULL)
		timer_cancel(c->timeout);
	else
		timer_start(c->timeout,
			(uint64_t)wait->tv_sec * 1000 + (uint64_t)wait->tv_usec / 1000 + 1, 0);
}

/* Every way back out of c-ares (from c, NULL: none) ends here; r and c may be gone afterwards. */
static void
leave(struct resolve *r, struct channel *c)
{
	if (c != NULL)
		c->touched = true;
	if (--r->inside > 0)
		return;
	if (r->dying) {
		destroy(r);
		return;
	}
	for (c = r->channels; c != NULL; c = c->next) {
		if (c->touched)
			rearm(c);
	}
	drop_worn(r);
}

static void
on_socket(void *arg, int fd, unsigned events)
{
	struct channel *c = ((struct sock *)arg)->channel;
	bool hup = (events & WATCH_HUP) != 0;

	enter(c->r);
	ares_process_fd(c->ares, events & WATCH_READ || hup ? fd : ARES_SOCKET_BAD,
		events & WATCH_WRITE || hup ? fd : ARES_SOCKET_BAD);
	leave(c->r, c);
}

static void
on_timeout(void *arg)
{
	struct channel *c = arg;

	enter(c->r);
	ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	leave(c->r, c);
}

/* c-ares says which events of a socket it wants; neither: it is about to close it. */
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
		s->watch = watch_start(c->r->loop, fd, want, on_socket, s);
	} else if (want != 0) {
		watch_set(s->watch, want);
	}
}

/* Without CAP_NET_ADMIN the mark fails; the queries are still good. */
static int
on_new_socket(ares_socket_t fd, int type, void *arg)
{
	const struct resolve_config *config = &((struct channel *)arg)->r->config;

	(void)type;
	if (config->mark != 0 &&
		setsockopt(fd, SOL_SOCKET, SO_MARK, &config->mark, sizeof config->mark) < 0)
		return 0;
	return 0;
}

static void
request_free(struct request *q)
{
	free(q->answer);
	free(q->addrs);
	free(q);
}

static void
tell(struct request *q)
{
	resolve_answer_fn *on_answer = take_ptr(&q->on_answer);
	resolve_host_fn *on_host = take_ptr(&q->on_host);

	if (on_answer != NULL)
		on_answer(q->arg, q->status, q->answer, q->status == 0 ? q->len : 0);
	if (on_host != NULL)
		on_host(q->arg, q->status, q->addrs, q->status == 0 ? q->len : 0);
}

static void
on_deferred(void *arg)
{
	struct resolve *r = arg;

	enter(r);
	while (r->done.head.next != &r->done.head) {
		struct request *q = r->done.head.next;

		list_remove(q);
		tell(q);
		request_free(q);
	}
	leave(r, NULL);
}

/* From 1.31 on c-ares keeps answers unless told not to; dns/ has a cache of its own, with its own rules. */
#ifdef ARES_OPT_QUERY_CACHE
#	define QUERY_CACHE ARES_OPT_QUERY_CACHE
#else
#	define QUERY_CACHE 0
#endif

/* ares_addrinfo and the like need a channel that reads no file: every option that resolv.conf
 * could set is given, empty where it must be. */
static int
open_channel(struct channel *c, const struct resolve_config *config)
{
	struct ares_options o = {0};
	char lookups[] = "fb", files_only[] = "f", nowhere[] = "/dev/null";

	o.flags = ARES_FLAG_EDNS | ARES_FLAG_NOSEARCH;
	if (config->every_rcode)
		o.flags |= ARES_FLAG_NOCHECKRESP;
	o.timeout = (int)(config->timeout_ms > 0 ? config->timeout_ms : 2000);
	o.tries = (int)(config->tries > 0 ? config->tries : 2);
	o.ndots = 1;
	o.lookups = config->n_servers > 0 ? lookups : files_only;
	o.ednspsz = EDNS_SIZE;
	o.resolvconf_path = nowhere;
	o.sock_state_cb = on_interest;
	o.sock_state_cb_data = c;
	return ares_init_options(&c->ares,
		&o, /* o.qcache_max_ttl, where there is one, is 0: none */
		QUERY_CACHE | ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
			ARES_OPT_NDOTS | ARES_OPT_LOOKUPS | ARES_OPT_EDNSPSZ | ARES_OPT_RESOLVCONF |
			ARES_OPT_SOCK_STATE_CB | ARES_OPT_SERVERS | ARES_OPT_DOMAINS |
			ARES_OPT_SORTLIST | ARES_OPT_NOROTATE);
}

static int
channel_new(struct resolve *r)
{
	struct channel *c = xcalloc(1, sizeof *c);
	int status;

	c->r = r;
	status = open_channel(c, &r->config);
	if (status != ARES_SUCCESS) {
		free(c);
		return status;
	}
	ares_set_socket_configure_callback(c->ares, on_new_socket, c);
	c->timeout = timer_new(r->loop, on_timeout, c);
	c->born_ms = loop_now_ms(r->loop);
	if (r->config.n_servers > 0)
		status = ares_set_servers_ports(c->ares, r->servers);
	if (status != ARES_SUCCESS) {
		channel_free(c);
		return status;
	}
	c->next = r->channels;
	r->channels = c;
	r->n_channels++;
	return ARES_SUCCESS;
}

/* For one more query: the newest until it is worn. With all of them busy any will do, by lot. */
static struct channel *
channel_pick(struct resolve *r)
{
	struct channel *c;
	unsigned skip;

	if (r->n_channels < CHANNELS_MAX && (r->channels == NULL || worn(r->channels)))
		channel_new(r);
	c = r->channels;
	if (c != NULL && worn(c)) {
		random_bytes(&skip, sizeof skip);
		for (skip %= r->n_channels; skip > 0; skip--)
			c = c->next;
	}
	if (c != NULL)
		c->used++;
	return c;
}

static void
copy_servers(struct resolve *r, const struct resolve_config *config)
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
	r->servers = nodes;
}

int
resolve_new(struct resolve **out, struct loop *loop, const struct resolve_config *config,
	struct err *err)
{
	struct resolve *r = xcalloc(1, sizeof *r);
	int status = ares_library_init(ARES_LIB_INIT_ALL);

	r->loop = loop;
	r->config = *config;
	r->config.servers = NULL;
	copy_servers(r, config);
	list_init(&r->open);
	list_init(&r->done);
	r->deferred = timer_new(loop, on_deferred, r);
	if (status == ARES_SUCCESS)
		status = channel_new(r);
	if (status != ARES_SUCCESS) {
		destroy(r);
		return err_set(err, EIO, "DNS client: %s", ares_strerror(status));
	}
	*out = r;
	return 0;
}

static void
cancel_all(struct list *l)
{
	for (struct request *q = l->head.next; q != &l->head; q = q->next) {
		q->status = -ECANCELED;
		tell(q);
	}
}

void
resolve_free(struct resolve **out)
{
	struct resolve *r = take_ptr(out);

	if (r == NULL)
		return;
	r->dying = true;
	enter(r);
	cancel_all(&r->done);
	cancel_all(&r->open);
	while (r->done.head.next != &r->done.head) {
		struct request *q = r->done.head.next;

		list_remove(q);
		request_free(q);
	}
	leave(r, NULL);
}

/* --- requests ------------------------------------------------------------ */

static struct request *
request_new(struct resolve *r, void *arg)
{
	struct request *q = xcalloc(1, sizeof *q);

	q->r = r;
	q->arg = arg;
	list_add(&r->open, q);
	return q;
}

/* The channel that q is to go out by; NULL when none can be made. */
static struct channel *
request_channel(struct request *q)
{
	q->channel = channel_pick(q->r);
	if (q->channel != NULL)
		q->channel->open++;
	return q->channel;
}

/* The outcome is in q. Never called while resolve_free's callbacks run. */
static void
finish(struct request *q)
{
	struct resolve *r = q->r;

	if (q->channel != NULL)
		q->channel->open--;
	q->channel = NULL;
	list_remove(q);
	if (r->calling > 0 && !r->dying) {
		list_add(&r->done, q);
		timer_start(r->deferred, 0, 0);
		return;
	}
	tell(q);
	request_free(q);
}

static void
on_answer(void *arg, int status, int timeouts, unsigned char *bytes, int len)
{
	struct request *q = arg;

	(void)timeouts;
	q->status = errno_of(status);
	/* With checks of the rcode on, c-ares hands a bad rcode over together with the message. */
	if (bytes != NULL && len > 0 && len <= ANSWER_MAX && status != ARES_EDESTRUCTION) {
		q->status = 0;
		q->answer = q->on_answer != NULL ? xmemdup(bytes, (size_t)len) : NULL;
		q->len = (size_t)len;
	} else if (q->status == 0) {
		q->status = -EIO;
	}
	finish(q);
}

void
resolve_query(struct resolve *r, const uint8_t *query, size_t len, resolve_answer_fn *fn, void *arg)
{
	struct request *q = request_new(r, arg);
	uint8_t *copy = xmemdup(query, len);
	struct channel *c = NULL;

	q->on_answer = fn;
	enter(r);
	r->calling++;
	if (len >= 12)
		random_bytes(copy, 2); /* ares_send keeps the id that it is given */
	/* 1.18 leaks a query for which there is no server. */
	if (r->config.n_servers == 0)
		on_answer(q, ARES_ECONNREFUSED, 0, NULL, 0);
	else if (len > ANSWER_MAX || (c = request_channel(q)) == NULL)
		on_answer(q, ARES_EBADQUERY, 0, NULL, 0);
	else
		ares_send(c->ares, copy, (int)len, on_answer, q);
	r->calling--;
	free(copy);
	leave(r, c);
}

static void
on_host(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
	struct request *q = arg;
	size_t n = 0;

	(void)timeouts;
	q->status = errno_of(status);
	q->addrs = xcalloc(HOSTS_MAX, sizeof *q->addrs);
	for (struct ares_addrinfo_node *at = found != NULL ? found->nodes : NULL;
		at != NULL && n < HOSTS_MAX; at = at->ai_next) {
		struct addr *a = &q->addrs[n];

		if ((at->ai_family != AF_INET && at->ai_family != AF_INET6) ||
			(size_t)at->ai_addrlen > sizeof a->in6)
			continue;
		memcpy(&a->sa, at->ai_addr, (size_t)at->ai_addrlen);
		a->len = (socklen_t)at->ai_addrlen;
		if (at->ai_family == AF_INET)
			a->in.sin_port = htons(q->port);
		else
			a->in6.sin6_port = htons(q->port);
		n++;
	}
	if (found != NULL)
		ares_freeaddrinfo(found);
	q->len = n;
	if (q->status == 0 && n == 0)
		q->status = -ENOENT;
	finish(q);
}

/* 1.18 asks its servers for numeric names too when any family will do. */
static bool
numeric(struct request *q, const char *name)
{
	struct addr a = {.len = 0};

	if (inet_pton(AF_INET, name, &a.in.sin_addr) == 1) {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons(q->port);
		a.len = sizeof a.in;
	} else if (inet_pton(AF_INET6, name, &a.in6.sin6_addr) == 1) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(q->port);
		a.len = sizeof a.in6;
	} else {
		return false;
	}
	q->addrs = xmemdup(&a, sizeof a);
	q->len = 1;
	return true;
}

void
resolve_host(struct resolve *r, const char *name, uint16_t port, resolve_host_fn *fn, void *arg)
{
	struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct request *q = request_new(r, arg);
	struct channel *c = NULL;

	q->on_host = fn;
	q->port = port;
	enter(r);
	r->calling++;
	if (numeric(q, name))
		finish(q);
	else if ((c = request_channel(q)) == NULL)
		on_host(q, ARES_ENOMEM, 0, NULL);
	else
		ares_getaddrinfo(c->ares, name, NULL, &hints, on_host, q);
	r->calling--;
	leave(r, c);
}
