/*
 * Who reaches is answered when his time is over, whatever happens at that moment. The tunnels and
 * all else that is asked are the test's own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/hub/routing/connector_bed.h"
#include "tests/unit/patience.h"

enum {
	BREAKS_AFTER_MS = CONNECTOR_MS - CONNECTOR_AWAIT_MS + 500
}; /* what waits then waits beyond its time */

/* What was not granted is closed, and its owner is given no stream. */
static void
an_answer_that_is_not_granted(void **state)
{
	struct stream *stream = bed_stream();
	struct connector_answer answer = {.status = 200, .via = "", .stream = stream};

	(void)state;
	connector_grant(&answer, NULL, NULL);
	assert_int_equal(answer.status, 200);
	assert_ptr_equal(answer.stream, stream);
	answer.via = "full";
	connector_grant(&answer, NULL, NULL);
	assert_int_equal(answer.status, 429);
	assert_string_equal(answer.reason, "full");
	assert_null(answer.stream);
	answer.status = 502;
	connector_grant(&answer, NULL, NULL);
	assert_int_equal(answer.status, 502);
}

static void
on_break(void *arg)
{
	(void)arg;
	bed.has_tunnel = false;
	bed.events->reset(bed.to, STREAM_LOST);
}

/* In the very turn in which the caller's time is over. */
static void
on_return(void *arg)
{
	(void)arg;
	bed.has_tunnel = true;
	connector_changed(bed.reach, "edge-1");
}

/* The node's tunnel broke while it was asked, it is waited for, and is back too late: nobody would
 * end the new dial. */
static void
a_node_that_is_back_too_late(void **state)
{
	const struct caller caller = {0};
	struct timer *breaks, *returns;

	(void)state;
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){
		.loop = bed.loop, .peers = (struct peers *)(void *)bed_stream()});
	breaks = timer_new(bed.loop, on_break, NULL);
	returns = timer_new(bed.loop, on_return, NULL);
	bed.has_tunnel = true;
	connector_start(bed.reach,
		&(struct connector_request){.caller = &caller, .host = "edge-1", .port = 7},
		bed_reached, NULL);
	timer_start(breaks, BREAKS_AFTER_MS, 0);
	timer_start(returns, CONNECTOR_MS, 0); /* behind the deadline, which began before */
	patience_until(patience_turn(bed.loop), bed.status != 0);
	assert_int_equal(bed.status, 503);
	assert_int_equal(bed.opened, 1);
	timer_free(&breaks);
	timer_free(&returns);
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

static void
nothing_is_found_for_a_stranger(void **state)
{
	const struct caller stranger = {.own_dial = true};

	(void)state;
	bed = (struct bed){.has_tunnel = true};
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){.loop = bed.loop});
	connector_start(bed.reach,
		&(struct connector_request){.caller = &stranger, .host = "edge-1", .port = 7},
		bed_reached, NULL);
	patience_until(patience_turn(bed.loop), bed.status != 0);
	assert_int_equal(bed.status, 403);
	assert_int_equal(bed.found + bed.opened, 0);
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

/* The connection's count or the request's, whichever is more, and this hub on top; with as many as
 * there may be nobody is asked. */
static void
what_goes_round(void **state)
{
	static const struct {
		unsigned connection, request, status;
		const char *said;
	} rows[] = {{0, 0, 200, "1"}, {3, 0, 200, "4"}, {1, 5, 200, "6"},
		{HOPS_MAX - 1, 2, 200, "12"}, {HOPS_MAX, 0, 508, ""}, {0, HOPS_MAX, 508, ""},
		{0, 4000000000u, 508, ""}};

	(void)state;
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){.loop = bed.loop});
	bed.has_tunnel = true;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct caller caller = {.hops = rows[i].connection};

		bed.opened = bed.status = 0;
		bed.hops[0] = '\0';
		connector_start(bed.reach,
			&(struct connector_request){.caller = &caller,
				.host = "edge-1",
				.port = 7,
				.hops = rows[i].request},
			bed_reached, NULL);
		if (bed.opened > 0)
			bed.events->answered(bed.to, 200, "");
		patience_until(patience_turn(bed.loop), bed.status != 0);
		assert_int_equal(bed.status, rows[i].status);
		assert_string_equal(bed.hops, rows[i].said);
		assert_int_equal(bed.opened, rows[i].status == 200);
	}
	assert_int_equal(connector_loops(bed.reach), 3);
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

/* It was lost a moment ago, or the hub has just started: whoever asks now waits for it; for others
 * nobody waits. */
