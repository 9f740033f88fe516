/* A node's session on a worker, and without any: streams, their codes, and a caller's socket that
 * is handed to the worker. TSan runs this, too. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/core/rate.h"
#include "base/core/util.h"
#include "hub/replicas/tunnel_session_private.h"
#include "tests/unit/base/tls/workers_bed.h"
#include "tunnel/h2/session_private.h"

enum { SOON = 40 /* turns */, MEMORY = 8 << 20, FIRST = 1000 };

static struct session_workers *workers; /* NULL in a test without them */
static struct liveness *lives;
static bool squeeze; /* of the next tunnel */

#define until(condition) patience_until(patience_turn(loop), condition)

static int
with_workers(void **state)
{
	(void)state;
	lives = liveness_new();
	workers = session_workers_new(loop, loops, WORKERS, MEMORY);
	return 0;
}

static int
without(void **state)
{
	(void)state;
	lives = liveness_new();
	return 0;
}

static int
end_workers(void **state)
{
	(void)state;
	session_workers_free(&workers);
	liveness_free(&lives); /* everybody has left */
	return 0;
}

/* --- the node, on the test's loop ----------------------------------------------------------- */

struct node {
	struct session *session;
	struct session_budget budget;
	struct stream *stream; /* the latest */
	struct stream *former[64];
	unsigned n_former, opened, drained, ended, reset;
	unsigned resets_with; /* the code */
	char authority[64], field[64]; /* of the latest */
};

struct tunnel {
	struct tunnel_session *session; /* the hub's end */
	struct node node;
	unsigned drained, ended, silent, asked;
	int rc;
};

static void
echo_back(void *arg)
{
	struct node *n = arg;
	const void *data;
	size_t len;

	while ((len = MIN(stream_peek(n->stream, &data), stream_room(n->stream))) > 0) {
		stream_write(n->stream, data, len);
		stream_consume(n->stream, len);
	}
	if (stream_eof(n->stream))
		stream_end(n->stream);
}

static void
on_node_reset(void *arg, unsigned code)
{
	struct node *n = arg;

	n->reset = code;
	stream_close(&n->stream, code);
}

static unsigned
on_node_opened(
	void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	static const struct stream_events events = {
		.readable = echo_back, .writable = echo_back, .reset = on_node_reset};
	struct node *n = arg;

	n->opened++;
	if (n->stream != NULL) {
		assert_true(n->n_former < ARRAY_LEN(n->former));
		n->former[n->n_former++] = take_ptr(&n->stream);
	}
	snprintf(n->authority, sizeof n->authority, "%s", request->authority);
	assert_int_equal(request->n_fields, 1); /* none of the hub's own */
	snprintf(n->field, sizeof n->field, "%s=%s", request->fields[0].name,
		request->fields[0].value);
	if (strcmp(request->authority, "refused:1") == 0) {
		*reason = "nobody listens";
		return 502;
	}
	n->stream = st;
	stream_accept(st, &events, n);
	if (strcmp(request->authority, "reset:1") == 0)
		stream_close(&n->stream, n->resets_with);
	else if (strcmp(request->authority, "later:1") != 0)
		stream_answer(st, 200, "");
	return 0;
}

static void
on_node_draining(void *arg)
{
	((struct node *)arg)->drained++;
}

static void
on_node_ended(void *arg, int rc, const char *why)
{
	(void)rc;
	(void)why;
	((struct node *)arg)->ended++;
}

/* --- the hub's end -------------------------------------------------------------------------- */

static void
on_draining(void *arg)
{
	((struct tunnel *)arg)->drained++;
}

static void
on_asked(void *arg)
{
	((struct tunnel *)arg)->asked++;
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct tunnel *t = arg;

	(void)why;
	t->ended++;
	t->rc = rc;
}

static const struct session_limits limits = {100, 4000, 9000, 0};

static void
on_tls(void *arg, enum tls_event event)
{
	assert_int_equal(event, TLS_OPEN);
	++*(unsigned *)arg;
}

