/* A node's session on a worker, and without any: what is told of it, slow readers, counts, ids that
 * are used up, and the stop. TSan runs this, too. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/util.h"
#include "hub/replicas/tunnels.h"
#include "tests/unit/hub/replicas/tunnel_session_bed.h"
#include "tunnel/h2/session_private.h"

/* What the node tells of its own, and what is told of it. */
static void
test_told(void **state)
{
	auto_buf struct buf out = {0};
	const char *comma = "";
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	session_ask_anew(t.node.session);
	until(t.asked == 1);
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	until(tunnel_session_stats(t.session)->bytes_in == 5);
	session_workers_streams(bed_workers, &comma, &out);
	tunnel_session_streams(t.session, "edge-1", &comma, &out);
	assert_non_null(strstr(buf_str(&out), "\"node\":\"edge-1\""));
	assert_non_null(strstr(buf_str(&out), "echo:1"));
	assert_false(tunnel_session_is_silent(t.session));
	stream_close(&c.stream, STREAM_CANCELLED);
	session_drain(t.node.session);
	until(t.drained == 1);
	bed_end(&t);
}

/* Freed at once, before the worker has begun, with dials under way. */
static void
test_freed_early(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	for (int i = 0; i < 20; i++) {
		bed_start(&t);
		if (i % 2 == 1)
			assert_int_equal(bed_ask(&t, &c, "echo:1", i % 4 == 1), 0);
		bed_end(&t);
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
		.answered = bed_on_answered, .reset = bed_on_reset};
	struct session_workers *usual = take_ptr(&bed_workers);
	struct caller deaf, c;
	struct tunnel t;

	(void)state;
	bed_workers = session_workers_new(loop, loops, WORKERS, SESSION_CLIENT, 0);
	bed_start(&t);
	bed_reach(&t, &deaf, false);
	stream_use(deaf.stream, &deaf_events, &deaf);
	until((stream_write(deaf.stream, bulk, MIN(stream_room(deaf.stream), (size_t)BULK)),
		deaf.stream->in.len >= STREAM_WINDOW_BASE && waiting(&t).queued > 0));
	assert_int_equal(bed_ask(&t, &c, "echo:1", false), 0);
	until(c.answered == 1 || c.reset != 0);
	assert_int_equal(c.reset, 0);
	assert_int_equal(c.status, 200);
	bed_end(&t);
	until(c.reset != 0 && deaf.reset != 0);
	session_workers_free(&bed_workers);
	bed_workers = usual;
}

struct hearer { /* an end of a stream of datagrams */
	struct stream **stream;
	struct dgram_reader reader;
	unsigned datagrams, dropped;
	size_t bytes; /* of all but the last */
	bool last;
};

static void
hear_datagrams(void *arg)
{
	struct hearer *h = arg;
	const void *data;
	size_t n;

	while (dgram_get(&h->reader, *h->stream, &data, &n) > 0) {
		h->datagrams++;
		h->last = h->last || n == 4;
		h->bytes += n == 4 ? 0 : n;
	}
	h->dropped += dgram_hear_dropped(&h->reader, *h->stream);
}

static void
on_hearer_reset(void *arg, unsigned code)
{
	stream_close(((struct hearer *)arg)->stream, code);
}

/* Those that a node does not take are dropped in front of its tunnel, by the bound that a stream of
 * datagrams has anywhere; on the way there nothing waits. The owner hears how many, from the worker
 * and from no node. */