static void
a_node_that_is_on_its_way(void **state)
{
	const struct caller caller = {0};
	const struct connector_request request = {.caller = &caller, .host = "edge-1", .port = 7};

	(void)state;
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){
		.loop = bed.loop, .peers = (struct peers *)(void *)bed_stream()});
	bed.has_tunnel = false;
	bed.opened = bed.status = 0;
	connector_start(bed.reach, &request, bed_reached, NULL);
	for (int i = 0; i < 10; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 503);
	bed.expected = true;
	bed.status = 0;
	/* It has passed the rules, and so holds no place of those who have not (preauth.h). */
	assert_true(connector_is_let_in(connector_start(bed.reach, &request, bed_reached, NULL)));
	for (int i = 0; i < 100; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 0);
	on_return(NULL);
	assert_int_equal(bed.opened, 1);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	bed.has_tunnel = false;
	bed.status = 0;
	connector_start(
		bed.reach, &request, bed_reached, NULL); /* one that does not come: not for ever */
	patience_until(patience_turn(bed.loop), bed.status != 0);
	assert_int_equal(bed.status, 503);
	bed.expected = false;
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

/* It is stopped, perhaps to be started again: who has other endpoints to ask goes on to them. */
static void
a_node_that_stops(void **state)
{
	const struct caller caller = {0};
	struct connector_request request = {.caller = &caller, .host = "edge-1", .port = 7};

	(void)state;
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){
		.loop = bed.loop, .peers = (struct peers *)(void *)bed_stream()});
	bed.has_tunnel = false;
	bed.left = true;
	bed.opened = bed.status = 0;
	connector_start(bed.reach, &request, bed_reached, NULL);
	for (int i = 0; i < 100; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 0);
	on_return(NULL);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	bed.has_tunnel = false;
	bed.status = 0;
	request.service = "default/web";
	connector_start(bed.reach, &request, bed_reached, NULL);
	for (int i = 0; i < 10; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 503);
	bed.left = false;
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

/* The tunnel answers neither the stream nor a ping: replicas are asked, one after the other, and,
 * where none knows, the node is waited for. */
static void
a_silent_tunnel_is_left(void **state)
{
	const struct caller caller = {0};
	const struct connector_request request = {.caller = &caller, .host = "edge-1", .port = 7};

	(void)state;
	for (unsigned replicas = 0; replicas <= 2; replicas++) {
		bed = (struct bed){.has_tunnel = true, .replicas = replicas};
		assert_int_equal(loop_new(&bed.loop, NULL), 0);
		bed.reach = connector_new(&(struct connector_config){
			.loop = bed.loop, .peers = (struct peers *)(void *)bed_stream()});
		connector_start(bed.reach, &request, bed_reached, NULL);
		assert_int_equal(bed.opened, 1);
		bed.silent = true;
		connector_changed(bed.reach, "edge-1");
		assert_int_equal(bed.asked, replicas > 0);
		while (bed.asked > 0 && bed.asked < replicas)
			bed.events->answered(bed.to, 421, "not here");
		assert_int_equal(bed.asked, replicas);
		if (replicas == 0) { /* it answers again */
			bed.silent = false;
			connector_changed(bed.reach, "edge-1");
			assert_int_equal(bed.opened, 2);
		}
		bed.events->answered(bed.to, 200, "");
		patience_until(patience_turn(bed.loop), bed.status != 0);
		assert_int_equal(bed.status, 200);
		connector_free(&bed.reach);
		loop_free(&bed.loop);
	}
}

/* A dial moves to a newer tunnel, wherever that is. */
static void
a_newer_tunnel_is_taken(void **state)
{
	static const struct {
		uint64_t before, here, there;
		unsigned opened, asked;
	} rows[] = {{5, 5, 0, 1, 0}, {5, 6, 0, 2, 0}, {5, 5, 6, 1, 1}, {5, 7, 6, 2, 0}};
	const struct caller caller = {0};
	const struct connector_request request = {.caller = &caller, .host = "edge-1", .port = 7};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bed = (struct bed){.has_tunnel = true, .epoch = rows[i].before, .replicas = 1};
		assert_int_equal(loop_new(&bed.loop, NULL), 0);
		bed.reach = connector_new(&(struct connector_config){
			.loop = bed.loop, .peers = (struct peers *)(void *)bed_stream()});
		connector_start(bed.reach, &request, bed_reached, NULL);
		bed.epoch = rows[i].here;
		bed.epoch_there = rows[i].there;
		connector_changed(bed.reach, "edge-1");
		assert_int_equal(bed.opened, rows[i].opened);
		assert_int_equal(bed.asked, rows[i].asked);
		assert_int_equal(bed.closed, rows[i].opened + rows[i].asked - 1);
		bed.events->answered(bed.to, 200, "");
		patience_until(patience_turn(bed.loop), bed.status != 0);
		connector_free(&bed.reach);
		loop_free(&bed.loop);
	}
}

