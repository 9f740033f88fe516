/*
 * Who reaches is answered when his time is over, whatever happens at that moment. The tunnels and
 * all else that is asked are the test's own.
 */
#include "hub/routing/connector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/core/hops.h"
#include "tests/unit/patience.h"

enum {
	BREAKS_AFTER_MS = CONNECTOR_MS - CONNECTOR_AWAIT_MS + 500
}; /* what waits then waits beyond its time */

struct bed {
	struct loop *loop;
	struct connector *reach;
	bool has_tunnel, expected;
	bool left; /* it may be restarted */
	bool silent; /* that answers nothing */
	/* that pass on what is for a node of one that cannot be reached; the last of them can */
	unsigned replicas;
	unsigned asked; /* of those */
	unsigned found; /* routes that were asked for */
	/* of the tunnel here (0: 1), and of that at another replica */
	uint64_t epoch, epoch_there;
	unsigned opened;
	const struct stream_events *events; /* of the stream that was opened last */
	void *to;
	unsigned status; /* of the answer; 0: none yet */
	char hops[HOPS_TEXT_MAX]; /* as the stream says */
	char written[64]; /* into the stream that was opened last */
	size_t sent; /* as the answer says */
	/* of the kept stream; NULL: there is none. It is for requests of this key. */
	struct stream_use *use;
	char node[16], authority[16], as_hops[HOPS_TEXT_MAX];
	uint64_t as_epoch;
};

static struct bed bed;

static char stands_for_something;

/* --- what hub/routing/connector asks -------------------------------------------------------- */

int
tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	(void)t;
	(void)node;
	for (size_t i = 0; i < request->n_fields; i++)
		if (strcmp(request->fields[i].name, HOPS_FIELD) == 0)
			snprintf(bed.hops, sizeof bed.hops, "%s", request->fields[i].value);
	if (!bed.has_tunnel || bed.silent)
		return -ENOTCONN;
	bed.opened++;
	bed.written[0] = '\0';
	bed.events = events;
	bed.to = arg;
	*out = (struct stream *)(void *)&stands_for_something;
	return 0;
}

bool
tunnels_await(const struct tunnels *t, const char *node, bool left)
{
	(void)t;
	(void)node;
	return bed.expected || (left && bed.left);
}

uint64_t
tunnels_epoch(const struct tunnels *t, const char *node)
{
	(void)t;
	(void)node;
	return bed.has_tunnel && !bed.silent ? MAX(bed.epoch, 1u) : 0;
}

bool
tunnels_silent(const struct tunnels *t, const char *node)
{
	(void)t;
	(void)node;
	return bed.silent;
}

/* The stream that is open is the one in the tunnel. */
bool
stream_is_silent(const struct stream *st)
{
	(void)st;
	return bed.silent && bed.asked == 0;
}

bool
stream_is_doubted(const struct stream *st)
{
	(void)st;
	return bed.silent;
}

size_t
stream_room(struct stream *st)
{
	(void)st;
	return sizeof bed.written - 1 - strlen(bed.written);
}

void
stream_write(struct stream *st, const void *data, size_t n)
{
	(void)st;
	strncat(bed.written, data, n);
}

void
stream_close(struct stream **stream, unsigned code)
{
	(void)code;
	*stream = NULL;
}

int
peers_open(struct peers *p, struct peers_ask *ask)
{
	(void)p;
	if (ask->between >= bed.replicas)
		return -ENOTCONN;
	bed.asked++;
	bed.events = ask->events;
	bed.to = ask->to;
	ask->stream = (struct stream *)(void *)&stands_for_something;
	ask->at = "hub-9";
	ask->epoch = 0;
	return 0;
}

void
peers_doubt(struct peers *p, const char *node, uint64_t epoch)
{
	(void)p;
	(void)node;
	(void)epoch;
}

uint64_t
peers_epoch(const struct peers *p, const char *node)
{
	(void)p;
	(void)node;
	return bed.epoch_there;
}

bool
peers_await(const struct peers *p, const char *node)
{
	(void)p;
	(void)node;
	return false;
}

int
local_dial_open(struct local_dial *c, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	(void)c;
	(void)request;
	(void)events;
	(void)arg;
	(void)out;
	return -ENOTCONN;
}

/* Knows one stream. */
struct stream_pool *
stream_pool_new(struct loop *loop)
{
	(void)loop;
	return NULL;
}

void
stream_pool_free(struct stream_pool **p)
{
	(void)p;
}

void
stream_pool_clear(struct stream_pool *p)
{
	(void)p;
}

void
stream_pool_metrics(const struct stream_pool *p, struct metrics *m)
{
	(void)p;
	(void)m;
}