static void
test_late_datagrams(void **state)
{
	static const struct stream_events asker_events = {
		.answered = bed_on_answered, .reset = bed_on_reset};
	static const struct stream_events deaf_events = {.reset = on_hearer_reset};
	static const struct stream_events events = {
		.readable = hear_datagrams, .reset = on_hearer_reset};
	static const struct stream_field field = {"edgeway-caller", "192.0.2.7"};
	const struct stream_request request = {
		.authority = "node:53", .udp = true, .fields = &field, .n_fields = 1};
	struct caller c = {.answered = 0};
	struct hearer h = {.bytes = 0}, owner = {.stream = &c.stream};
	unsigned sent = 0;
	struct tunnel t;
	int rc;

	(void)state;
	bed_start(&t);
	h.stream = &t.node.stream;
	until((rc = tunnel_session_open(t.session, &request, &asker_events, &c, &c.stream)) !=
		-EINPROGRESS);
	assert_int_equal(rc, 0);
	until(c.answered == 1);
	assert_int_equal(c.status, 200);
	stream_use(c.stream, &events, &owner);
	stream_use(t.node.stream, &deaf_events, &h);
	assert_true(dgram_tell_dropped(t.node.stream, 1 << 20));
	for (int i = 0; i < 1000; i++) {
		sent += dgram_put(c.stream, bulk, 1400);
		loop_turn(loop);
	}
	until(stream_queued(c.stream) == 0 && waiting(&t).held == 0);
	stream_use(t.node.stream, &events, &h);
	hear_datagrams(&h);
	until((sent += dgram_put(c.stream, "last", 4), h.last));
	/* the node's window, what waits in front of it, and what was between the threads */
	assert_in_range(h.bytes, STREAM_WINDOW_BASE, 2 * STREAM_WINDOW_BASE + DGRAM_QUEUE_BYTES);
	until(h.datagrams + owner.dropped == sent);
	dgram_reader_fini(&h.reader);
	dgram_reader_fini(&owner.reader);
	stream_close(&c.stream, STREAM_CANCELLED);
	until(t.node.stream == NULL);
	bed_end(&t);
}

/* First bytes that wait for the node's answer, as that tells whether to compress, are lost with no
 * tunnel. */
static void
test_first_bytes_that_wait(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_squeeze = true;
	bed_start(&t);
	bed_squeeze = false;
	assert_int_equal(bed_ask(&t, &c, "later:1", true), 0);
	stream_write(c.stream, bulk, FIRST);
	until(t.node.opened == 1 && waiting(&t).held == FIRST);
	session_free(&t.node.session);
	until(c.reset != 0);
	assert_int_equal(c.reset, STREAM_REFUSED);
	bed_end(&t);
}

static void
on_silence(void *arg)
{
	struct session *s = ((struct tunnel_session *)arg)->session;
	struct stream *st;

	s->silent = true;
	TAILQ_FOREACH(st, &s->streams, link)
		frames_hear_fading(st, true);
	session_kick(s);
}

static void
on_fading(void *arg)
{
	++*(unsigned *)arg;
}

/* The node's end of the tunnel answers nothing any more. A dial of which nothing has gone out ends,
 * to begin again elsewhere; the others go on, and their owners are told. */
static void
test_a_tunnel_that_falls_silent(void **state)
{
	struct caller dialling, fed, waits;
	unsigned faded[2] = {0};
	struct tunnel t;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &waits, true);
	assert_int_equal(bed_ask(&t, &fed, "later:1", false), 0);
	stream_write(fed.stream, "hello", 5);
	until(session_stats(t.node.session)->bytes_in == 5);
	assert_int_equal(bed_ask(&t, &dialling, "later:1", false), 0);
	until(t.node.opened == 3);
	stream_on_fading(waits.stream, on_fading, &faded[0]);
	stream_on_fading(fed.stream, on_fading, &faded[1]);
	t.node.session->wire->ops->hold(t.node.session->wire, true);
	session_worker_ask(t.session->worker, on_silence, t.session);
	until(dialling.reset != 0 && faded[0] > 0 && faded[1] > 0);
	assert_int_equal(dialling.reset, STREAM_LOST);
	assert_int_equal(fed.reset, 0);
	assert_int_equal(waits.reset, 0);
	assert_true(stream_is_doubted(waits.stream));
	stream_close(&fed.stream, STREAM_CANCELLED);
	stream_close(&waits.stream, STREAM_CANCELLED);
	bed_end(&t);
}

/* A node's tunnel that takes no more now: told as what it is, and not as the hub's. */
static void
test_a_tunnel_that_is_behind(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	stream_close(&c.stream, STREAM_CANCELLED);
	session_worker_ask(t.session->worker, bed_on_crowd, t.session->session);
	assert_int_equal(bed_ask(&t, &c, "echo:1", false), 0);
	until(c.answered == 1);
	assert_int_equal(c.status, 503);
	assert_string_equal(c.reason, tunnels_why_not(-EAGAIN));
	stream_close(&c.stream, STREAM_CANCELLED);
	session_worker_ask(t.session->worker, bed_on_crowd_left, t.session->session);
	bed_reach(&t, &c, false);
	stream_close(&c.stream, STREAM_CANCELLED);
	bed_end(&t);
}

