/* What the hub tells of its tunnels to a scraper stays small, however many there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "hub/replicas/tunnel_session_private.h"
#include "hub/replicas/tunnels_private.h"

enum { MOST = METRIC_NODES_MAX + 50, OLDER = 20 };

static struct tunnel list[MOST];
static int far[MOST];

static size_t
count(const char *text, const char *word)
{
	size_t n = 0;

	for (; (text = strstr(text, word)) != NULL; text += strlen(word))
		n++;
	return n;
}

static void
on_ended(void *arg, int rc, const char *why)
{
	(void)arg;
	(void)rc;
	(void)why;
}

static void
open_tunnel(struct tunnels *t, struct loop *loop, size_t i)
{
	static const struct session_events events = {.ended = on_ended};
	struct session_setup setup = {
		.loop = loop, .role = SESSION_CLIENT, .budget = &t->budget, .events = &events};
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	far[i] = pair[1];
	setup.wire = transport_socket(loop, pair[0]);
	list[i].session = xcalloc(1, sizeof *list[i].session);
	assert_int_equal(session_new(&setup, &list[i].session->session), 0);
	list[i].node = xasprintf("node-%zu", i);
	list[i].older = i < OLDER;
	TAILQ_INSERT_TAIL(&t->open, &list[i], link);
	t->n_open++;
}

/* Those that finish have none, and those beyond the bound count in the sums alone. */
static void
series_of_nodes(void **state)
{
	const struct rlimit room = {3 * MOST, 3 * MOST};
	struct loop *loop = NULL;
	struct tunnels *t = NULL;
	struct metrics m;

	(void)state;
	if (setrlimit(RLIMIT_NOFILE, &room) < 0)
		skip();
	assert_int_equal(loop_new(&loop, NULL), 0);
	t = tunnels_new(&(struct tunnels_setup){.loop = loop, .heartbeat_ms = 4000});
	for (size_t i = 0; i < MOST; i++)
		open_tunnel(t, loop, i);
	metrics_init(&m);
	tunnels_metrics(t, &m);
	assert_int_equal(count(buf_str(&m.out), "\nedgeway_tunnel_rtt_seconds{"), METRIC_NODES_MAX);
	assert_int_equal(count(buf_str(&m.out), "{node=\"node-0\"}"), 0);
	assert_int_equal(count(buf_str(&m.out), "{node=\"node-20\"}"), 1);
	assert_non_null(strstr(buf_str(&m.out), "\nedgeway_tunnel_nodes 1030\n"));
	metrics_fini(&m);
	TAILQ_INIT(&t->open);
	for (size_t i = 0; i < MOST; i++) {
		tunnel_session_free(&list[i].session, &t->past);
		close(far[i]);
		free(list[i].node);
	}
	tunnels_free(&t);
	loop_free(&loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(series_of_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
