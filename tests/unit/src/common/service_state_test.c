/* A daemon's announcements on a real loop, heard by a manager's socket of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/patience.h"

#include "src/common/service_state.h"

enum { NEVER_MS = 3600000 };

struct bed {
	struct loop *loop;
	struct service_state *announce;
	struct watch *watch; /* of fd */
	struct buf heard; /* "READY=1|" for each datagram */
	const char *status;
	int fd;
	bool ready;
};

static bool
ready(void *arg, struct buf *status)
{
	struct bed *b = arg;

	buf_adds(status, b->status);
	return b->ready;
}

static void
on_told(void *arg, int fd, unsigned events)
{
	struct bed *b = arg;
	char got[256];
	ssize_t n;

	(void)events;
	while ((n = recv(fd, got, sizeof got - 1, 0)) >= 0) {
		got[n] = '\0';
		buf_printf(&b->heard, "%s|", got);
	}
}

static void
hear(struct bed *b, const char *text)
{
	buf_fini(&b->heard);
	buf_init(&b->heard, BUF_UNLIMITED);
	patience_until(patience_turn(b->loop), strstr(buf_str(&b->heard), text) != NULL);
}

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int n = snprintf(
		at.sun_path + 1, sizeof at.sun_path - 1, "edgeway-announce-test-%d", (int)getpid());
	auto_free char *name = xasprintf("@%s", at.sun_path + 1);

	assert_int_equal(loop_new(&b->loop, NULL), 0);
	buf_init(&b->heard, BUF_UNLIMITED);
	b->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(
		bind(b->fd, (struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
		0);
	b->watch = watch_start(b->loop, b->fd, WATCH_READ, on_told, b);
	setenv("NOTIFY_SOCKET", name, 1);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	service_state_stop(&b->announce);
	assert_null(b->announce);
	watch_stop(&b->watch);
	loop_free(&b->loop);
	close(b->fd);
	buf_fini(&b->heard);
	free(b);
	return 0;
}

static void
start(struct bed *b, uint64_t patience_ms)
{
	service_state_start(&b->announce,
		&(struct service_state_config){.loop = b->loop,
			.part = "agent",
			.ready = ready,
			.arg = b,
			.patience_ms = patience_ms});
}

static void
ready_once_it_is(void **state)
{
	struct bed *b = *state;

	b->status = "no metadata yet\nDNS does not serve\n";
	start(b, NEVER_MS);
	hear(b, "STATUS=no metadata yet;DNS does not serve|");
	assert_null(strstr(buf_str(&b->heard), "READY"));
	b->ready = true;
	b->status = "serves 3 services";
	hear(b, "READY=1|");
	assert_string_equal(buf_str(&b->heard), "STATUS=serves 3 services|READY=1|");
	service_state_stopping(b->announce);
	service_state_stopping(b->announce);
	hear(b, "STOPPING=1");
	assert_string_equal(
		buf_str(&b->heard), "STOPPING=1\nSTATUS=finishing what is in progress|");
}

/* A node boots without its hub. */
static void
patience_ends(void **state)
{
	struct bed *b = *state;

	b->status = "no metadata yet\n";
	start(b, 1);
	hear(b, "READY=1|");
	assert_string_equal(buf_str(&b->heard), "STATUS=no metadata yet|READY=1|");
}

/* Fed again and again, on the way out too, with nothing new in STATUS. */
static void
feeds_the_watchdog(void **state)
{
	struct bed *b = *state;

	setenv("WATCHDOG_USEC", "20000", 1);
	b->status = "well";
	b->ready = true;
	start(b, NEVER_MS);
	hear(b, "WATCHDOG=1|WATCHDOG=1|WATCHDOG=1|");
	service_state_stopping(b->announce);
	hear(b, "WATCHDOG=1|WATCHDOG=1|WATCHDOG=1|");
}

/* Who becomes the main process says what was not heeded before. */
static void
says_it_again(void **state)
{
	struct bed *b = *state;

	setenv("WATCHDOG_USEC", "600000000", 1);
	b->status = "serves";
	b->ready = true;
	start(b, NEVER_MS);
	hear(b, "READY=1|");
	service_state_again(b->announce);
	hear(b, "STATUS=serves|");
	assert_string_equal(buf_str(&b->heard), "WATCHDOG=1|READY=1|STATUS=serves|");
	service_state_stopping(b->announce);
	service_state_again(b->announce);
	hear(b, "STOPPING=1");
	assert_null(strstr(buf_str(&b->heard), "READY"));
}

static void
nobody_listens(void **state)
{
	struct bed *b = *state;

	unsetenv("NOTIFY_SOCKET");
	start(b, 1);
	assert_null(b->announce);
	service_state_again(b->announce);
	service_state_stopping(b->announce);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ready_once_it_is, setup, teardown),
		cmocka_unit_test_setup_teardown(patience_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(feeds_the_watchdog, setup, teardown),
		cmocka_unit_test_setup_teardown(says_it_again, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_listens, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