static uint64_t
bytes_in(const struct tunnel *t)
{
	return tunnel_session_stats(t->session)->bytes_in;
}

/* A worker that hangs holds up nobody who asks for figures: they are those of before, with what was
 * opened since, and it can be told how old they are. */
static void
test_figures_wait_for_no_worker(void **state)
{
	struct session_budget memory = {0};
	struct tunnel t, other;
	struct caller c, also, late;

	(void)state;
	bed_start(&t);
	bed_start(&other);
	bed_reach(&t, &c, false);
	bed_reach(&other, &also, false);
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	until(bytes_in(&t) == 5 && tunnel_session_count(other.session) == 1);
	workers_bed_hold();
	alarm(60); /* it would wait forever */
	until(session_workers_age_ms(bed_workers) > 2000);
	assert_int_equal(bed_ask(&t, &late, "echo:1", false), 0);
	assert_int_equal(tunnel_session_count(t.session), 2);
	assert_int_equal(tunnel_session_count(other.session), 1);
	assert_int_equal(bytes_in(&t), 5);
	session_workers_memory(bed_workers, &memory);
	alarm(0);
	workers_bed_release();
	until(late.answered == 1);
	stream_close(&late.stream, STREAM_CANCELLED);
	stream_close(&c.stream, STREAM_CANCELLED);
	stream_close(&also.stream, STREAM_CANCELLED);
	until(tunnel_session_count(t.session) == 0);
	until(tunnel_session_count(other.session) == 0);
	until(session_workers_age_ms(bed_workers) <= 1000);
	bed_end(&t);
	bed_end(&other);
}

static void
on_use_up(void *arg)
{
	bed_on_use_up(((struct tunnel_session *)arg)->session);
}

/* After 2^30 streams both ends know that the node is to open another tunnel. */
static void
test_tunnel_is_used_up(void **state)
{
	struct caller last, next;
	struct tunnel t;
	int rc;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &last, false);
	stream_close(&last.stream, STREAM_CANCELLED);
	if (bed_workers != NULL)
		session_worker_ask(t.session->worker, on_use_up, t.session);
	else
		on_use_up(t.session);
	bed_reach(&t, &last, false);
	assert_int_equal(t.drained, 0);
	rc = bed_ask(&t, &next, "echo:1", false);
	if (bed_workers != NULL)
		until(next.reset == STREAM_REFUSED); /* and is begun again */
	else
		assert_int_equal(rc, -ESHUTDOWN);
	until(t.drained == 1 && t.node.drained == 1);
	assert_int_equal(bed_ask(&t, &next, "echo:1", false), -ESHUTDOWN);
	stream_write(last.stream, "hello", 5);
	until(last.n == 5);
	assert_int_equal(t.ended, 0);
	stream_close(&last.stream, STREAM_CANCELLED);
	until(t.ended == 1 && t.node.ended == 1);
	assert_int_equal(t.rc, 0);
	bed_end(&t);
}

/* What crosses is lost, and the tunnel is not: the node gets a code of HTTP/2. */
static void
test_node_hears_a_code_of_http2(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	crossing_ends_free(&t.session->worker->near);
	assert_int_equal(c.reset, STREAM_LOST);
	until(t.node.reset != 0);
	assert_int_equal(t.node.reset, STREAM_CANCELLED);
	bed_end(&t);
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
	bed_start(&t);
	bed_reach(&t, &c, false);
	w = t.session->worker;
	bed_end(&t);
	until(c.reset != 0);
	loop_post(w->loop, on_busy, &waited);
	crossing_ends_free(&w->near);
	session_workers_free(&bed_workers);
	assert_true(waited);
}
int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_told),
		BOTH(test_freed_early),
		ON_WORKERS(test_slow_readers),
		ON_WORKERS(test_late_datagrams),
		ON_WORKERS(test_first_bytes_that_wait),
		ON_WORKERS(test_a_tunnel_that_falls_silent),
		ON_WORKERS(test_a_tunnel_that_is_behind),
		ON_WORKERS(test_figures_wait_for_no_worker),
		BOTH(test_tunnel_is_used_up),
		ON_WORKERS(test_node_hears_a_code_of_http2),
		ON_WORKERS(test_stop_without_an_end),
	};

	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
