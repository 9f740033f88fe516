#include "base/net/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>

#include "base/net/resolve_channels.h"

enum {
	HOSTS_MAX = 16, /* addresses of one name that we return */
	ANSWER_MAX = 65535,
};

/* One call of resolve_query or resolve_host until its callback. It is in `open` until c-ares gives
 * the outcome; an outcome that comes before the call has returned waits in `done` for the timer.
 */
struct request {
	struct request *prev, *next;
	struct resolve *r;
	struct channel *channel; /* NULL: not for c-ares, or finished */
	resolve_answer_fn *on_answer; /* one of the two; both NULL once called */
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
	struct channels channels;
	struct timer *deferred; /* runs `done` */
	struct list open, done;
	unsigned calling; /* in resolve_query or resolve_host: outcomes must wait */
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

static void
resolve_destroy(void *arg)
{
	struct resolve *r = arg;

	channels_fini(&r->channels);
	timer_free(&r->deferred);
	free(r);
}

static void
request_free(struct request *q)
{
	free(q->answer);
	free(q->addrs);
	free(q);
}

static void
resolve_tell(struct request *q)
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

	channels_enter(&r->channels);
	while (r->done.head.next != &r->done.head) {
		struct request *q = r->done.head.next;

		list_remove(q);
		resolve_tell(q);
		request_free(q);
	}
	channels_leave(&r->channels, NULL);
}

int
resolve_new(struct resolve **out, struct loop *loop, const struct resolve_config *config,
	struct err *err)
{
	struct resolve *r = xcalloc(1, sizeof *r);
	int status = ares_library_init(ARES_LIB_INIT_ALL);

	r->loop = loop;
	r->config = *config;
	channels_init(&r->channels, loop, &r->config, resolve_destroy, r);
	r->config.servers = NULL;
	list_init(&r->open);
	list_init(&r->done);
	r->deferred = timer_new(loop, on_deferred, r);
	if (status == ARES_SUCCESS)
		status = channels_add(&r->channels);
	if (status != ARES_SUCCESS) {
		resolve_destroy(r);
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
		resolve_tell(q);
	}
}

void
resolve_free(struct resolve **out)
{
	struct resolve *r = take_ptr(out);

	if (r == NULL)
		return;
	r->channels.dying = true;
	channels_enter(&r->channels);
	cancel_all(&r->done);
	cancel_all(&r->open);
	while (r->done.head.next != &r->done.head) {
		struct request *q = r->done.head.next;

		list_remove(q);
		request_free(q);
	}
	channels_leave(&r->channels, NULL);
}

uint64_t
resolve_stray_ms(const struct resolve *r)
{
	return r->channels.stray_ms;
}

/* --- requests ------------------------------------------------------------------------------- */

static struct request *
request_new(struct resolve *r, void *arg)
{
	struct request *q = xcalloc(1, sizeof *q);

	q->r = r;
	q->arg = arg;
	list_add(&r->open, q);
	return q;
}

/* Picks the channel for q; NULL when none can be made. */
static struct channel *
request_channel(struct request *q)
{
	q->channel = channels_pick(&q->r->channels);
	if (q->channel != NULL)
		q->channel->open++;
	return q->channel;
}

/* Completes q, which holds the outcome. Never called while resolve_free's callbacks run. */
static void
resolve_finish(struct request *q)
{
	struct resolve *r = q->r;

	if (q->channel != NULL)
		q->channel->open--;
	q->channel = NULL;
	list_remove(q);
	if (r->calling > 0 && !r->channels.dying) {
		list_add(&r->done, q);
		timer_start(r->deferred, 0, 0);
		return;
	}
	resolve_tell(q);
	request_free(q);
}

static void
on_answer(void *arg, int status, int timeouts, unsigned char *bytes, int len)
{
	struct request *q = arg;

	(void)timeouts;
	q->status = errno_of(status);
	/* When c-ares checks the rcode, it passes a bad rcode together with the message. */
	if (bytes != NULL && len > 0 && len <= ANSWER_MAX && status != ARES_EDESTRUCTION) {
		q->status = 0;
		q->answer = q->on_answer != NULL ? xmemdup(bytes, (size_t)len) : NULL;
		q->len = (size_t)len;
		q->r->channels.outcomes++;
	} else if (q->status == 0) {
		q->status = -EIO;
	}
	resolve_finish(q);
}

void
resolve_query(struct resolve *r, const uint8_t *query, size_t len, resolve_answer_fn *fn, void *arg)
{
	struct request *q = request_new(r, arg);
	uint8_t *copy = xmemdup(query, len);
	struct channel *c = NULL;

	q->on_answer = fn;
	channels_enter(&r->channels);
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
	channels_leave(&r->channels, c);
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
	resolve_finish(q);
}

/* 1.18 asks its servers for numeric names too when any family will do. */
static bool
resolve_numeric(struct request *q, const char *name)
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
	channels_enter(&r->channels);
	r->calling++;
	if (resolve_numeric(q, name))
		resolve_finish(q);
	else if ((c = request_channel(q)) == NULL)
		on_host(q, ARES_ENOMEM, 0, NULL);
	else
		ares_getaddrinfo(c->ares, name, NULL, &hints, on_host, q);
	r->calling--;
	channels_leave(&r->channels, c);
}