/* A map's caller does not wait for the answer; and what has gone out once does not go out again. */
static void
first_bytes_go_with_the_dial(void **state)
{
	const struct caller caller = {0};
	auto_buf struct buf first = {.limit = BUF_UNLIMITED};
	const struct connector_request request = {
		.caller = &caller, .host = "edge-1", .port = 7, .first = &first};
	struct connect_op *x;

	(void)state;
	bed = (struct bed){.has_tunnel = true};
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){
		.loop = bed.loop, .peers = (struct peers *)(void *)bed_stream()});
	buf_adds(&first, "hello");
	x = connector_start(bed.reach, &request, bed_reached, NULL);
	assert_string_equal(bed.written, "hello");
	buf_adds(&first, ", node");
	connector_more(x);
	assert_string_equal(bed.written, "hello, node");
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	assert_int_equal(bed.sent, 11);

	bed.status = 0;
	connector_start(bed.reach, &request, bed_reached, NULL);
	bed.silent = true; /* its tunnel: not asked for elsewhere */
	connector_changed(bed.reach, "edge-1");
	bed.events->reset(bed.to, STREAM_LOST);
	patience_until(patience_turn(bed.loop), bed.status != 0);
	assert_int_equal(bed.status, 502);
	assert_int_equal(bed.opened, 2);

	bed.silent = false;
	bed.status = 0;
	buf_consume(&first, buf_len(&first)); /* nothing has been said yet: asked for again */
	connector_start(bed.reach, &request, bed_reached, NULL);
	bed.events->reset(bed.to, STREAM_LOST);
	patience_until(patience_turn(bed.loop), bed.opened == 4);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

/* By what the caller names: an endpoint of a service, what a node dials, a host. */
static void
what_is_looked_for(void **state)
{
	static const struct caller caller = {0};
	static const struct {
		struct connector_request more;
		const char *by;
	} rows[] = {
		{{.caller = &caller}, "host"},
		{{.caller = &caller, .udp = true}, "udp"},
		{{.caller = &caller, .dest = "edge-1"}, "at"},
		{{.caller = &caller, .dest = "edge-1", .udp = true}, "at"},
		{{.caller = &caller, .service = "default/web", .dest = "edge-1"}, "endpoint"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bed_open(&(struct bed){.has_tunnel = true});
		bed_call(&rows[i].more);
		assert_string_equal(bed.found_by, rows[i].by);
		bed.events->answered(bed.to, 200, "");
		assert_int_equal(bed.status, 200);
		bed_close();
	}
}

/* The rules are asked each time, and a newer tunnel, a trace or a loop takes a dial. */
static void
a_kept_stream_is_taken(void **state)
{
	const struct trace_context trace = {0};
	const struct caller caller = {0}, someone = {0}, refused = {.local = true};
	const struct connector_request request = {
		.caller = &caller, .host = "edge-1", .port = 7, .kept = true};
	struct connector_request other = request;
	struct stream *stream = bed_stream();
	struct connector_answer answer;
	struct stream_use *use;

	(void)state;
	bed = (struct bed){.has_tunnel = true, .epoch = 3};
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){.loop = bed.loop});
	assert_false(connector_reuse(bed.reach, &request, NULL, &answer));
	connector_start(bed.reach, &request, bed_reached, NULL);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	assert_non_null(use = take_ptr(&bed.use));
	connector_finish(bed.reach, &stream, &use);
	bed.found = 0;

	other.kept = false;
	assert_false(connector_reuse(bed.reach, &other, NULL, &answer));
	other.kept = true;
	other.trace = &trace;
	assert_false(connector_reuse(bed.reach, &other, NULL, &answer));
	other = request;
	other.full = "full";
	assert_false(connector_reuse(bed.reach, &other, NULL, &answer));
	other = request;
	other.hops = HOPS_MAX;
	assert_false(connector_reuse(bed.reach, &other, NULL, &answer));
	assert_int_equal(bed.found, 0);
	other = request;
	other.caller = &refused;
	assert_false(connector_reuse(bed.reach, &other, NULL, &answer));
	bed.epoch = 4;
	assert_false(connector_reuse(bed.reach, &request, NULL, &answer));
	assert_non_null(bed.use);
	bed.epoch = 3;
	assert_true(connector_reuse(bed.reach, &request, NULL, &answer));
	assert_int_equal(answer.status, 200);
	assert_non_null(answer.stream);
	assert_string_equal(answer.via, "edge-1");
	assert_int_equal(bed.opened, 1);

	/* what was found for one caller and host is for those alone */
	for (int i = 0; i < 3; i++) {
		bed.found = 0;
		assert_false(connector_reuse(bed.reach, &request, NULL, &answer));
		bed.use = &(struct stream_use){0};
		bed.as_epoch = 4; /* so that a dial is needed */
		assert_false(connector_reuse(bed.reach, &request, NULL, &answer));
		other = request;
		other.kept = false;
		other.caller = i == 1 ? &someone : &caller;
		other.host = i == 2 ? "edge-2" : request.host;
		bed.found = 0;
		connector_start(bed.reach, &other, bed_reached, NULL);
		assert_int_equal(bed.found, i > 0);
		bed.events->answered(bed.to, 200, "");
		bed.use = NULL;
	}

	/* what a trace has begun is kept for nobody */
	bed.status = 0;
	other = request;
	other.trace = &trace;
	connector_start(bed.reach, &other, bed_reached, NULL);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	assert_null(bed.use);
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

