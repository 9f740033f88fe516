/* Memory for streams between replicas, whose nodes take nothing: each node has its share. */
#include "hub/replicas/peers_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/unit/patience.h"

enum { MEMORY = 1 << 20, MANY = 64 };

struct call {
	struct stream *stream;
	bool refused;
};

static struct {
	struct loop *loop;
	struct grants grants;
	struct peers *peers;
	struct guest guest; /* the replica, here */
	struct session *there, *here;
	struct session_budget budget; /* of `there` */
	struct call calls[MANY];
	unsigned opened; /* in nodes' tunnels */
} bed;

int __wrap_tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);

/* The node never answers. */
int
__wrap_tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	(void)t;
	(void)node;
	(void)request;
	(void)events;
	(void)arg;
	(void)out;
	bed.opened++;
	return 0;
}

static const char *
on_refuses(void *arg, const char *node, const char *authority)
{
	(void)arg;
	(void)node;
	(void)authority;
	return NULL;
}

static void
on_passes(
	void *arg, const char *caller, const char *node, const char *service, const char *authority)
{
	(void)arg;
	(void)caller;
	(void)node;
	(void)service;
	(void)authority;
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	return trip_begin(arg, st, request, reason);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	(void)arg;
	(void)rc;
	(void)why;
}

static void
on_reset(void *arg, unsigned code)
{
	struct call *c = arg;

	c->refused = code == STREAM_REFUSED;
	stream_close(&c->stream, code);
}

static int
set_up(void **state)
{
	static const struct session_events events = {.opened = on_opened, .ended = on_ended};
	struct session_setup setup = {.role = SESSION_CLIENT, .events = &events};
	int fd[2];

	(void)state;
	memset(&bed, 0, sizeof bed);
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.grants.loop = bed.loop;
	bed.budget.limit = SIZE_MAX;
	bed.peers = peers_new(&(struct peers_config){.loop = bed.loop,
		.grants = &bed.grants,
		.refuses = on_refuses,
		.passes = on_passes});
	fair_share_free(&bed.peers->budget.shares);
	bed.peers->budget.limit = MEMORY;
	bed.peers->budget.shares = fair_share_new(MEMORY);
	bed.guest.of = bed.peers;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	setup.loop = bed.loop;
	setup.wire = transport_socket(bed.loop, fd[0]);
	setup.budget = &bed.budget;
	assert_int_equal(session_new(&setup, &bed.there), 0);
	setup.role = SESSION_SERVER;
	setup.wire = transport_socket(bed.loop, fd[1]);
	setup.budget = &bed.peers->budget;
	setup.arg = &bed.guest;
	assert_int_equal(session_new(&setup, &bed.here), 0);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < MANY; i++)
		stream_close(&bed.calls[i].stream, STREAM_CANCELLED);
	session_free(&bed.there);
	session_free(&bed.here);
	peers_free(&bed.peers);
	loop_free(&bed.loop);
	return 0;
}

/* Says as much as the stream takes. Returns false if it is refused. */
static bool
call(const char *caller, const char *node)
{
	static const struct stream_events events = {.reset = on_reset};
	static const char bytes[STREAM_WINDOW_BASE];
	const struct stream_field fields[] = {
		{"edgeway-caller", caller}, {"edgeway-node", node}, {"edgeway-hop", "1"}};
	const struct stream_request request = {
		.authority = "10.0.0.1:80", .fields = fields, .n_fields = ARRAY_LEN(fields)};
	const size_t held = bed.peers->budget.held;
	const unsigned opened = bed.opened;
	struct call *c = bed.calls;

	while (c->stream != NULL)
		assert_true(++c < bed.calls + MANY);
	c->refused = false;
	assert_int_equal(session_open(bed.there, &request, &events, c, &c->stream), 0);
	stream_write(c->stream, bytes, sizeof bytes);
	patience_until(patience_turn(bed.loop),
		c->refused ||
			(bed.opened > opened && bed.peers->budget.held >= held + sizeof bytes));
	return !c->refused;
}

static void
a_node_that_holds_all_memory(void **state)
{
	unsigned n = 0;

	(void)state;
	while (call("192.0.2.7", "edge-1"))
		n++;
	assert_in_range(n, MEMORY / STREAM_WINDOW_BASE, MEMORY / STREAM_WINDOW_BASE + 1);
	assert_true(call("192.0.2.7", "edge-2"));
	assert_true(call("node:edge-2", "edge-1")); /* its own, as on its way */
	assert_false(call("node:edge-1", "edge-2"));
	assert_false(call("192.0.2.7", "edge-1"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_node_that_holds_all_memory, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
