/* A response from a node that compresses: however much it expands to, a turn has an end. And which
 * streams are kept for the next request, and how long a client may read. */
#include "hub/ingress/client_conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log.h"
#include "hub/routing/stream_pool.h"
#include "tests/fake/clock.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"

enum { MUCH = 8 << 20, TURN_MOST = SESSION_TURN + 64 * 1024 + 1024 };

static struct stream_pool *pool;

void __wrap_connector_finish(struct connector *r, struct stream **stream, struct stream_use **use);

void
__wrap_connector_finish(struct connector *r, struct stream **stream, struct stream_use **use)
{
	(void)r;
	stream_pool_give(pool, stream, use);
}

static struct client_conn *
client_conn_make(struct ingress *ingress, int fd, const char *request)
{
	static const struct door door = {.kind = DOOR_REDIRECT}; /* which begins nothing itself */
	const struct caller caller = {.addr = addr_ipv4(INADDR_LOOPBACK, 1)};
	struct client_conn *v = ingress_begin(ingress, &door, fd, &caller, NULL, NULL);

	assert_non_null(v);
	v->state = CLIENT_CONN_EXCHANGE;
	assert_int_equal(http1_parse_request(&ingress->head, request, strlen(request)), 0);
	exchange_begin(v, "192.0.2.7", "edge-1", 80, NULL);
	return v;
}

/* Almost only zeros, which are little on the wire: all of it waits at the hub when this returns. */
static void
node_respond(struct bed *b, struct end *node)
{
	static const char zeros[50000],
		head[] = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n";
	size_t room;

	stream_write(node->st, head, sizeof head - 1);
	for (size_t n = 0; n < MUCH; n += room) {
		bed_until(b, stream_room(node->st) > 0);
		room = MIN(MIN(stream_room(node->st), sizeof zeros), MUCH - n);
		stream_write(node->st, zeros, room);
	}
	stream_end(node->st);
	bed_until(b, stream_far_ended(b->ends[0]->st));
}

