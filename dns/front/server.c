#include "dns/front/server.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/core/fair_share.h"
#include "base/core/sock.h"
#include "base/os/ingress_interface.h"
#include "dns/forward/cookie.h"
#include "dns/forward/rewrite.h"
#include "dns/front/tcp.h"
#include "dns/front/udp.h"

enum { FORWARD_BYTES_MAX = 1472 }; /* of a query that is forwarded */
enum {
	PODS_ASKED_MOST = 512
}; /* queries that wait for the hub's word on a pod: clients share them */
enum { SERVER_FAMILIES = 2 }; /* IPv4, IPv6 */

struct server {
	struct loop *loop;
	struct dns_zone zone;
	struct snapshot *snapshot;
	struct lookup *lookup;
	struct udp *udp[SERVER_FAMILIES]; /* NULL while we do not listen */
	struct tcp *tcp[SERVER_FAMILIES];
	uint8_t *tcp_answer; /* DNS_MESSAGE_MAX bytes since we listen, for one answer at a time */
	struct ingress_interface arrival;
	uint8_t secret[COOKIE_SECRET_BYTES]; /* of cookies */
	uint32_t mark;
	pod_ask_fn *ask_pod; /* NULL: nobody knows pods */
	void *ask_pod_arg;
	struct fair_share *pods_asked; /* queries that wait for it */
	uint64_t seed; /* of clients' slots in that */
	struct order *stop; /* to be told that it has stopped, once none waits; NULL: no */
	struct server *const *others; /* all workers' servers, including this one */
	size_t n_others;
	struct server_counters count;
};

/* Where an answer goes. */
struct client {
	struct tcp_conn *conn; /* NULL: UDP */
	struct dns_client from;
};

/* A client's query that waits for an upstream. */
struct waiting {
	struct server *server;
	struct client client;
	bool chase;
	struct dns_target target;
	size_t len;
	uint8_t query[];
};

static void
server_add(_Atomic uint64_t *c)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void
count_answer(struct server *s, const uint8_t *answer)
{
	static const uint8_t outcomes[16] = {
		[DNS_NOERROR] = SERVER_NOERROR,
		[DNS_FORMERR] = SERVER_FORMERR,
		[DNS_SERVFAIL] = SERVER_SERVFAIL,
		[DNS_NXDOMAIN] = SERVER_NXDOMAIN,
		[DNS_NOTIMP] = SERVER_NOTIMP,
		[DNS_REFUSED] = SERVER_REFUSED,
	};
	unsigned outcome = outcomes[answer[3] & 15];

	if (outcome == SERVER_NOERROR && dns_get16(answer + 6) == 0)
		outcome = SERVER_NODATA;
	server_add(&s->count.outcome[outcome]);
}

/* --- sending -------------------------------------------------------------------------------- */

static void
server_reply(struct server *s, const struct client *c, uint8_t *answer, size_t len)
{
	struct udp *udp = s->udp[c->from.sa.sa_family == AF_INET6];

	if (c->conn != NULL)
		tcp_reply(c->conn, answer, len);
	else if (udp == NULL)
		server_add(&s->count.udp.send_errors);
	else
		udp_send(udp, &c->from, answer, len);
}

static enum dns_parse
server_parse(const struct server *s, const struct client *c, struct dns_query *q, const uint8_t *m,
	size_t len)
{
	enum dns_parse parsed = dns_query_parse(q, m, len);

	if (parsed == DNS_PARSE_DROP || q->cookie_len == 0)
		return parsed;
	cookie_sign(q->cookie, s->secret, &c->from, (uint32_t)time(NULL));
	q->cookie_len = DNS_COOKIE_BYTES;
	return parsed;
}

/* --- forwarding ----------------------------------------------------------------------------- */

/* What was asked: a client's query, and the target if another name's addresses are wanted. */
struct asked {
	const struct dns_query *q;
	const struct dns_target *target;
};

/* Converts upstream's answer for this client; without an answer writes SERVFAIL. */
static void
write_forwarded(const struct server *s, struct dns_out *to, const struct asked *by,
	const uint8_t *answer, size_t len)
{
	bool done = false;

	if (len > 0 && by->target != NULL)
		done = dns_chase_answer(to, by->q, by->target, s->zone.ttl_s, answer, len);
	else if (len > 0)
		done = dns_forward_answer(to, by->q, answer, len);
	if (!done)
		to->len = dns_reply_error(to->bytes, to->size, by->q, DNS_SERVFAIL);
}