bool
stream_pool_any(const struct stream_pool *p)
{
	(void)p;
	return bed.use != NULL;
}

struct stream_use *
stream_use_new(
	struct stream_pool *p, const struct stream_key *key, const char *target, const char *at)
{
	static struct stream_use use;

	(void)p;
	use.target = target;
	use.at = at;
	snprintf(bed.node, sizeof bed.node, "%s", key->node);
	snprintf(bed.authority, sizeof bed.authority, "%s", key->authority);
	snprintf(bed.as_hops, sizeof bed.as_hops, "%s", key->hops);
	bed.as_epoch = key->epoch;
	return &use;
}

void
stream_use_free(struct stream_use **use)
{
	*use = NULL;
}

void
stream_pool_give(struct stream_pool *p, struct stream **stream, struct stream_use **use)
{
	(void)p;
	*stream = NULL;
	bed.use = take_ptr(use);
}

struct stream_use *
stream_pool_take(struct stream_pool *p, const struct stream_key *key, struct stream **out)
{
	(void)p;
	if (strcmp(key->node, bed.node) != 0 || strcmp(key->authority, bed.authority) != 0 ||
		strcmp(key->hops, bed.as_hops) != 0 || key->epoch != bed.as_epoch)
		return NULL;
	*out = (struct stream *)(void *)&stands_for_something;
	return take_ptr(&bed.use);
}

static unsigned
one_way(struct routes *to)
{
	bed.found++;
	memset(to, 0, sizeof *to);
	snprintf(to->list[0].node, sizeof to->list[0].node, "edge-1");
	snprintf(to->list[0].authority, sizeof to->list[0].authority, "edge-1:7");
	to->n = 1;
	return 0;
}

unsigned
routes_find(struct routes_finder *f, const char *host, uint16_t port, struct routes *out)
{
	(void)f;
	(void)host;
	(void)port;
	return one_way(out);
}

unsigned
routes_find_udp(struct routes_finder *f, const char *host, uint16_t port, struct routes *out)
{
	return routes_find(f, host, port, out);
}

unsigned
routes_find_at(struct routes_finder *f, const char *node, const char *dest, struct routes *out)
{
	(void)dest;
	return routes_find(f, node, 0, out);
}

unsigned
routes_find_endpoint(
	struct routes_finder *f, const struct routes_endpoint *wanted, struct routes *out)
{
	return routes_find(f, wanted->at, 0, out);
}

void
routes_caller_of(struct routes_caller *to, const struct caller *caller, bool enforces)
{
	(void)caller;
	*to = (struct routes_caller){.enforces = enforces};
}

void
routes_for(struct routes_finder *f, const struct routes_caller *caller)
{
	(void)f;
	(void)caller;
}

size_t
routes_beside(struct routes_finder *f, struct routes *w, size_t at, const char **why)
{
	(void)f;
	(void)w;
	(void)at;
	*why = NULL;
	return 0;
}

unsigned
routes_admit(const struct routes_finder *f, const struct caller *caller, struct routes *out)
{
	(void)f;
	(void)out;
	return caller->own_dial ? 403 : 0;
}

unsigned
routes_judge(struct routes_finder *f, const struct caller *caller, struct routes *w)
{
	(void)f;
	(void)w;
	return caller->local ? 403 : 0;
}

const char *
caller_text(const struct caller *c, char to[ACCESS_NAME_MAX + 8])
{
	(void)c;
	to[0] = '\0';
	return to;
}

const char *
caller_name(const struct caller *c, char to[ACCESS_NAME_MAX + 8])
{
	return caller_text(c, to);
}

unsigned
grant_open(struct grant *g, const struct caller *caller, const struct acl_target *where,
	const char *via, const char **reason)
{
	(void)g;
	(void)caller;
	(void)where;
	*reason = via;
	return strcmp(via, "full") != 0 ? 200 : 429;
}

void
neighbours_result(
	struct neighbours *n, const char *meant, const struct neighbours_way *way, bool worked)
{
	(void)n;
	(void)meant;
	(void)way;
	(void)worked;
}

void
neighbours_own(struct neighbours *n, const char *node)
{
	(void)n;
	(void)node;
}

bool
neighbours_stand_for(struct neighbours *n, const char *node)
{
	(void)n;
	(void)node;
	return false;
}

/* --- the test ------------------------------------------------------------------------------- */

static void
on_reached(void *arg, struct connector_answer *answer)
{
	(void)arg;
	bed.status = answer->status;
	bed.sent = answer->sent;
	bed.use = answer->use;
}