static void
until_answered(void)
{
	patience_until(patience_turn(bed.loop), bed.status != 0);
}

/* What a node says is told with its name; a status that is not a node's to choose is 502. */
static void
what_the_node_says(void **state)
{
	static const struct {
		unsigned said, status;
		const char *reason, *told;
	} rows[] = {
		{403, 403, "not that port", "edge-1:7 at node edge-1: not that port"},
		{404, 404, "", "edge-1:7 at node edge-1: refused"},
		{400, 400, "what?", "edge-1:7 at node edge-1: what?"},
		{407, 502, "who are you?", "edge-1:7 at node edge-1: who are you?"},
		{302, 502, "there", "edge-1:7 at node edge-1: there"},
		{504, 504, "in vain", "edge-1:7 at node edge-1: in vain"},
	};

	(void)state;
	bed_open(&(struct bed){.has_tunnel = true});
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bed_call(NULL);
		bed.events->answered(bed.to, rows[i].said, rows[i].reason);
		until_answered();
		assert_int_equal(bed.status, rows[i].status);
		assert_string_equal(bed.reason, rows[i].told);
		assert_int_equal(bed.opened, i + 1);
	}
	bed_close();
}

/* Of whom and for whom it is, where that is known; and only what was reached has a stream. */
static void
what_the_stream_says(void **state)
{
	static const struct {
		const char *service, *said;
		bool beside;
	} rows[] = {{NULL, "", false}, {"default/web", "edgeway-service=default/web ", false},
		{NULL, "edgeway-reach=edge-9 ", true},
		{"default/web", "edgeway-service=default/web edgeway-reach=edge-9 ", true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bed_open(&(struct bed){
			.has_tunnel = true, .service = rows[i].service, .beside = rows[i].beside});
		bed_call(NULL);
		assert_string_equal(bed.fields, rows[i].said);
		bed.events->answered(bed.to, 200, "");
		assert_int_equal(bed.status, 200);
		assert_true(bed.given);
		bed_call(NULL);
		bed.events->answered(bed.to, 508, "");
		until_answered();
		assert_false(bed.given);
		bed_close();
	}
}

/* Another route may do what one cannot: not where the node itself has judged, but where a
 * neighbour has, who is not the only one. */
static void
the_next_route(void **state)
{
	static const struct {
		unsigned said, opened;
		bool beside;
	} rows[] = {{502, 2, false}, {503, 2, false}, {504, 2, false}, {403, 1, false},
		{404, 1, false}, {500, 2, false}, {508, 1, false}, {403, 2, true}, {404, 2, true},
		{508, 1, true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bed_open(&(struct bed){.has_tunnel = true, .routes = 2, .beside = rows[i].beside});
		bed_call(NULL);
		bed.events->answered(bed.to, rows[i].said, "no");
		if (bed.opened == 2) {
			assert_int_equal(bed.status, 0);
			bed.events->answered(bed.to, rows[i].said, "no");
			assert_int_equal(bed.opened, 2);
		}
		until_answered();
		assert_int_equal(bed.opened, rows[i].opened);
		assert_non_null(
			strstr(bed.reason, bed.opened == 2 ? "edge-2:7 at" : "edge-1:7 at"));
		bed_close();
	}
}

/* So often is a dial begun anew, and not once more: where nothing was done with it, and where its
 * tunnel broke. */
static void
a_dial_is_begun_anew(void **state)
{
	static const struct {
		unsigned code, times;
		bool udp;
		const char *told;
	} rows[] = {{STREAM_REFUSED, 5, false, "the node refused the stream"},
		{STREAM_LOST, 3, false, "the node's tunnel broke while dialling"},
		{STREAM_LOST, 0, true, "the node's tunnel broke while dialling"},
		{STREAM_BROKEN, 0, false, "the node refused the stream"}};
	static const struct caller anybody = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct connector_request request = {.caller = &anybody, .udp = rows[i].udp};

		bed_open(&(struct bed){.has_tunnel = true});
		bed_call(&request);
		for (unsigned k = 0; k <= rows[i].times; k++) {
			patience_until(patience_turn(bed.loop), bed.opened == k + 1);
			assert_int_equal(bed.status, 0);
			bed.events->reset(bed.to, rows[i].code);
		}
		until_answered();
		assert_int_equal(bed.status, 503);
		assert_string_equal(bed.reason, rows[i].told);
		assert_int_equal(bed.opened, rows[i].times + 1);
		bed_close();
	}
}

static void
a_stream_that_cannot_be_opened(void **state)
{
	static const struct {
		int rc;
		const char *told;
	} rows[] = {{-EAGAIN,
			    "edge-1:7 at node edge-1: the node has as many streams as its "
			    "tunnel carries"},
		{-EPROTONOSUPPORT,
			"edge-1:7 at node edge-1: the node's agent carries no UDP yet: it needs "
			"the hub's version"},
		{-EINVAL, "no stream to edge-1:7: Invalid argument"},
		{-ESHUTDOWN,
			"node edge-1 has no tunnel to this hub or its replicas: is its agent "
			"running, "
			"with tunnel.enabled?"},
		{-EINPROGRESS, "no answer from the node in time"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bed_open(&(struct bed){.has_tunnel = true, .refuses = rows[i].rc});
		bed_call(NULL);
		until_answered();
		assert_int_equal(bed.status, rows[i].rc == -EINPROGRESS ? 504 : 503);
		assert_string_equal(bed.reason, rows[i].told);
		bed_close();
	}
}

static void
no_answer_in_time(void **state)
{
	uint64_t start;

	(void)state;
	bed_open(&(struct bed){.has_tunnel = true});
	start = loop_now_ms(bed.loop);
	bed_call(NULL);
	until_answered();
	assert_int_equal(bed.status, 504);
	assert_true(loop_now_ms(bed.loop) - start >= CONNECTOR_MS);
	assert_int_equal(connector_pending(bed.reach), 0);
	bed_close();
}

/* So many wait for one node, and no more. */
static void
a_node_that_many_wait_for(void **state)
{
	struct metrics m;

	(void)state;
	bed_open(&(struct bed){.expected = true});
	for (unsigned i = 0; i < CONNECTOR_AWAIT_NODE; i++)
		bed_call(NULL);
	for (unsigned i = 0; i < 10; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 0);
	bed_call(NULL);
	for (unsigned i = 0; i < 10; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 503);
	assert_non_null(strstr(bed.reason, "; too many others wait for it"));
	assert_int_equal(connector_pending(bed.reach), CONNECTOR_AWAIT_NODE);
	metrics_init(&m);
	connector_metrics(bed.reach, &m);
	assert_non_null(strstr(buf_str(&m.out), "edgeway_ingress_crowded_total 1\n"));
	metrics_fini(&m);
	connector_changed(bed.reach, "edge-7"); /* another node's: nobody's */
	assert_int_equal(bed.opened, 0);
	bed.has_tunnel = true;
	connector_changed(bed.reach, "edge-1");
	assert_int_equal(bed.opened, CONNECTOR_AWAIT_NODE);
	patience_until(patience_turn(bed.loop), connector_pending(bed.reach) == 0);
	bed_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_that_is_not_granted),
		cmocka_unit_test(a_node_that_is_back_too_late),
		cmocka_unit_test(what_goes_round),
		cmocka_unit_test(nothing_is_found_for_a_stranger),
		cmocka_unit_test(a_node_that_is_on_its_way),
		cmocka_unit_test(a_node_that_stops),
		cmocka_unit_test(a_silent_tunnel_is_left),
		cmocka_unit_test(a_newer_tunnel_is_taken),
		cmocka_unit_test(first_bytes_go_with_the_dial),
		cmocka_unit_test(what_is_looked_for),
		cmocka_unit_test(a_kept_stream_is_taken),
		cmocka_unit_test(what_the_node_says),
		cmocka_unit_test(what_the_stream_says),
		cmocka_unit_test(the_next_route),
		cmocka_unit_test(a_dial_is_begun_anew),
		cmocka_unit_test(a_stream_that_cannot_be_opened),
		cmocka_unit_test(no_answer_in_time),
		cmocka_unit_test(a_node_that_many_wait_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