static void
on_forwarded(void *arg, const uint8_t *answer, size_t len)
{
	struct waiting *w = arg;
	size_t room = w->client.conn != NULL ? DNS_MESSAGE_MAX : DNS_UDP_MAX;
	auto_free uint8_t *out = xmalloc(room);
	struct dns_out to = {.bytes = out, .size = room};
	struct dns_query q;
	struct asked by = {&q, w->chase ? &w->target : NULL};

	if (server_parse(w->server, &w->client, &q, w->query, w->len) == DNS_PARSE_OK) {
		if (w->client.conn == NULL)
			to.size = dns_reply_limit(&q);
		write_forwarded(w->server, &to, &by, answer, len);
		server_reply(w->server, &w->client, out, to.len);
	}
	if (w->client.conn != NULL)
		tcp_unref(&w->client.conn);
	free(w);
}

/* 0 when the answer comes later; otherwise the client gets SERVFAIL now. */
static int
wait_for_upstream(struct server *s, const struct client *c, const struct asked *by, uint64_t client)
{
	struct waiting *w = xcalloc(1, sizeof *w + by->q->len);
	int rc;

	w->server = s;
	w->client = *c;
	w->len = by->q->len;
	memcpy(w->query, by->q->bytes, by->q->len);
	w->chase = by->target != NULL;
	if (by->target != NULL)
		w->target = *by->target;
	rc = lookup_wait(s->lookup, by->q, by->target, client, on_forwarded, w);
	if (rc < 0) {
		free(w);
		return rc;
	}
	if (c->conn != NULL)
		tcp_ref(c->conn);
	return 0;
}

/* Writes the answer to `to`, which stays empty when the answer comes later. */
static void
forward_query(struct server *s, const struct client *c, const struct asked *by, struct dns_out *to)
{
	struct cache_answer known = {.len = 0};
	uint64_t client = dns_client_key(&c->from);

	if (s->lookup != NULL && by->q->len <= FORWARD_BYTES_MAX) {
		if (lookup_now(s->lookup, by->q, by->target, client, &known)) {
			write_forwarded(s, to, by, known.bytes, known.len);
			server_add(&s->count.outcome[SERVER_CACHED]);
			return;
		}
		if (wait_for_upstream(s, c, by, client) == 0) {
			server_add(&s->count.outcome[SERVER_FORWARDED]);
			return;
		}
	}
	write_forwarded(s, to, by, known.bytes, known.len); /* a stale one, if any */
	count_answer(s, to->bytes);
}

/* --- pods by their address ------------------------------------------------------------------ */

static void server_tell_stopped(struct server *s);

/* A query that waits for what the hub knows of a pod. */
struct server_pod_wait {
	struct pod_ask ask; /* first */
	struct server *server;
	struct client client;
	uint16_t slot; /* of the client */
	size_t len;
	uint8_t query[];
};

static void
server_on_pod(void *arg)
{
	struct server_pod_wait *w = arg;
	struct server *s = w->server;
	size_t room = w->client.conn != NULL ? DNS_MESSAGE_MAX : DNS_UDP_MAX;
	auto_free uint8_t *out = xmalloc(room);
	struct dns_out to = {.bytes = out, .size = room};
	struct dns_query q;

	fair_share_give(s->pods_asked, w->slot, 1);
	if (server_parse(s, &w->client, &q, w->query, w->len) == DNS_PARSE_OK) {
		if (w->client.conn == NULL)
			to.size = dns_reply_limit(&q);
		if (dns_answer_pod(&s->zone, s->snapshot, &q, &to, &w->ask) == DNS_ANSWERED)
			count_answer(s, out);
		else
			forward_query(s, &w->client, &(struct asked){&q, NULL}, &to);
		if (to.len > 0)
			server_reply(s, &w->client, out, to.len);
	}
	if (w->client.conn != NULL)
		tcp_unref(&w->client.conn);
	free(w);
	server_tell_stopped(s);
}

/* Writes the answer to `to`, which stays empty when the answer comes later. */
static void
server_ask_pod(struct server *s, const struct client *c, const struct dns_query *q,
	const struct pod_ask *pod, struct dns_out *to)
{
	struct server_pod_wait *w;
	uint64_t key = dns_client_key(&c->from);
	uint16_t slot = fair_share_slot(&key, sizeof key, s->seed);

	if (s->ask_pod == NULL || !fair_share_take(s->pods_asked, slot, 1)) {
		to->len = dns_reply_error(to->bytes, to->size, q, DNS_SERVFAIL);
		count_answer(s, to->bytes);
		return;
	}
	w = xcalloc(1, sizeof *w + q->len);
	w->ask = *pod;
	w->ask.port = 0;
	w->ask.client = (uint32_t)(key ^ key >> 32);
	w->ask.loop = s->loop;
	w->ask.done = server_on_pod;
	w->server = s;
	w->client = *c;
	w->slot = slot;
	w->len = q->len;
	memcpy(w->query, q->bytes, q->len);
	if (c->conn != NULL)
		tcp_ref(c->conn);
	server_add(&s->count.outcome[SERVER_POD]);
	s->ask_pod(s->ask_pod_arg, &w->ask);
}