static void
start(struct tunnel *t)
{
	static const struct session_events node_events = {
		.opened = on_node_opened, .draining = on_node_draining, .ended = on_node_ended};
	static const struct session_events hub_events = {
		.draining = on_draining, .asked = on_asked, .ended = on_ended};
	struct session_setup node = {.loop = loop,
		.role = SESSION_SERVER,
		.budget = &t->node.budget,
		.squeeze = squeeze,
		.events = &node_events,
		.arg = &t->node};
	static struct session_budget budget;
	struct tls_stream *tls[2];
	unsigned open = 0;
	int net[2];

	memset(t, 0, sizeof *t);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, net), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tls_stream_new(&(struct tls_setup){.loop = loop,
							.fd = net[i],
							.ctx = i == 0 ? server : client,
							.host = i == 0 ? NULL : "hub.example",
							.on = on_tls,
							.arg = &open},
					 &tls[i], NULL),
			0);
	until(open == 2);
	t->node.budget.limit = budget.limit = MEMORY;
	t->node.resets_with = STREAM_BROKEN;
	node.wire = transport_tls(&tls[1]);
	assert_int_equal(session_new(&node, &t->node.session), 0);
	assert_int_equal(
		tunnel_session_new(&(struct tunnel_session_setup){.session = {.loop = loop,
									  .role = SESSION_CLIENT,
									  .budget = &budget,
									  .squeeze = squeeze,
									  .limits = &limits,
									  .events = &hub_events,
									  .arg = t},
					   .tls = &tls[0],
					   .liveness = lives,
					   .peer = "edge-1",
					   .workers = workers,
					   .node = "edge-1"},
			&t->session),
		0);
	assert_null(tls[0]);
}

static void
close_streams(struct node *n)
{
	stream_close(&n->stream, STREAM_CANCELLED);
	for (size_t i = 0; i < ARRAY_LEN(n->former); i++)
		stream_close(&n->former[i], STREAM_CANCELLED);
}

static void
end(struct tunnel *t)
{
	struct session_stats past = {0};

	tunnel_session_free(&t->session, &past);
	session_free(&t->node.session);
	close_streams(&t->node);
}

/* --- a caller ------------------------------------------------------------------------------- */

struct caller {
	struct stream *stream;
	struct relay_worker *relay;
	unsigned answered, status, reset, ended;
	struct relay_report report;
	char reason[64], got[64];
	size_t n;
};

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct caller *c = arg;

	c->answered++;
	c->status = status;
	snprintf(c->reason, sizeof c->reason, "%s", reason);
}

static void
on_readable(void *arg)
{
	struct caller *c = arg;
	const void *data;
	size_t n = stream_peek(c->stream, &data);

	assert_true(c->n + n < sizeof c->got);
	if (n == 0)
		return; /* the end */
	memcpy(c->got + c->n, data, n);
	c->n += n;
	stream_consume(c->stream, n);
}

static void
on_reset(void *arg, unsigned code)
{
	struct caller *c = arg;

	c->reset = code;
	stream_close(&c->stream, code);
}

static const struct stream_events caller_events = {
	.answered = on_answered, .readable = on_readable, .reset = on_reset};

static int
ask(struct tunnel *t, struct caller *c, const char *target, bool held)
{
	const struct stream_field field = {"edgeway-caller", "192.0.2.7"};

	memset(c, 0, sizeof *c);
	return tunnel_session_open(t->session,
		&(struct stream_request){
			.authority = target, .fields = &field, .n_fields = 1, .held = held},
		&caller_events, c, &c->stream);
}

static void
reach(struct tunnel *t, struct caller *c, bool held)
{
	assert_int_equal(ask(t, c, "echo:1", held), 0);
	until(c->answered == 1);
	assert_int_equal(c->status, 200);
	assert_string_equal(t->node.field, "edgeway-caller=192.0.2.7");
}

static void
on_relay_ended(void *arg, const struct relay_report *report)
{
	struct caller *c = arg;

	c->ended++;
	c->report = *report;
	relay_worker_free(&c->relay);
}

/* Returns the caller's end. rate: a limit that all loops share; NULL: none. */
static int
join(struct caller *c, struct rate *rate)
{
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	c->relay = relay_worker_join(workers,
		&(struct relay_setup){.loop = loop,
			.stream = take_ptr(&c->stream),
			.ended = on_relay_ended,
			.arg = c,
			.rates = {rate}},
		pair[0]);
	return pair[1];
}

