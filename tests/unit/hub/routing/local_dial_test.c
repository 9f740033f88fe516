/* The hub's own dials: what is refused by the last check before the kernel dials, and that what is
 * dialled carries the caller's hops and is known as the hub's own. Found by tests/mutation. */
#include "hub/routing/local_dial.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/conf/tree.h"
#include "base/core/hops.h"
#include "base/core/log.h"
#include "hub/port/caller.h"
#include "tests/unit/patience.h"
#include "tunnel/h2/session_private.h"

static struct {
	struct loop *loop;
	struct addresses *addresses;
	struct acl *rules;
	struct self_guard *guard;
	struct local_dial *dials;
	const char *caller;
	size_t memory; /* 0: as it is */
	bool may; /* what the guard, which closes this machine, is not asked about */
	int listener; /* of a target on this machine */
	struct addr target;
	char authority[ADDR_TEXT_MAX];
} bed;

struct end { /* of one stream */
	struct stream *st;
	unsigned status;
	char reason[STREAM_REASON_MAX + 1];
	bool reset;
};

const char *__wrap_self_guard_refuses(
	struct self_guard *g, const struct addr *to, const struct caller *caller);
const char *__real_self_guard_refuses(
	struct self_guard *g, const struct addr *to, const struct caller *caller);

const char *
__wrap_self_guard_refuses(struct self_guard *g, const struct addr *to, const struct caller *caller)
{
	return bed.may ? NULL : __real_self_guard_refuses(g, to, caller);
}

struct fair_share *__wrap_fair_share_new(uint64_t limit);
struct fair_share *__real_fair_share_new(uint64_t limit);

struct fair_share *
__wrap_fair_share_new(uint64_t limit)
{
	return __real_fair_share_new(bed.memory != 0 ? bed.memory : limit);
}

static bool
none(void *arg, const struct in6_addr *ip)
{
	(void)arg, (void)ip;
	return false;
}

static int
set_up(void **state)
{
	static const char allows[] = "[{from: local, to: ['*']}]";
	struct tree *tree = NULL;

	(void)state;
	memset(&bed, 0, sizeof bed);
	bed.caller = "192.0.2.7";
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.addresses = addresses_new(bed.loop, NULL, NULL);
	assert_int_equal(tree_parse(&tree, "test", allows, strlen(allows), NULL), 0);
	assert_int_equal(acl_new(tree_document(tree, 0), &bed.rules, NULL), 0);
	tree_free(&tree);
	bed.guard = self_guard_new(&(struct self_guard_config){
		.addresses = bed.addresses, .access = bed.rules, .named = none, .replica = none});
	bed.dials = local_dial_new(bed.loop, bed.guard);
	bed.target = addr_ipv4(INADDR_LOOPBACK, 0);
	assert_int_equal(sock_listen(&bed.target, 0, &bed.listener, NULL), 0);
	assert_int_equal(getsockname(bed.listener, &bed.target.sa, &bed.target.len), 0);
	addr_text(&bed.target, bed.authority);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	local_dial_free(&bed.dials);
	assert_null(bed.dials);
	local_dial_free(&bed.dials);
	close(bed.listener);
	self_guard_free(&bed.guard);
	acl_free(&bed.rules);
	addresses_free(&bed.addresses);
	loop_free(&bed.loop);
	return 0;
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct end *e = arg;

	e->status = status;
	snprintf(e->reason, sizeof e->reason, "%s", reason);
}

static void
on_reset(void *arg, unsigned code)
{
	(void)code;
	((struct end *)arg)->reset = true;
}

static const struct stream_events events = {.answered = on_answered, .reset = on_reset};

static void
dial(struct end *e, const char *authority, bool udp)
{
	const struct stream_field fields[] = {{"edgeway-caller", "7"}, {HOPS_FIELD, "3"}};
	const struct stream_request request = {
		.authority = authority, .fields = fields, .n_fields = 2, .udp = udp};
	int rc;

	memset(e, 0, sizeof *e);
	patience_until(patience_turn(bed.loop),
		(rc = local_dial_open(bed.dials, bed.caller, &request, &events, e, &e->st)) !=
			-EINPROGRESS);
	assert_int_equal(rc, 0);
	patience_until(patience_turn(bed.loop), e->status != 0 || e->reset);
}

static void
what_is_refused(void **state)
{
	struct end e;

	(void)state;
	dial(&e, "web.default:80", false);
	assert_int_equal(e.status, 400);
	stream_close(&e.st, STREAM_DONE);
	/* this machine, by the guard */
	dial(&e, bed.authority, false);
	assert_int_equal(e.status, 403);
	assert_non_null(strstr(e.reason, "hub"));
	stream_close(&e.st, STREAM_DONE);
	/* what is never dialled, whatever the guard says */
	bed.may = true;
	dial(&e, "224.0.0.1:80", false);
	assert_int_equal(e.status, 403);
	stream_close(&e.st, STREAM_DONE);
	assert_int_equal(accept(bed.listener, NULL, NULL), -1);
}

static bool
heard(struct stream *st, const char *text)
{
	const void *data;
	size_t n = stream_peek(st, &data);

	return n == strlen(text) && memcmp(data, text, n) == 0;
}