/* --- queries -------------------------------------------------------------------------------- */

/* Returns the length of the answer in `out`, or 0 if there is none now. */
static size_t
server_handle(struct server *s, const struct client *c, const uint8_t *m, size_t len, uint8_t *out,
	size_t room)
{
	struct dns_target target;
	struct dns_query q;
	enum dns_parse parsed = server_parse(s, c, &q, m, len);
	enum dns_verdict verdict = DNS_ANSWERED;
	struct dns_out to = {.bytes = out};

	if (parsed == DNS_PARSE_DROP) {
		server_add(&s->count.outcome[SERVER_DROPPED]);
		return 0;
	}
	to.size = c->conn != NULL ? room : dns_reply_limit(&q);
	if (parsed == DNS_PARSE_REFUSE) {
		to.len = dns_reply_error(out, to.size, &q, (enum dns_rcode)q.rcode);
		if (q.rcode == DNS_BADVERS) {
			server_add(&s->count.outcome[SERVER_BADVERS]);
			return to.len;
		}
	} else {
		verdict = dns_answer(&s->zone, s->snapshot, &q, &to, &target);
	}
	if (verdict == DNS_ASK_POD) {
		to.len = 0;
		server_ask_pod(s, c, &q, &target.pod, &to);
		return to.len;
	}
	if (verdict != DNS_ANSWERED) {
		struct asked by = {&q, verdict == DNS_CHASE ? &target : NULL};

		to.len = 0;
		forward_query(s, c, &by, &to);
		return to.len;
	}
	count_answer(s, out);
	return to.len;
}

static bool
has_come_by_mesh(struct server *s, unsigned interface)
{
	if (ingress_interface_ok(&s->arrival, interface, loop_now_ms(s->loop)))
		return true;
	server_add(&s->count.outcome[SERVER_FOREIGN]);
	return false;
}

static bool
on_tcp_client(void *arg, int fd)
{
	return has_come_by_mesh(arg, sock_interface(fd));
}

static void
on_tcp(void *arg, struct tcp_conn *conn, const uint8_t *m, size_t len)
{
	struct server *s = arg;
	struct client c = {.conn = conn, .from = *tcp_client(conn)};
	size_t n;

	n = server_handle(s, &c, m, len, s->tcp_answer, DNS_MESSAGE_MAX);
	if (n > 0)
		tcp_reply(conn, s->tcp_answer, n);
}

static size_t
on_udp(void *arg, const struct udp_from *from, const uint8_t *m, size_t len, uint8_t *out)
{
	struct client c = {.from = *from->client};

	if (!has_come_by_mesh(arg, from->interface))
		return 0;
	return server_handle(arg, &c, m, len, out, DNS_UDP_MAX);
}

/* --- requests from loop 0 ------------------------------------------------------------------- */

struct order {
	struct server *server;
	struct snapshot *snapshot;
	bool six;
	int udp, tcp;
	struct addr at;
	struct loop *main;
	loop_fn *fn;
	void *arg;
	size_t n;
	struct addr upstreams[FORWARD_UPSTREAMS_MAX];
};

static struct order *
order_new(struct server *s)
{
	struct order *o = xcalloc(1, sizeof *o);

	o->server = s;
	return o;
}

static void
do_use(void *arg)
{
	struct order *o = arg;

	snapshot_unref(&o->server->snapshot);
	o->server->snapshot = o->snapshot;
	free(o);
}

void
server_use(struct server *s, const struct snapshot *snapshot)
{
	struct order *o = order_new(s);

	o->snapshot = snapshot_ref(snapshot);
	loop_post(s->loop, do_use, o);
}

/* An upstream's answer on its way to another worker's cache. */
struct lesson {
	struct server *server;
	struct cache_key key;
	size_t len;
	uint8_t answer[];
};

static void
do_learn(void *arg)
{
	struct lesson *k = arg;

	if (k->server->lookup != NULL)
		lookup_learn(k->server->lookup, &k->key, k->answer, k->len);
	free(k);
}

static void
on_learnt(void *arg, const struct cache_key *key, const uint8_t *answer, size_t len)
{
	struct server *s = arg;

	for (size_t i = 0; i < s->n_others; i++) {
		struct lesson *k;

		if (s->others[i] == s)
			continue;
		k = xmalloc(sizeof *k + len);
		k->server = s->others[i];
		k->key = *key;
		k->len = len;
		memcpy(k->answer, answer, len);
		loop_post(k->server->loop, do_learn, k);
	}
}