/* Sends it all, and reads it back behind what has come before. */
static void
bulk_and_back(int fd, const char *before)
{
	static char got[BULK + 64];
	size_t sent = 0, n = 0, all = strlen(before) + BULK;
	ssize_t rc;

	while (n < all) {
		while (sent < BULK && (rc = write(fd, bulk + sent, BULK - sent)) > 0)
			sent += (size_t)rc;
		patience_turn(loop);
		while (n < all && (rc = read(fd, got + n, all - n)) > 0)
			n += (size_t)rc;
	}
	assert_memory_equal(got, before, strlen(before));
	assert_memory_equal(got + strlen(before), bulk, BULK);
}

/* --- tests ---------------------------------------------------------------------------------- */

/* Answers, refusals, resets and bytes are what the node's are. */
static void
test_streams(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	start(&t);
	reach(&t, &c, false);
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	assert_memory_equal(c.got, "hello", 5);
	assert_int_equal(tunnel_session_count(t.session), 1);
	stream_end(c.stream);
	until(stream_eof(c.stream));
	stream_close(&c.stream, STREAM_DONE);

	assert_int_equal(ask(&t, &c, "refused:1", false), 0);
	until(c.answered == 1);
	assert_int_equal(c.status, 502);
	assert_string_equal(c.reason, "nobody listens");
	stream_close(&c.stream, STREAM_CANCELLED);

	assert_int_equal(ask(&t, &c, "reset:1", false), 0);
	until(c.reset == STREAM_BROKEN);
	assert_int_equal(c.answered, 0);

	assert_int_equal(ask(&t, &c, "no target", false), -EINVAL);
	end(&t);
}

/* A node that resets with codes that accuse its peer accuses the hub's session to it, and not the
 * one in which all streams to the nodes of a worker cross. */
static void
test_codes_of_a_node(void **state)
{
	static const struct {
		unsigned from, to;
	} codes[] = {{STREAM_REFUSED, STREAM_REFUSED}, {STREAM_CANCELLED, STREAM_CANCELLED},
		{NGHTTP2_INTERNAL_ERROR, STREAM_BROKEN}, {NGHTTP2_PROTOCOL_ERROR, STREAM_BROKEN}};
	struct tunnel hostile, t;
	struct caller c, dials[20];

	(void)state;
	start(&t);
	reach(&t, &c, false);
	for (int tunnels = 0; tunnels < 3; tunnels++) { /* the node's end counts its resets, too */
		start(&hostile);
		hostile.node.resets_with = NGHTTP2_PROTOCOL_ERROR;
		while (hostile.node.opened < 900) {
			for (size_t i = 0; i < ARRAY_LEN(dials); i++)
				assert_int_equal(ask(&hostile, &dials[i], "reset:1", false), 0);
			for (size_t i = 0; i < ARRAY_LEN(dials); i++)
				until(dials[i].stream == NULL);
		}
		end(&hostile);
	}
	stream_write(c.stream, "hello", 5);
	until(c.n == 5 || c.reset != 0);
	assert_int_equal(c.reset, 0);
	start(&hostile);
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		hostile.node.resets_with = codes[i].from;
		assert_int_equal(ask(&hostile, &dials[0], "reset:1", false), 0);
		until(dials[0].stream == NULL);
		assert_int_equal(dials[0].reset, codes[i].to);
	}
	end(&hostile);
	stream_close(&c.stream, STREAM_CANCELLED);
	end(&t);
}

/* The first bytes go to the node before it has answered; who gives up resets its stream. */
static void
test_first_bytes(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	start(&t);
	assert_int_equal(ask(&t, &c, "later:1", true), 0);
	stream_write(c.stream, bulk, FIRST);
	until(t.node.stream != NULL);
	until(stream_room(t.node.stream) > 0);
	stream_close(&c.stream, STREAM_CANCELLED);
	until(t.node.reset == STREAM_CANCELLED);
	assert_int_equal(c.answered, 0);
	end(&t);
}

