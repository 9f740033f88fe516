#include "tunnel/node/egress_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/patience.h"

struct bed {
	struct loop *loop;
	struct egress_client *outlet;
	int fd; /* of who asks */
};

/* One asks, and there is no hub yet. */
static int
set_up(void **state)
{
	static const struct egress_client_ask ask = {.service = "default/web",
		.node = "edge-2",
		.authority = "172.17.0.2:8080",
		.hops = 3};
	struct bed *b = xcalloc(1, sizeof *b);
	int fds[2];

	assert_int_equal(loop_new(&b->loop, NULL), 0);
	b->outlet = egress_client_new(
		&(struct tunnel_client_config){.loop = b->loop, .heartbeat_ms = 4000});
	assert_int_equal(sock_pair(fds), 0);
	b->fd = fds[0];
	egress_client_open(b->outlet, fds[1], &ask);
	*state = b;
	return 0;
}

static int
tear_down(void **state)
{
	struct bed *b = *state;

	if (b->fd >= 0)
		close(b->fd);
	egress_client_free(&b->outlet);
	loop_free(&b->loop);
	free(b);
	return 0;
}

static bool
says(struct bed *b, const char *text)
{
	struct buf out;
	bool found;

	buf_init(&out, BUF_UNLIMITED);
	egress_client_state(b->outlet, &out);
	found = strstr(buf_str(&out), text) != NULL;
	buf_fini(&out);
	return found;
}

static void
turn_until(struct bed *b, const char *text)
{
	patience_until(patience_turn(b->loop), says(b, text));
}

/* Neither the hub's time nor a stream is spent on who has gone, in whatever way. */
static void
who_closes_is_let_go(void **state)
{
	struct bed *b = *state;

	assert_true(says(b, "\"pending\":1"));
	close(take_fd(&b->fd));
	turn_until(b, "\"pending\":0");
	assert_true(says(b, "\"cancelled\":1"));
	assert_true(says(b, "\"no_hub\":0"));
}

static void
who_resets_is_let_go(void **state)
{
	static const struct linger now = {.l_onoff = 1};
	struct bed *b = *state;

	assert_int_equal(setsockopt(b->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
	close(take_fd(&b->fd));
	turn_until(b, "\"cancelled\":1");
}

/* No hub comes: what was said early takes nothing from the wait. */
static void
who_speaks_early_is_kept(void **state)
{
	struct bed *b = *state;

	assert_int_equal(write(b->fd, "x", 1), 1);
	turn_until(b, "\"no_hub\":1");
	assert_true(says(b, "\"cancelled\":0"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_closes_is_let_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_resets_is_let_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_speaks_early_is_kept, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
