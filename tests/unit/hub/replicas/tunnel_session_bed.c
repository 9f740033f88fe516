#include "tests/unit/hub/replicas/tunnel_session_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/core/util.h"
#include "tunnel/h2/session_private.h"

enum { MEMORY = 8 << 20 };

struct session_workers *bed_workers;
bool bed_squeeze;
enum session_role bed_role = SESSION_CLIENT;

static struct liveness *lives;

int
bed_with_workers(void **state)
{
	(void)state;
	lives = liveness_new();
	bed_workers = session_workers_new(loop, loops, WORKERS, bed_role, MEMORY);
	return 0;
}

int
bed_without(void **state)
{
	(void)state;
	lives = liveness_new();
	return 0;
}

int
bed_end_workers(void **state)
{
	(void)state;
	session_workers_free(&bed_workers);
	liveness_free(&lives); /* everybody has left */
	return 0;
}

/* --- the node, on the test's loop ----------------------------------------------------------- */

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
	unsigned status;

	n->opened++;
	if (n->stream != NULL) {
		assert_true(n->n_former < ARRAY_LEN(n->former));
		n->former[n->n_former++] = take_ptr(&n->stream);
	}
	snprintf(n->authority, sizeof n->authority, "%s", request->authority);
	assert_int_equal(request->n_fields, 1); /* none of the hub's own, and of the session's */
	snprintf(n->field, sizeof n->field, "%s=%s", request->fields[0].name,
		request->fields[0].value);
	if (sscanf(request->authority, "refused:%u", &status) == 1) {
		*reason = "nobody listens";
		return status;
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

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	return on_node_opened(&((struct tunnel *)arg)->node, st, request, reason);
}

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

static const struct session_limits limits = {.max_streams = 100, .ping_ms = 4000, .dead_ms = 9000};

static void
on_tls(void *arg, enum tls_event event)
{
	assert_int_equal(event, TLS_OPEN);
	++*(unsigned *)arg;
}

void
bed_start(struct tunnel *t)
{
	static const struct session_events node_events = {
		.opened = on_node_opened, .draining = on_node_draining, .ended = on_node_ended};
	static const struct session_events hub_events = {
		.opened = on_opened, .draining = on_draining, .asked = on_asked, .ended = on_ended};
	struct session_setup node = {.loop = loop,
		.role = bed_role == SESSION_CLIENT ? SESSION_SERVER : SESSION_CLIENT,
		.budget = &t->node.budget,
		.squeeze = bed_squeeze,
		.udp = bed_role == SESSION_CLIENT,
		.events = &node_events,
		.arg = &t->node};
	static struct session_budget budget;
	static uint16_t slot;
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
									  .role = bed_role,
									  .budget = &budget,
									  .slot = slot++,
									  .squeeze = bed_squeeze,
									  .limits = &limits,
									  .events = &hub_events,
									  .arg = t},
					   .tls = &tls[0],
					   .liveness = lives,
					   .peer = "edge-1",
					   .workers = bed_workers,
					   .node = "edge-1"},
			&t->session),
		0);
	assert_null(tls[0]);
}

void
bed_close_streams(struct node *n)
{
	stream_close(&n->stream, STREAM_CANCELLED);
	for (size_t i = 0; i < ARRAY_LEN(n->former); i++)
		stream_close(&n->former[i], STREAM_CANCELLED);
}

void
bed_end(struct tunnel *t)
{
	struct session_stats past = {0};

	tunnel_session_free(&t->session, &past);
	session_free(&t->node.session);
	bed_close_streams(&t->node);
}

/* --- a caller ------------------------------------------------------------------------------- */

void
bed_on_answered(void *arg, unsigned status, const char *reason)
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

void
bed_on_reset(void *arg, unsigned code)
{
	struct caller *c = arg;

	c->reset = code;
	stream_close(&c->stream, code);
}

static const struct stream_events caller_events = {
	.answered = bed_on_answered, .readable = on_readable, .reset = bed_on_reset};

int
bed_ask(struct tunnel *t, struct caller *c, const char *target, bool held)
{
	const struct stream_field field[] = {
		{"edgeway-caller", "192.0.2.7"}, {"edgeway-session", "999"}};
	const struct stream_request request = {.authority = target,
		.fields = field,
		.n_fields = bed_role == SESSION_CLIENT ? 1 : 2, /* a node may say anything */
		.held = held};

	memset(c, 0, sizeof *c);
	if (bed_role == SESSION_SERVER)
		return session_open(t->node.session, &request, &caller_events, c, &c->stream);
	return tunnel_session_open(t->session, &request, &caller_events, c, &c->stream);
}

void
bed_reach(struct tunnel *t, struct caller *c, bool held)
{
	assert_int_equal(bed_ask(t, c, "echo:1", held), 0);
	until(c->answered == 1);
	assert_int_equal(c->status, 200);
	assert_string_equal(t->node.field, "edgeway-caller=192.0.2.7");
}

void
bed_echo(struct caller *c)
{
	c->n = 0;
	stream_write(c->stream, "hello", 5);
	until(c->n == 5);
	assert_memory_equal(c->got, "hello", 5);
}

void
bed_refused(struct tunnel *t, struct caller *c)
{
	/* on a worker, what refuses nothing is an error of the node's */
	const struct {
		const char *target;
		unsigned status;
	} rows[] = {{"refused:400", 400}, {"refused:599", 599}, {"refused:502", 502},
		{"refused:302", bed_workers != NULL ? 502 : 302}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(bed_ask(t, c, rows[i].target, false), 0);
		until(c->answered == 1);
		assert_int_equal(c->status, rows[i].status);
		assert_string_equal(c->reason, "nobody listens");
		stream_close(&c->stream, STREAM_CANCELLED);
	}
}

static void
on_relay_ended(void *arg, const struct relay_report *report)
{
	struct caller *c = arg;

	c->ended++;
	c->report = *report;
	relay_worker_free(&c->relay);
}

int
bed_join(struct caller *c, struct rate *rate)
{
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	c->relay = relay_worker_join(bed_workers,
		&(struct relay_setup){.loop = loop,
			.stream = take_ptr(&c->stream),
			.ended = on_relay_ended,
			.arg = c,
			.rates = {rate}},
		pair[0]);
	return pair[1];
}

void
bed_on_use_up(void *session)
{
	/* whose first member is nghttp2's */
	nghttp2_session *ng = *(nghttp2_session **)((struct session *)session)->h2;

	assert_int_equal(nghttp2_session_set_next_stream_id(ng, INT32_MAX), 0);
}

void
bed_on_crowd(void *session)
{
	((struct session *)session)->leaving += SESSION_QUEUE;
}

void
bed_on_crowd_left(void *session)
{
	((struct session *)session)->leaving -= SESSION_QUEUE;
}
