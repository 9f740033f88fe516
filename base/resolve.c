#include "base/resolve.h"

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
};

struct sock {
	struct sock *next;
	struct resolve *r;
	struct watch *watch;
	int fd;
};

/* One call of resolve_query or resolve_host until its callback. Lives in `open` until c-ares has
 * told the outcome; an outcome that comes before the call returned waits in `done` for the timer.
 */
struct request {
	struct request *prev, *next;
	struct resolve *r;
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
	ares_channel channel;
	struct timer *timeout; /* when c-ares wants to be called */
	struct timer *deferred; /* runs `done` */
	struct sock *socks;
	struct list open, done;
	unsigned
		inside; /* depth of calls from and into c-ares: the channel must not be destroyed */
	unsigned calling; /* in resolve_query or resolve_host: outcomes must wait */
	bool dying;
	bool serverless;
	uint32_t mark;
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
destroy(struct resolve *r)
{
	assert(r->inside == 0);
	r->inside = 1; /* the callbacks that ares_destroy makes must not end here again */
	ares_destroy(r->channel);
	while (r->socks != NULL) {
		struct sock *s = r->socks;

		r->socks = s->next;
		watch_stop(&s->watch);
		free(s);
	}
	timer_free(&r->timeout);
	timer_free(&r->deferred);
	free(r);
}

static void
enter(struct resolve *r)
{
	r->inside++;
}

static void
rearm(struct resolve *r)
{
	struct timeval tv, *wait = ares_timeout(r->channel, NULL, &tv);

	if (wait == NULL)
		timer_cancel(r->timeout);
	else
		timer_start(r->timeout,
			(uint64_t)wait->tv_sec * 1000 + (uint64_t)wait->tv_usec / 1000 + 1, 0);
}

/* Every way back out of c-ares ends here; r may be gone afterwards. */
static void
leave(struct resolve *r)
{
	if (--r->inside > 0)
		return;
	if (r->dying)
		destroy(r);
	else
		rearm(r);
}

static void
on_socket(void *arg, int fd, unsigned events)
{
	struct resolve *r = ((struct sock *)arg)->r;
	bool hup = (events & WATCH_HUP) != 0;

	enter(r);
	ares_process_fd(r->channel, events & WATCH_READ || hup ? fd : ARES_SOCKET_BAD,
		events & WATCH_WRITE || hup ? fd : ARES_SOCKET_BAD);
	leave(r);
}

static void
on_timeout(void *arg)
{
	struct resolve *r = arg;

	enter(r);
	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	leave(r);
}

/* c-ares says which events of a socket it wants; neither: it is about to close it. */
static void
on_interest(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolve *r = arg;
	struct sock **at = &r->socks, *s;
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
		s->r = r;
		s->fd = fd;
		s->next = r->socks;
		r->socks = s;
		s->watch = watch_start(r->loop, fd, want, on_socket, s);
	} else if (want != 0) {
		watch_set(s->watch, want);
	}
}

/* Without CAP_NET_ADMIN the mark fails; the queries are still good. */
static int
on_new_socket(ares_socket_t fd, int type, void *arg)
{
	struct resolve *r = arg;

	(void)type;
	if (r->mark != 0 && setsockopt(fd, SOL_SOCKET, SO_MARK, &r->mark, sizeof r->mark) < 0)
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
	leave(r);
}

/* ares_addrinfo and the like need a channel that reads no file: every option that resolv.conf
 * could set is given, empty where it must be. */
static int
open_channel(struct resolve *r, const struct resolve_config *config)
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
	o.sock_state_cb_data = r;
	return ares_init_options(&r->channel, &o,
		ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
			ARES_OPT_LOOKUPS | ARES_OPT_EDNSPSZ | ARES_OPT_RESOLVCONF |
			ARES_OPT_SOCK_STATE_CB | ARES_OPT_SERVERS | ARES_OPT_DOMAINS |
			ARES_OPT_SORTLIST | ARES_OPT_NOROTATE);
}

static int
set_servers(struct resolve *r, const struct resolve_config *config)
{
	struct ares_addr_port_node *nodes = xcalloc(config->n_servers, sizeof *nodes);
	int status;

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
	status = config->n_servers > 0 ? ares_set_servers_ports(r->channel, nodes) : ARES_SUCCESS;
	free(nodes);
	return status;
}

int
resolve_new(struct resolve **out, struct loop *loop, const struct resolve_config *config,
	struct err *err)
{
	struct resolve *r = xcalloc(1, sizeof *r);
	int status = ares_library_init(ARES_LIB_INIT_ALL);

	r->loop = loop;
	r->mark = config->mark;
	r->serverless = config->n_servers == 0;
	list_init(&r->open);
	list_init(&r->done);
	if (status == ARES_SUCCESS)
		status = open_channel(r, config);
	if (status != ARES_SUCCESS) {
		free(r);
		return err_set(err, EIO, "DNS client: %s", ares_strerror(status));
	}
	ares_set_socket_configure_callback(r->channel, on_new_socket, r);
	r->timeout = timer_new(loop, on_timeout, r);
	r->deferred = timer_new(loop, on_deferred, r);
	status = set_servers(r, config);
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
	leave(r);
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

/* The outcome is in q. Never called while resolve_free's callbacks run. */
static void
finish(struct request *q)
{
	struct resolve *r = q->r;

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

	q->on_answer = fn;
	enter(r);
	r->calling++;
	if (len >= 12)
		random_bytes(copy, 2); /* ares_send keeps the id that it is given */
	/* 1.18 leaks a query for which there is no server. */
	if (len <= ANSWER_MAX && !r->serverless)
		ares_send(r->channel, copy, (int)len, on_answer, q);
	else
		on_answer(q, r->serverless ? ARES_ECONNREFUSED : ARES_EBADQUERY, 0, NULL, 0);
	r->calling--;
	free(copy);
	leave(r);
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

	q->on_host = fn;
	q->port = port;
	enter(r);
	r->calling++;
	if (numeric(q, name))
		finish(q);
	else
		ares_getaddrinfo(r->channel, name, NULL, &hints, on_host, q);
	r->calling--;
	leave(r);
}
