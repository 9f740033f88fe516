#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/fdpass.h"
#include "base/core/sock.h"
#include "src/common/lock.h"
#include "src/common/takeover.h"

/* The agent that runs: answers the request, and has the talk's other end. */
struct old {
	char folder[32];
	char *path;
	int listener, fd;
	pthread_t thread;
};

enum heard { NOTHING, OURS, THEIRS };

struct heard_by {
	struct loop *loop;
	enum heard what;
};

static void *
answer_one(void *arg)
{
	static const char head[] = "edgeway-takeover 1 lock=0 workers=0\n";
	struct old *old = arg;
	char request[256];
	int lock = socket(AF_UNIX, SOCK_STREAM, 0);

	old->fd = accept(old->listener, NULL, NULL);
	if (read(old->fd, request, sizeof request) > 0)
		fdpass_send(old->fd, head, sizeof head - 1, &lock, 1);
	close(lock);
	return NULL;
}

static struct takeover *
ask(struct old *old)
{
	auto_free char *address = NULL;
	struct takeover *t = NULL;
	struct err err = {0};
	struct addr at;
	int lock, network_lock;

	strcpy(old->folder, "/tmp/takeover_test.XXXXXX");
	assert_non_null(mkdtemp(old->folder));
	old->path = xasprintf("%s/s", old->folder);
	address = xasprintf("unix:%s", old->path);
	assert_int_equal(addr_parse(&at, address, 0, &err), 0);
	old->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(old->listener, &at.sa, at.len), 0);
	assert_int_equal(listen(old->listener, 1), 0);
	assert_int_equal(pthread_create(&old->thread, NULL, answer_one, old), 0);
	assert_int_equal(takeover_ask(old->path, "agent", &t, &err), 0);
	pthread_join(old->thread, NULL);
	assert_non_null(t);
	assert_int_equal(takeover_workers(t), 0);
	takeover_locks(t, &lock, &network_lock);
	assert_int_equal(lock, -1);
	close(network_lock);
	return t;
}

static void
leave(struct old *old)
{
	unlink(old->path);
	rmdir(old->folder);
	free(old->path);
	close(old->listener);
	if (old->fd >= 0)
		close(old->fd);
}

static void
on_done(void *arg, bool ours)
{
	struct heard_by *by = arg;

	by->what = ours ? OURS : THEIRS;
	loop_stop(by->loop);
}

static enum heard
follow(struct takeover *t)
{
	struct heard_by by = {.what = NOTHING};
	struct err err = {0};

	assert_int_equal(loop_new(&by.loop, &err), 0);
	takeover_follow(t, by.loop, on_done, &by);
	loop_run(by.loop);
	takeover_free(&t);
	loop_free(&by.loop);
	return by.what;
}

static void
say(const struct old *old, const char *word)
{
	assert_int_equal(write(old->fd, word, strlen(word)), (ssize_t)strlen(word));
}

/* One that waits for docker0 would go on beside the other one for ever. */
static void
mine_is_heard_by_who_never_served(void **state)
{
	struct old old;
	struct takeover *t = ask(&old);

	(void)state;
	assert_false(takeover_offered(t));
	say(&old, TAKEOVER_MINE);
	assert_int_equal(follow(t), THEIRS);
	leave(&old);
}

static void
a_death_is_heard_by_who_never_served(void **state)
{
	struct old old;
	struct takeover *t = ask(&old);

	(void)state;
	close(take_fd(&old.fd));
	assert_int_equal(follow(t), OURS);
	leave(&old);
}

static void
yours_follows_serving(void **state)
{
	struct old old;
	struct takeover *t = ask(&old);
	char word[32] = "";

	(void)state;
	takeover_serving(t);
	takeover_serving(t);
	assert_true(takeover_offered(t));
	assert_int_equal(read(old.fd, word, sizeof word - 1), sizeof TAKEOVER_SERVING - 1);
	assert_string_equal(word, TAKEOVER_SERVING);
	say(&old, TAKEOVER_YOURS);
	assert_int_equal(follow(t), OURS);
	leave(&old);
}

static void
nobody_is_there(void **state)
{
	struct takeover *t = NULL;
	struct err err = {0};

	(void)state;
	assert_int_equal(takeover_ask("/nonexistent/edgeway.sock", "hub", &t, &err), 0);
	assert_null(t);
}

/* dataDir was emptied while the one before us ran: what it gives locks nobody out. */
static void
a_lock_whose_file_was_removed_is_taken_anew(void **state)
{
	char folder[] = "/tmp/edgeway-lock-XXXXXX";
	auto_free char *path = NULL, *other = NULL;
	int lock = -1, second = -1;
	struct err err = {0};

	(void)state;
	assert_non_null(mkdtemp(folder));
	path = xasprintf("%s/lock", folder);
	other = xasprintf("%s/other", folder);
	assert_int_equal(lock_take(folder, &lock, &err), 0);
	assert_int_equal(lock_inherit("agent", folder, &lock, &err), 0);
	assert_int_equal(lock_inherit("agent", other, &lock, &err), -EINVAL);
	unlink(path);
	if (lock_inherit("agent", folder, &lock, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(lock_take(folder, &second, &err), -EBUSY);
	close(lock);
	unlink(path);
	rmdir(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mine_is_heard_by_who_never_served),
		cmocka_unit_test(a_death_is_heard_by_who_never_served),
		cmocka_unit_test(yours_follows_serving),
		cmocka_unit_test(nobody_is_there),
		cmocka_unit_test(a_lock_whose_file_was_removed_is_taken_anew),
	};

	alarm(30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