static void
what_is_dialled(void **state)
{
	struct caller caller;
	struct end e[2];
	int far[2];

	(void)state;
	bed.may = true;
	for (int i = 0; i < 2; i++) {
		dial(&e[i], bed.authority, false);
		assert_int_equal(e[i].status, 200);
		far[i] = accept(bed.listener, NULL, NULL);
		assert_true(far[i] >= 0);
		assert_int_equal(hops_of_socket(far[i], AF_INET), 3);
		assert_int_equal(caller_accept(&caller, far[i], CALLER_LISTENER, bed.guard), 0);
		assert_true(caller.own_dial);
	}
	assert_int_equal(write(far[0], "one", 3), 3);
	assert_int_equal(write(far[1], "other", 5), 5);
	patience_until(patience_turn(bed.loop), heard(e[0].st, "one") && heard(e[1].st, "other"));
	stream_close(&e[0].st, STREAM_CANCELLED);
	patience_until(patience_turn(bed.loop),
		caller_accept(&caller, far[0], CALLER_LISTENER, bed.guard) < 0 || caller.local);
	assert_int_equal(caller_accept(&caller, far[1], CALLER_LISTENER, bed.guard), 0);
	assert_true(caller.own_dial);
	/* the other one ends with the hub */
	local_dial_free(&bed.dials);
	assert_true(e[1].reset);
	stream_close(&e[1].st, STREAM_DONE);
	for (int i = 0; i < 2; i++)
		close(far[i]);
}

static unsigned
descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* A session has no number left for the third dial: the two before it go on, and then that session
 * goes. */
static void
streams_are_used_up(void **state)
{
	struct end e[3];
	unsigned before = 0;
	int far[3];

	(void)state;
	bed.may = true;
	for (int i = 0; i < 3; i++) {
		dial(&e[i], bed.authority, false);
		assert_int_equal(e[i].status, 200);
		far[i] = accept(bed.listener, NULL, NULL);
		if (i > 0)
			continue;
		before = descriptors();
		/* whose first member is nghttp2's */
		assert_int_equal(nghttp2_session_set_next_stream_id(
					 *(nghttp2_session **)e[0].st->session->h2, INT32_MAX),
			0);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(write(far[i], "hello", 5), 5);
		patience_until(patience_turn(bed.loop), heard(e[i].st, "hello"));
		if (i == 2)
			break;
		stream_close(&e[i].st, STREAM_CANCELLED);
		close(far[i]);
	}
	patience_until(patience_turn(bed.loop), descriptors() == before);
	assert_false(e[2].reset);
	stream_close(&e[2].st, STREAM_CANCELLED);
	close(far[2]);
}

/* Both ends of a stream hold bytes; whose they are is known at both. */
static void
a_caller_that_holds_all_memory(void **state)
{
	enum { MEMORY = 2 * STREAM_WINDOW_BASE, LITTLE = 4096 };
	static const char bytes[STREAM_OUT_BYTES];
	struct end greedy, more, other;
	const int little = LITTLE;
	unsigned turns = 0;

	(void)state;
	local_dial_free(&bed.dials);
	bed.memory = MEMORY;
	bed.dials = local_dial_new(bed.loop, bed.guard);
	bed.may = true;
	setsockopt(bed.listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
	dial(&greedy, bed.authority, false);
	do {
		assert_true(turns++ < PATIENCE_TURNS);
		stream_write(greedy.st, bytes, stream_room(greedy.st));
		dial(&more, bed.authority, false);
		stream_close(&more.st, STREAM_CANCELLED);
	} while (more.status == 200);
	assert_int_equal(more.reset, true);
	bed.caller = "192.0.2.8";
	dial(&other, bed.authority, false);
	assert_int_equal(other.status, 200);
	stream_close(&other.st, STREAM_CANCELLED);
	stream_close(&greedy.st, STREAM_CANCELLED);
}

/* Nodes may have 2048 streams each: what two of them hold open is not all that there is. */
static void
as_many_as_callers_have(void **state)
{
	enum { MANY = 4097 };
	static struct end ends[MANY];

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		dial(&ends[i], "web.default:80", false);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(ends[i].status, 400);
		stream_close(&ends[i].st, STREAM_DONE);
	}
}

static void
datagrams(void **state)
{
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0), from = {.len = sizeof from.un};
	char authority[ADDR_TEXT_MAX], bytes[16];
	struct caller caller;
	struct end e;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	(void)state;
	bed.may = true;
	assert_int_equal(bind(fd, &a.sa, sizeof a.in), 0);
	a.len = sizeof a.in;
	assert_int_equal(getsockname(fd, &a.sa, &a.len), 0);
	dial(&e, addr_text(&a, authority), true);
	assert_int_equal(e.status, 200);
	stream_write(e.st, "\0\2\0x", 4); /* a capsule: a datagram of one byte */
	patience_until(patience_turn(bed.loop),
		recvfrom(fd, bytes, sizeof bytes, 0, &from.sa, &from.len) == 1);
	assert_int_equal(bytes[0], 'x');
	caller_datagram(&caller, &from, 3, bed.guard);
	assert_true(caller.own_dial);
	stream_close(&e.st, STREAM_CANCELLED);
	patience_until(patience_turn(bed.loop),
		(caller_datagram(&caller, &from, 0, bed.guard), caller.local));
	close(fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_is_refused),
		T(what_is_dialled),
		T(streams_are_used_up),
		T(a_caller_that_holds_all_memory),
		T(as_many_as_callers_have),
		T(datagrams),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