/* What was sent in the stream comes first, then what is in the socket. */
static void
test_socket_is_handed_over(void **state)
{
	struct tunnel t;
	struct caller c;
	char byte;
	int fd;

	(void)state;
	start(&t);
	for (int limited = 0; limited < 2; limited++) {
		struct rate rate = {.per_s = 1 << 30};

		reach(&t, &c, true);
		stream_write(c.stream, "first", 5);
		fd = join(&c, limited ? &rate : NULL);
		bulk_and_back(fd, "first");
		assert_int_equal(c.ended, 0);
		shutdown(fd, SHUT_WR);
		until(read(fd, &byte, 1) == 0);
		until(c.ended == 1);
		assert_true(c.report.whole);
		assert_int_equal(c.report.to_stream, BULK);
		assert_int_equal(c.report.to_other, 5 + BULK);
		close(fd);
		until(tunnel_session_count(t.session) == 0);
	}
	end(&t);
}

/* Whoever breaks it off, and whenever: both ends see a reset, and the owner is told once. */
static void
test_breaks(void **state)
{
	struct tunnel t;
	struct caller c;
	char byte;
	int fd;

	(void)state;
	start(&t);
	for (int early = 0; early < 2; early++) { /* the owner; a worker may not have begun */
		reach(&t, &c, true);
		fd = join(&c, NULL);
		if (!early)
			bulk_and_back(fd, "");
		t.node.reset = 0;
		relay_worker_break(c.relay, "told so");
		assert_int_equal(read(fd, &byte, 1), 0); /* by now */
		until(c.ended == 1);
		assert_string_equal(c.report.why, "told so");
		assert_false(c.report.whole);
		until(t.node.reset != 0);
		close(fd);
	}
	reach(&t, &c, true); /* the owner gives it up */
	fd = join(&c, NULL);
	t.node.reset = 0;
	relay_worker_free(&c.relay);
	until(t.node.reset != 0);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	assert_int_equal(c.ended, 0);

	reach(&t, &c, true); /* the node, ahead of the socket */
	stream_close(&t.node.stream, STREAM_BROKEN);
	fd = join(&c, NULL);
	until(c.ended == 1);
	assert_false(c.report.whole);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	end(&t);
}

/* The tunnel breaks: a dial is told that it is lost, so that it may begin again elsewhere. */
static void
test_lost(void **state)
{
	struct session_stats past = {0};
	struct caller dialling, open, held;
	struct tunnel t;
	int fd;

	(void)state;
	start(&t);
	reach(&t, &open, false);
	reach(&t, &held, true);
	fd = join(&held, NULL);
	assert_int_equal(ask(&t, &dialling, "later:1", false), 0);
	until(t.node.opened == 3);
	session_free(&t.node.session);
	until(t.ended == 1 && dialling.reset != 0 && open.reset != 0 && held.ended == 1);
	assert_int_equal(dialling.reset, STREAM_LOST);
	assert_int_equal(open.reset, STREAM_LOST);
	assert_true(t.rc < 0);
	assert_int_equal(ask(&t, &dialling, "echo:1", false), -ESHUTDOWN);
	tunnel_session_free(&t.session, &past);
	assert_int_equal(past.opened, 3);
	close_streams(&t.node);
	close(fd);
}

/* It finishes what it has, and takes nothing new. */
static void
test_drains(void **state)
{
	struct tunnel t;
	struct caller c, late;

	(void)state;
	start(&t);
	reach(&t, &c, false);
	tunnel_session_send_away(t.session);
	tunnel_session_drain(t.session);
	assert_int_equal(ask(&t, &late, "echo:1", false), -ESHUTDOWN);
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	assert_int_equal(t.ended, 0);
	stream_end(c.stream);
	until(stream_eof(c.stream));
	stream_close(&c.stream, STREAM_DONE);
	until(t.ended == 1 && t.node.ended == 1);
	assert_int_equal(t.rc, 0);
	end(&t);
}

/* What the node tells of its own, and what is told of it. */
static void
test_told(void **state)
{
	struct session_budget memory = {0};
	auto_buf struct buf out = {0};
	const char *comma = "";
	struct tunnel t;
	struct caller c;

	(void)state;
	start(&t);
	reach(&t, &c, false);
	session_ask_anew(t.node.session);
	until(t.asked == 1);
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	session_workers_count(workers, &memory);
	assert_int_equal(tunnel_session_stats(t.session)->bytes_in, 5);
	session_workers_streams(workers, &comma, &out);
	tunnel_session_streams(t.session, "edge-1", &comma, &out);
	assert_non_null(strstr(buf_str(&out), "\"node\":\"edge-1\""));
	assert_non_null(strstr(buf_str(&out), "echo:1"));
	assert_false(tunnel_session_is_silent(t.session));
	stream_close(&c.stream, STREAM_CANCELLED);
	session_drain(t.node.session);
	until(t.drained == 1);
	end(&t);
}