/* What was not granted is closed, and its owner is given no stream. */
static void
an_answer_that_is_not_granted(void **state)
{
	struct stream *stream = (struct stream *)(void *)&stands_for_something;
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
		.loop = bed.loop, .peers = (struct peers *)(void *)&stands_for_something});
	breaks = timer_new(bed.loop, on_break, NULL);
	returns = timer_new(bed.loop, on_return, NULL);
	bed.has_tunnel = true;
	connector_start(bed.reach,
		&(struct connector_request){.caller = &caller, .host = "edge-1", .port = 7},
		on_reached, NULL);
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
		on_reached, NULL);
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
			on_reached, NULL);
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
		.loop = bed.loop, .peers = (struct peers *)(void *)&stands_for_something});
	bed.has_tunnel = false;
	bed.opened = bed.status = 0;
	connector_start(bed.reach, &request, on_reached, NULL);
	for (int i = 0; i < 10; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 503);
	bed.expected = true;
	bed.status = 0;
	/* It has passed the rules, and so holds no place of those who have not (preauth.h). */
	assert_true(connector_is_let_in(connector_start(bed.reach, &request, on_reached, NULL)));
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
		bed.reach, &request, on_reached, NULL); /* one that does not come: not for ever */
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
		.loop = bed.loop, .peers = (struct peers *)(void *)&stands_for_something});
	bed.has_tunnel = false;
	bed.left = true;
	bed.opened = bed.status = 0;
	connector_start(bed.reach, &request, on_reached, NULL);
	for (int i = 0; i < 100; i++)
		patience_turn(bed.loop);
	assert_int_equal(bed.status, 0);
	on_return(NULL);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	bed.has_tunnel = false;
	bed.status = 0;
	request.service = "default/web";
	connector_start(bed.reach, &request, on_reached, NULL);
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
			.loop = bed.loop, .peers = (struct peers *)(void *)&stands_for_something});
		connector_start(bed.reach, &request, on_reached, NULL);
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
			.loop = bed.loop, .peers = (struct peers *)(void *)&stands_for_something});
		connector_start(bed.reach, &request, on_reached, NULL);
		bed.epoch = rows[i].here;
		bed.epoch_there = rows[i].there;
		connector_changed(bed.reach, "edge-1");
		assert_int_equal(bed.opened, rows[i].opened);
		assert_int_equal(bed.asked, rows[i].asked);
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
		.loop = bed.loop, .peers = (struct peers *)(void *)&stands_for_something});
	buf_adds(&first, "hello");
	x = connector_start(bed.reach, &request, on_reached, NULL);
	assert_string_equal(bed.written, "hello");
	buf_adds(&first, ", node");
	connector_more(x);
	assert_string_equal(bed.written, "hello, node");
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	assert_int_equal(bed.sent, 11);

	bed.status = 0;
	connector_start(bed.reach, &request, on_reached, NULL);
	bed.silent = true; /* its tunnel: not asked for elsewhere */
	connector_changed(bed.reach, "edge-1");
	bed.events->reset(bed.to, STREAM_LOST);
	patience_until(patience_turn(bed.loop), bed.status != 0);
	assert_int_equal(bed.status, 502);
	assert_int_equal(bed.opened, 2);

	bed.silent = false;
	bed.status = 0;
	buf_consume(&first, buf_len(&first)); /* nothing has been said yet: asked for again */
	connector_start(bed.reach, &request, on_reached, NULL);
	bed.events->reset(bed.to, STREAM_LOST);
	patience_until(patience_turn(bed.loop), bed.opened == 4);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

/* The rules are asked each time, and a newer tunnel, a trace or a loop takes a dial. */
static void
a_kept_stream_is_taken(void **state)
{
	const struct trace_context trace = {0};
	const struct caller caller = {0}, refused = {.local = true};
	const struct connector_request request = {
		.caller = &caller, .host = "edge-1", .port = 7, .kept = true};
	struct connector_request other = request;
	struct stream *stream = (struct stream *)(void *)&stands_for_something;
	struct connector_answer answer;
	struct stream_use *use;

	(void)state;
	bed = (struct bed){.has_tunnel = true, .epoch = 3};
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){.loop = bed.loop});
	assert_false(connector_reuse(bed.reach, &request, NULL, &answer));
	connector_start(bed.reach, &request, on_reached, NULL);
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

	/* what a trace has begun is kept for nobody */
	bed.status = 0;
	other = request;
	other.trace = &trace;
	connector_start(bed.reach, &other, on_reached, NULL);
	bed.events->answered(bed.to, 200, "");
	assert_int_equal(bed.status, 200);
	assert_null(bed.use);
	connector_free(&bed.reach);
	loop_free(&bed.loop);
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
		cmocka_unit_test(a_kept_stream_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