static void
test_a_turn_has_an_end(void **state)
{
	static char piece[65536];
	static struct grants grants;
	int fd[2], room = 2 * MUCH;
	struct ingress *ingress;
	struct client_conn *v;
	struct end node = {0};
	struct bed b = {0};
	size_t got = 0;
	ssize_t n;

	(void)state;
	bed_init_squeezed(&b);
	bed_open(&b, &node, "a:1");
	bed_until(&b, node.status == 200);
	b.ends[0]->stalled = true;
	node_respond(&b, &node);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	/* Without the right to this it takes less, and the test says little. */
	(void)setsockopt(fd[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
	grants.loop = b.loop;
	ingress = ingress_new(&(struct ingress_config){.loop = b.loop, .grants = &grants});
	v = client_conn_make(ingress, fd[1], "GET / HTTP/1.1\r\nHost: edge-1\r\n\r\n");
	exchange_reached(v, take_ptr(&b.ends[0]->st), NULL);
	while ((n = recv(fd[0], piece, sizeof piece, 0)) > 0)
		got += (size_t)n;
	assert_in_range(got, 1, TURN_MOST);
	/* Said to be longer, it is broken off in the end, with what is unsent. */
	while (n != 0) {
		bed_until(&b, (n = recv(fd[0], piece, sizeof piece, 0)) >= 0);
		got += (size_t)n;
	}
	assert_in_range(got, MUCH - CLIENT_CONN_OUT_FULL, MUCH + 1024);
	ingress_free(&ingress);
	close(fd[0]);
	bed_fini_open(&b, &node, 1);
}

/* One exchange with its client, which is the test. */
struct exchange_bed {
	struct bed bed;
	struct ingress *ingress;
	struct client_conn *v;
	struct stream *st; /* the exchange's */
	int client;
};

static void
exchange_bed_init(struct exchange_bed *x, const char *request)
{
	static const struct stream_key key = {"", "", "", "edge-1", "edge-1:80", 1};
	static const int little = 4096;
	static struct grants grants;
	struct end near;
	int fd[2];

	bed_init(&x->bed, false);
	bed_open(&x->bed, &near, "edge-1:80");
	bed_until(&x->bed, near.status == 200);
	x->bed.ends[0]->echo = false;
	pool = stream_pool_new(x->bed.loop);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
	x->client = fd[0];
	grants.loop = x->bed.loop;
	x->ingress = ingress_new(&(struct ingress_config){.loop = x->bed.loop, .grants = &grants});
	x->v = client_conn_make(x->ingress, fd[1], request);
	x->st = near.st;
	exchange_reached(x->v, near.st, stream_use_new(pool, &key, "", ""));
}

static void
exchange_bed_fini(struct exchange_bed *x)
{
	ingress_free(&x->ingress);
	stream_pool_free(&pool);
	close(x->client);
	bed_fini(&x->bed);
}

/* A server may answer before it has read its request. What is left of that in the stream would be
 * ahead of the next request, and both together more than a stream takes. */
static void
test_a_stream_with_a_rest_of_its_request_is_not_kept(void **state)
{
	enum { BODY = STREAM_WINDOW_BASE + STREAM_OUT_BYTES - 30000 };
	static const char body[BODY], ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	struct exchange_bed x;
	char request[100];

	(void)state;
	snprintf(request, sizeof request,
		"POST / HTTP/1.1\r\nHost: edge-1\r\nContent-Length: %d\r\n\r\n", BODY);
	for (int reads = 0; reads < 2; reads++) {
		size_t sent = 0;
		ssize_t n;

		exchange_bed_init(&x, request);
		x.bed.ends[0]->stalled = reads == 0;
		while (sent < BODY) {
			bed_until(&x.bed, (n = send(x.client, body, BODY - sent, 0)) > 0);
			sent += (size_t)n;
		}
		bed_until(&x.bed,
			exchange_request_done(x.v) && (reads > 0) == (stream_queued(x.st) == 0));
		stream_write(x.bed.ends[0]->st, ok, sizeof ok - 1);
		bed_until(&x.bed, x.v->state == CLIENT_CONN_HEAD);
		assert_int_equal(stream_pool_any(pool), reads > 0);
		exchange_bed_fini(&x);
	}
}

/* Lets the client connection's time pass, whose sessions are gone. */
static void
exchange_bed_pause(struct exchange_bed *x, unsigned s)
{
	while (s-- > 0) {
		clock_pass(1000 * 1000);
		bed_wait(&x->bed);
	}
}

/* The hub is done with a response long before a slow client has read it. */
static void
test_a_response_is_sent_to_its_end(void **state)
{
	enum { BODY = 60000, IDLE_S = CLIENT_CONN_IDLE_MS / 1000 };
	static const char body[BODY];
	enum { PAUSES, PAUSES_ONCE, HALF_CLOSES, HOWS };
	char piece[20000];

	(void)state;
	for (int how = 0; how < HOWS; how++) {
		struct exchange_bed x;
		struct stream *far;
		size_t got = 0, all;
		ssize_t n;

		exchange_bed_init(&x, "GET / HTTP/1.1\r\nHost: edge-1\r\n\r\n");
		far = x.bed.ends[0]->st;
		n = snprintf(
			piece, sizeof piece, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BODY);
		all = (size_t)n + BODY;
		stream_write(far, piece, (size_t)n);
		stream_write(far, body, BODY);
		bed_until(&x.bed, x.v->state == CLIENT_CONN_HEAD);
		assert_true(buf_len(&x.v->out) > 0);
		session_free(&x.bed.near);
		session_free(&x.bed.far);
		if (how == HALF_CLOSES)
			assert_int_equal(shutdown(x.client, SHUT_WR), 0);
		do {
			bed_until(&x.bed, (n = recv(x.client, piece, sizeof piece, 0)) >= 0);
			got += (size_t)n;
			if (how == PAUSES && n > 0)
				exchange_bed_pause(&x, IDLE_S * 2 / 3);
			else if (how == PAUSES_ONCE && got == (size_t)n)
				exchange_bed_pause(&x, IDLE_S * 3 / 2);
		} while (n > 0 && got < all);
		assert_int_equal(got, all);
		exchange_bed_fini(&x);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_turn_has_an_end),
		cmocka_unit_test(test_a_stream_with_a_rest_of_its_request_is_not_kept),
		cmocka_unit_test(test_a_response_is_sent_to_its_end),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
