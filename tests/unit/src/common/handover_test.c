#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/fdpass.h"
#include "base/core/log.h"
#include "src/common/handover.h"
#include "src/common/takeover.h"

/* A daemon that writes down what it is told to do, and the new one's end of the talk. */
struct daemon {
	struct loop *loop;
	struct handover *handover;
	char did[64]; /* f: freeze, r: resume, g: give, 0 or 1: stop with that status, e: end */
	int resumes; /* what resume returns */
	const char *refusal;
	int peer;
};

static void
did(struct daemon *d, char what)
{
	d->did[strlen(d->did)] = what;
}

static const char *
daemon_refusal(void *arg)
{
	return ((struct daemon *)arg)->refusal;
}

static void
daemon_freeze(void *arg)
{
	did(arg, 'f');
}

static int
daemon_sockets(void *arg, struct buf *head, int *fds)
{
	struct daemon *d = arg;

	buf_adds(head, "head\n");
	fds[0] = d->peer;
	return 1;
}

static int
daemon_resume(void *arg, struct err *err)
{
	struct daemon *d = arg;

	did(d, 'r');
	return d->resumes < 0 ? err_set(err, -d->resumes, "told so") : 0;
}

static void
daemon_give(void *arg)
{
	did(arg, 'g');
}

static void
daemon_stop(void *arg, int status)
{
	struct daemon *d = arg;

	did(d, status == 0 ? '0' : '1');
	assert_true(handover_terminate(d->handover));
}

static void
daemon_end(void *arg)
{
	did(arg, 'e');
}

static void
start(struct daemon *d, const char *refusal)
{
	struct err err = {0};

	*d = (struct daemon){.peer = -1, .refusal = refusal};
	assert_int_equal(loop_new(&d->loop, &err), 0);
	handover_new(&d->handover,
		&(struct handover_config){
			.loop = d->loop,
			.who = "agent",
			.program = "edgeway-agent",
			.refusal = daemon_refusal,
			.freeze = daemon_freeze,
			.sockets = daemon_sockets,
			.resume = daemon_resume,
			.give = daemon_give,
			.stop = daemon_stop,
			.end = daemon_end,
			.arg = d,
		});
}

static void
finish(struct daemon *d)
{
	handover_free(&d->handover);
	loop_free(&d->loop);
	if (d->peer >= 0)
		close(d->peer);
}

/* A new one asks; what it hears first is in `text`, with the number of descriptors. */
static size_t
ask(struct daemon *d, char *text, size_t size)
{
	struct fdpass fds = {0};
	int pair[2];
	size_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	memset(text, 0, size);
	d->peer = pair[0];
	handover_asked(d->handover, pair[1]);
	assert_true(fdpass_receive(d->peer, text, size - 1, &fds) >= 0);
	n = fds.n;
	fdpass_close(&fds);
	return n;
}

static void
hold(struct daemon *d)
{
	char text[64];

	start(d, NULL);
	assert_int_equal(ask(d, text, sizeof text), 1);
	assert_string_equal(text, "head\n");
	assert_string_equal(d->did, "f");
	assert_true(handover_is_under_way(d->handover));
}

static void
wait_until_did(struct daemon *d, const char *what)
{
	uint64_t until = mono_ms() + 3 * HANDOVER_MS;

	while (strcmp(d->did, what) != 0 && mono_ms() < until) {
		loop_turn(d->loop);
		usleep(10 * 1000);
	}
	assert_string_equal(d->did, what);
}

static void
hears(const struct daemon *d, const char *word)
{
	char text[64] = "";

	assert_int_equal(read(d->peer, text, sizeof text - 1), (ssize_t)strlen(word));
	assert_string_equal(text, word);
}

static void
serve(struct daemon *d)
{
	static const char word[] = TAKEOVER_SERVING;

	assert_int_equal(write(d->peer, word, sizeof word - 1), sizeof word - 1);
	wait_until_did(d, "fg");
	hears(d, TAKEOVER_YOURS);
}

/* Why not may change: what counts is when it is asked, and nothing was frozen before. */
static void
who_refuses_now_may_hand_over_later(void **state)
{
	struct daemon d;
	char text[512];

	(void)state;
	start(&d, "the disk is behind");
	assert_int_equal(ask(&d, text, sizeof text), 0);
	assert_non_null(strstr(text, "\r\n\r\nthe disk is behind\n"));
	assert_string_equal(d.did, "");
	assert_false(handover_is_under_way(d.handover));
	close(d.peer);
	d.refusal = NULL;
	assert_int_equal(ask(&d, text, sizeof text), 1);
	assert_string_equal(d.did, "f");
	serve(&d);
	finish(&d);
}