/* Freed at once, before the worker has begun, with dials under way. */
static void
test_freed_early(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	for (int i = 0; i < 20; i++) {
		start(&t);
		if (i % 2 == 1)
			assert_int_equal(ask(&t, &c, "echo:1", i % 4 == 1), 0);
		end(&t);
		if (i % 2 == 1) {
			until(c.reset != 0);
			assert_true(c.reset == STREAM_LOST || c.reset == STREAM_REFUSED);
		}
	}
	assert_int_equal(t.ended, 0);
}

struct waiting {
	const struct session_worker *worker;
	struct session_budget bytes;
};

static void
on_waiting(void *arg)
{
	struct waiting *w = arg;

	w->bytes = w->worker->crossing_budget;
}

/* What is on the worker of that which crosses. */
static struct session_budget
waiting(const struct tunnel *t)
{
	struct waiting w = {.worker = t->session->worker};

	session_worker_ask(t->session->worker, on_waiting, &w);
	return w.bytes;
}

/* The memory for what crosses is used up by who does not read: that keeps nobody else out. */
static void
test_slow_readers(void **state)
{
	static const struct stream_events deaf_events = {
		.answered = on_answered, .reset = on_reset};
	struct session_workers *usual = take_ptr(&workers);
	struct caller deaf, c;
	struct tunnel t;

	(void)state;
	workers = session_workers_new(loop, loops, WORKERS, 0);
	start(&t);
	reach(&t, &deaf, false);
	stream_use(deaf.stream, &deaf_events, &deaf);
	until((stream_write(deaf.stream, bulk, MIN(stream_room(deaf.stream), (size_t)BULK)),
		deaf.stream->in.len >= STREAM_WINDOW_BASE && waiting(&t).queued > 0));
	assert_int_equal(ask(&t, &c, "echo:1", false), 0);
	until(c.answered == 1 || c.reset != 0);
	assert_int_equal(c.reset, 0);
	assert_int_equal(c.status, 200);
	end(&t);
	until(c.reset != 0 && deaf.reset != 0);
	session_workers_free(&workers);
	workers = usual;
}

/* First bytes that wait for the node's answer, as that tells whether to compress, are lost with no
 * tunnel. */
static void
test_first_bytes_that_wait(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	squeeze = true;
	start(&t);
	squeeze = false;
	assert_int_equal(ask(&t, &c, "later:1", true), 0);
	stream_write(c.stream, bulk, FIRST);
	until(t.node.opened == 1 && waiting(&t).held == FIRST);
	session_free(&t.node.session);
	until(c.reset != 0);
	assert_int_equal(c.reset, STREAM_REFUSED);
	end(&t);
}

/* How many streams there are is known without a wait for the workers each time: not for the same
 * session, nor for another one. */
static void
test_count_waits_rarely(void **state)
{
	pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
	struct tunnel t, other;
	struct caller c, also, late;

	(void)state;
	start(&t);
	start(&other);
	reach(&t, &c, false);
	reach(&other, &also, false);
	assert_int_equal(tunnel_session_count(t.session), 1);
	pthread_mutex_lock(&busy);
	workers_bed_hold(&busy);
	assert_int_equal(ask(&t, &late, "echo:1", false), 0);
	alarm(60); /* it would wait forever */
	assert_int_equal(tunnel_session_count(t.session), 2);
	assert_int_equal(tunnel_session_count(other.session), 1);
	alarm(0);
	pthread_mutex_unlock(&busy);
	until(late.answered == 1);
	stream_close(&late.stream, STREAM_CANCELLED);
	stream_close(&c.stream, STREAM_CANCELLED);
	stream_close(&also.stream, STREAM_CANCELLED);
	until(tunnel_session_count(t.session) == 0);
	until(tunnel_session_count(other.session) == 0);
	end(&t);
	end(&other);
}