void
server_ask_pods(struct server *s, pod_ask_fn *ask, void *arg)
{
	s->ask_pod = ask;
	s->ask_pod_arg = arg;
}

void
server_share(struct server *s, struct server *const *servers, size_t n)
{
	s->others = servers;
	s->n_others = n;
}

static void
do_use_upstreams(void *arg)
{
	struct order *o = arg;
	struct server *s = o->server;

	if (s->lookup == NULL) {
		lookup_new(&s->lookup, s->loop, s->mark, &s->count.lookup);
		lookup_on_learnt(s->lookup, on_learnt, s);
	}
	lookup_use(s->lookup, o->upstreams, o->n);
	free(o);
}

void
server_use_upstreams(struct server *s, const struct addr *upstreams, size_t n)
{
	struct order *o = order_new(s);

	o->n = MIN(n, ARRAY_LEN(o->upstreams));
	if (o->n > 0)
		memcpy(o->upstreams, upstreams, o->n * sizeof *upstreams);
	loop_post(s->loop, do_use_upstreams, o);
}

static void
close_sockets(struct server *s, bool six)
{
	udp_close(&s->udp[six]);
	tcp_close(&s->tcp[six]);
}

static void
do_listen(void *arg)
{
	struct order *o = arg;
	struct server *s = o->server;

	close_sockets(s, o->six);
	if (o->six)
		s->zone.address6 = o->at.in6.sin6_addr;
	else
		s->zone.address = ntohl(o->at.in.sin_addr.s_addr);
	if (o->udp >= 0)
		udp_open(&s->udp[o->six], s->loop, o->udp, &s->count.udp, on_udp, s);
	if (o->tcp >= 0) {
		const struct tcp_handler handler = {on_tcp, on_tcp_client, s};

		if (s->tcp_answer == NULL)
			s->tcp_answer = xmalloc(DNS_MESSAGE_MAX);
		tcp_open(&s->tcp[o->six], s->loop, o->tcp, &handler);
	}
	free(o);
}

void
server_listen(struct server *s, bool six, int udp, int tcp, const struct addr *at)
{
	struct order *o = order_new(s);

	o->six = six;
	o->udp = udp;
	o->tcp = tcp;
	o->at = *at;
	loop_post(s->loop, do_listen, o);
}

static void
do_hand_over(void *arg)
{
	struct server *s = arg;

	for (int six = 0; six < SERVER_FAMILIES; six++) {
		if (s->udp[six] != NULL)
			udp_quiet(s->udp[six]);
		if (s->tcp[six] != NULL)
			tcp_quiet(s->tcp[six]);
	}
}

void
server_hand_over(struct server *s)
{
	loop_post(s->loop, do_hand_over, s);
}

/* The answers about pods come to the server itself. */
static void
server_tell_stopped(struct server *s)
{
	struct order *o = fair_share_used(s->pods_asked) == 0 ? take_ptr(&s->stop) : NULL;

	if (o != NULL)
		loop_post(o->main, o->fn, o->arg);
	free(o);
}

static void
do_stop(void *arg)
{
	struct order *o = arg;
	struct server *s = o->server;

	/* Open questions end with SERVFAIL while there is still a socket to send it. */
	lookup_free(&s->lookup);
	for (int six = 0; six < SERVER_FAMILIES; six++)
		close_sockets(s, six);
	free(take_ptr(&s->tcp_answer));
	s->stop = o;
	server_tell_stopped(s);
}

void
server_stop(struct server *s, struct loop *main, loop_fn *fn, void *arg)
{
	struct order *o = order_new(s);

	o->main = main;
	o->fn = fn;
	o->arg = arg;
	loop_post(s->loop, do_stop, o);
}

struct server *
server_new(struct loop *worker, const struct dns_zone *zone, const struct snapshot *snapshot,
	uint32_t mark, const char *const *interfaces)
{
	struct server *s = xcalloc(1, sizeof *s);

	s->loop = worker;
	s->zone = *zone;
	s->snapshot = snapshot_ref(snapshot);
	s->mark = mark;
	ingress_interface_init(&s->arrival, interfaces);
	random_bytes(s->secret, sizeof s->secret);
	random_bytes(&s->seed, sizeof s->seed);
	s->pods_asked = fair_share_new(PODS_ASKED_MOST);
	return s;
}

void
server_free(struct server **out)
{
	struct server *s = take_ptr(out);

	if (s == NULL)
		return;
	assert(s->udp[0] == NULL && s->udp[1] == NULL && s->lookup == NULL);
	snapshot_unref(&s->snapshot);
	ingress_interface_fini(&s->arrival);
	fair_share_free(&s->pods_asked);
	free(s);
}

const struct server_counters *
server_counters(const struct server *s)
{
	return &s->count;
}