/* Drained, and then drainTimeout is over: SIGTERM alone ends it. */
static void
who_has_given_waits_to_be_stopped(void **state)
{
	struct daemon d;

	(void)state;
	hold(&d);
	serve(&d);
	handover_drained(d.handover);
	handover_drained(d.handover);
	assert_string_equal(d.did, "fg");
	assert_false(handover_terminate(d.handover));
	assert_string_equal(d.did, "fge");
	assert_false(handover_terminate(d.handover));
	handover_drained(d.handover);
	assert_string_equal(d.did, "fge");
	finish(&d);
}

static void
who_is_stopped_while_it_gives_ends_when_it_has_drained(void **state)
{
	struct daemon d;

	(void)state;
	hold(&d);
	serve(&d);
	assert_false(handover_terminate(d.handover));
	assert_string_equal(d.did, "fg");
	handover_drained(d.handover);
	handover_drained(d.handover);
	assert_string_equal(d.did, "fge");
	finish(&d);
}

static void
a_late_one_is_sent_away(void **state)
{
	struct daemon d;

	(void)state;
	hold(&d);
	wait_until_did(&d, "fr");
	hears(&d, TAKEOVER_MINE);
	assert_false(handover_is_under_way(d.handover));
	assert_true(handover_terminate(d.handover));
	assert_false(handover_terminate(d.handover));
	handover_drained(d.handover);
	handover_drained(d.handover);
	assert_string_equal(d.did, "fre");
	finish(&d);
}

static void
one_that_says_something_else_is_sent_away(void **state)
{
	struct daemon d;
	int fds[8];

	(void)state;
	hold(&d);
	assert_int_equal(write(d.peer, "hello\n", 6), 6);
	wait_until_did(&d, "fr");
	hears(&d, TAKEOVER_MINE);
	/* What is opened afterwards may have the number of the connection that was closed. */
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = eventfd(0, EFD_CLOEXEC);
	finish(&d);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		assert_int_equal(close(fds[i]), 0);
}

static void
who_is_stopped_meanwhile_stops_when_it_is_taken_back(void **state)
{
	struct daemon d;

	(void)state;
	hold(&d);
	assert_false(handover_terminate(d.handover));
	assert_string_equal(d.did, "f");
	close(take_fd(&d.peer));
	wait_until_did(&d, "fr0");
	handover_drained(d.handover);
	assert_string_equal(d.did, "fr0e");
	finish(&d);
}

static void
who_cannot_go_on_stops_and_says_mine(void **state)
{
	struct daemon d;

	(void)state;
	hold(&d);
	d.resumes = -EMFILE;
	assert_int_equal(shutdown(d.peer, SHUT_WR), 0);
	wait_until_did(&d, "fr1");
	hears(&d, TAKEOVER_MINE);
	finish(&d);
}

static void
only_one_is_served_at_a_time_and_none_at_the_end(void **state)
{
	struct daemon d;
	char text[64];
	int first;

	(void)state;
	hold(&d);
	first = d.peer;
	assert_int_equal(ask(&d, text, sizeof text), 0);
	assert_string_equal(text, "");
	close(d.peer);
	d.peer = first;
	serve(&d);
	close(d.peer);
	assert_int_equal(ask(&d, text, sizeof text), 0);
	assert_string_equal(text, "");
	assert_string_equal(d.did, "fg");
	finish(&d);

	start(&d, NULL);
	assert_true(handover_terminate(d.handover));
	assert_int_equal(ask(&d, text, sizeof text), 0);
	assert_string_equal(text, "");
	assert_string_equal(d.did, "");
	finish(&d);
}

static void
who_never_hands_over_says_why(void **state)
{
	struct daemon d;
	char text[512];

	(void)state;
	start(&d, "it has replicas");
	assert_int_equal(ask(&d, text, sizeof text), 0);
	assert_memory_equal(text, "HTTP/1.1 409", 12);
	assert_non_null(strstr(text, "\r\n\r\nit has replicas\n"));
	assert_true(handover_terminate(d.handover));
	assert_string_equal(d.did, "");
	finish(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_given_waits_to_be_stopped),
		cmocka_unit_test(who_is_stopped_while_it_gives_ends_when_it_has_drained),
		cmocka_unit_test(a_late_one_is_sent_away),
		cmocka_unit_test(one_that_says_something_else_is_sent_away),
		cmocka_unit_test(who_is_stopped_meanwhile_stops_when_it_is_taken_back),
		cmocka_unit_test(who_cannot_go_on_stops_and_says_mine),
		cmocka_unit_test(only_one_is_served_at_a_time_and_none_at_the_end),
		cmocka_unit_test(who_never_hands_over_says_why),
		cmocka_unit_test(who_refuses_now_may_hand_over_later),
	};

	signal(SIGPIPE, SIG_IGN); /* as the programs do */
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