/* The next stream has the last id. */
static void
use_up(struct session *s)
{
	/* whose first member is nghttp2's */
	nghttp2_session *ng = *(nghttp2_session **)s->h2;

	assert_int_equal(nghttp2_session_set_next_stream_id(ng, INT32_MAX), 0);
}

static void
on_use_up(void *arg)
{
	use_up(((struct tunnel_session *)arg)->session);
}

/* After 2^30 streams both ends know that the node is to open another tunnel. */
static void
test_tunnel_is_used_up(void **state)
{
	struct caller last, next;
	struct tunnel t;
	int rc;

	(void)state;
	start(&t);
	reach(&t, &last, false);
	stream_close(&last.stream, STREAM_CANCELLED);
	if (workers != NULL)
		session_worker_ask(t.session->worker, on_use_up, t.session);
	else
		on_use_up(t.session);
	reach(&t, &last, false);
	assert_int_equal(t.drained, 0);
	rc = ask(&t, &next, "echo:1", false);
	if (workers != NULL)
		until(next.reset == STREAM_REFUSED); /* and is begun again */
	else
		assert_int_equal(rc, -ESHUTDOWN);
	until(t.drained == 1 && t.node.drained == 1);
	assert_int_equal(ask(&t, &next, "echo:1", false), -ESHUTDOWN);
	stream_write(last.stream, "hello", 5);
	until(last.n == 5);
	assert_int_equal(t.ended, 0);
	stream_close(&last.stream, STREAM_CANCELLED);
	until(t.ended == 1 && t.node.ended == 1);
	assert_int_equal(t.rc, 0);
	end(&t);
}

/* After 2^30 streams another session begins. */
static void
test_streams_are_used_up(void **state)
{
	struct caller first, last, next;
	struct tunnel t;

	(void)state;
	start(&t);
	reach(&t, &first, false);
	use_up(t.session->worker->near);
	reach(&t, &last, false);
	assert_int_equal(last.reset, 0);
	reach(&t, &next, false);
	assert_int_equal(first.reset, STREAM_LOST);
	assert_int_equal(last.reset, STREAM_LOST);
	stream_write(next.stream, "hello", 5);
	until(next.n == 5);
	stream_close(&next.stream, STREAM_CANCELLED);
	end(&t);
}

/* What crosses is lost, and the tunnel is not: the node gets a code of HTTP/2. */
static void
test_node_hears_a_code_of_http2(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	start(&t);
	reach(&t, &c, false);
	session_free(&t.session->worker->near);
	assert_int_equal(c.reset, STREAM_LOST);
	until(t.node.reset != 0);
	assert_int_equal(t.node.reset, STREAM_CANCELLED);
	end(&t);
}

static void
on_busy(void *arg)
{
	usleep(50 * 1000);
	*(atomic_bool *)arg = true;
}

/* The owner's end is lost, and none takes its place before the stop: that waits for the worker
 * nevertheless, where the other end and what crosses may still be. */
static void
test_stop_without_an_end(void **state)
{
	atomic_bool waited = false;
	struct session_worker *w;
	struct tunnel t;
	struct caller c;

	(void)state;
	start(&t);
	reach(&t, &c, false);
	w = t.session->worker;
	end(&t);
	until(c.reset != 0);
	loop_post(w->loop, on_busy, &waited);
	session_free(&w->near);
	session_workers_free(&workers);
	assert_true(waited);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define ON_WORKERS(test) {#test, test, with_workers, end_workers, NULL}
#define BOTH(test)                                                                                 \
	ON_WORKERS(test),                                                                          \
	{                                                                                          \
#		test " on one loop", test, without, end_workers, NULL                             \
	}
		BOTH(test_streams),
		ON_WORKERS(test_codes_of_a_node),
		BOTH(test_first_bytes),
		BOTH(test_socket_is_handed_over),
		BOTH(test_breaks),
		BOTH(test_lost),
		BOTH(test_drains),
		BOTH(test_told),
		BOTH(test_freed_early),
		ON_WORKERS(test_slow_readers),
		ON_WORKERS(test_first_bytes_that_wait),
		ON_WORKERS(test_count_waits_rarely),
		BOTH(test_tunnel_is_used_up),
		ON_WORKERS(test_streams_are_used_up),
		ON_WORKERS(test_node_hears_a_code_of_http2),
		ON_WORKERS(test_stop_without_an_end),
	};

	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
