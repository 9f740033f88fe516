/* The keeper of resolv.conf on real files in a folder of its own. */
#include "dns/resolvconf/resolvconf.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dns/resolvconf/resolvwatch.h"
#include "tests/unit/patience.h"

#define ORIGINAL "# by hand\nnameserver 192.0.2.53\nsearch corp.example\noptions ndots:1"

struct fixture {
	char folder[64], path[96], other[96];
	struct resolvconf *rc;
	char *kept; /* what dns_keep holds; survives kill -9 */
	size_t kept_len;
	bool keep_fails;
};

static int
keep_get(void *arg, const char *key, char **data, size_t *len)
{
	struct fixture *f = arg;

	assert_string_equal(key, "resolv.conf");
	if (f->kept == NULL)
		return -ENOENT;
	*data = xmemdup(f->kept, f->kept_len);
	*len = f->kept_len;
	return 0;
}

static int
keep_put(void *arg, const char *key, const void *data, size_t len)
{
	struct fixture *f = arg;

	(void)key;
	if (f->keep_fails)
		return -EIO;
	free(f->kept);
	f->kept = xmemdup(data, len);
	f->kept_len = len;
	return 0;
}

static int
keep_del(void *arg, const char *key)
{
	struct fixture *f = arg;

	(void)key;
	free(f->kept);
	f->kept = NULL;
	return 0;
}

static void
open_it(struct fixture *f, bool manage)
{
	struct resolvconf_config c = {.path = f->path,
		.cluster_domain = "cluster.local",
		.manage = manage,
		.keep = {f, keep_get, keep_put, keep_del}};

	assert_int_equal(resolvconf_open(&f->rc, &c, NULL), 0);
}

static void
write_file(const char *path, const char *text, unsigned mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	chmod(path, mode);
}

static void
assert_file(const char *path, const char *text)
{
	char *now;

	assert_int_equal(file_read(path, 1 << 20, &now, NULL), 0);
	assert_string_equal(now, text);
	free(now);
}

/* Our lines are in it. */
static bool
is_ours(const char *path)
{
	auto_free char *now = NULL;

	return file_read(path, 1 << 20, &now, NULL) == 0 &&
		strstr(now, "\nnameserver 172.17.0.1\n") != NULL &&
		strstr(now, "\nsearch default.svc.cluster.local svc.cluster.local cluster.local") !=
		NULL &&
		strstr(now, "options ndots:5") != NULL;
}

static void
write_ours(struct fixture *f)
{
	struct err err = {0};

	if (resolvconf_write(f->rc, 0xac110001, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(is_ours(f->path));
}

/* kill -9: nothing is restored, only the file and the keep remain. */
static void
kill_it(struct fixture *f)
{
	resolvconf_close(&f->rc);
}

static void
assert_nothing_left(struct fixture *f)
{
	auto_free char *temporary = xasprintf("%s.edgeway-new", f->path);

	assert_null(f->kept);
	assert_int_equal(access(temporary, F_OK), -1);
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);

	strcpy(f->folder, "/tmp/edgeway-resolv-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	sprintf(f->path, "%s/resolv.conf", f->folder);
	sprintf(f->other, "%s/stub", f->folder);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	resolvconf_close(&f->rc);
	unlink(f->path);
	unlink(f->other);
	assert_int_equal(rmdir(f->folder), 0);
	free(f->kept);
	free(f);
	return 0;
}

static void
a_file_comes_back_byte_for_byte(void **state)
{
	struct fixture *f = *state;
	struct addr a[4];
	struct stat before, ours, after;

	write_file(f->path, ORIGINAL, 0640);
	assert_int_equal(chown(f->path, geteuid(), 65534) < 0 && geteuid() == 0, 0);
	stat(f->path, &before);
	open_it(f, true);
	assert_int_equal(resolvconf_upstreams(f->rc, 0, a, 0, 4), 1);
	assert_file(f->path, ORIGINAL);
	write_ours(f);
	assert_non_null(f->kept);
	stat(f->path, &ours);
	assert_int_equal(ours.st_mode, before.st_mode);
	assert_int_equal(ours.st_gid, before.st_gid);
	assert_int_equal(resolvconf_upstreams(f->rc, 0xac110001, a, 0, 4), 1);
	assert_int_equal(resolvconf_restore(f->rc, NULL), 0);
	assert_file(f->path, ORIGINAL);
	stat(f->path, &after);
	assert_int_equal(after.st_mode, before.st_mode);
	assert_int_equal(after.st_gid, before.st_gid);
	assert_nothing_left(f);
	assert_int_equal(resolvconf_restore(f->rc, NULL), 0);
	assert_file(f->path, ORIGINAL);
}

static void
another_address_goes_in_and_out(void **state)
{
	struct fixture *f = *state;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	assert_int_equal(resolvconf_write(f->rc, 0xac120001, NULL), 0);
	assert_false(is_ours(f->path));
	write_ours(f);
	write_ours(f);
	resolvconf_restore(f->rc, NULL);
	assert_file(f->path, ORIGINAL);
}

static void
a_link_comes_back_and_its_target_is_never_written(void **state)
{
	struct fixture *f = *state;
	char target[64];
	struct stat st;
	ssize_t n;

	write_file(f->other, "nameserver 127.0.0.53\n", 0644);
	assert_int_equal(symlink("stub", f->path), 0);
	for (unsigned killed = 0; killed < 2; killed++) {
		open_it(f, true);
		write_ours(f);
		assert_int_equal(lstat(f->path, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		assert_file(f->other, "nameserver 127.0.0.53\n");
		if (killed) {
			kill_it(f);
			open_it(f, true);
		} else {
			resolvconf_restore(f->rc, NULL);
			resolvconf_close(&f->rc);
		}
		n = readlink(f->path, target, sizeof target);
		assert_int_equal(n, 4);
		assert_memory_equal(target, "stub", 4);
		assert_file(f->other, "nameserver 127.0.0.53\n");
		assert_nothing_left(f);
	}
}

static void
a_dangling_link_and_a_missing_file_come_back(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	open_it(f, true);
	write_ours(f);
	kill_it(f);
	open_it(f, true);
	assert_int_equal(access(f->path, F_OK), -1);
	write_ours(f);
	resolvconf_restore(f->rc, NULL);
	assert_int_equal(access(f->path, F_OK), -1);
	resolvconf_close(&f->rc);
	assert_int_equal(symlink("stub", f->path), 0);
	open_it(f, true);
	write_ours(f);
	resolvconf_restore(f->rc, NULL);
	assert_int_equal(lstat(f->path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
}

static void
the_next_start_puts_back_what_a_killed_run_left(void **state)
{
	struct fixture *f = *state;
	struct addr a[4];

	write_file(f->path, ORIGINAL, 0600);
	open_it(f, true);
	write_ours(f);
	kill_it(f);
	open_it(f, true);
	assert_file(f->path, ORIGINAL);
	assert_int_equal(resolvconf_upstreams(f->rc, 0, a, 0, 4), 1);
	write_ours(f);
	kill_it(f);
	open_it(f, false); /* even when it is not to manage the file any more */
	assert_file(f->path, ORIGINAL);
	assert_nothing_left(f);
	assert_int_equal(resolvconf_write(f->rc, 1, NULL), 0);
	assert_file(f->path, ORIGINAL);
}

static void
marks_are_enough_when_the_keep_is_lost_or_damaged(void **state)
{
	struct fixture *f = *state;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	kill_it(f);
	keep_del(f, "");
	open_it(f, true);
	assert_file(f->path, ORIGINAL);
	write_ours(f);
	kill_it(f);
	keep_put(f, "", "edgeway-resolv-conf 1 0 644 0 0 9 9 9\n", 38);
	open_it(f, true);
	assert_file(f->path, ORIGINAL);
}

static void
what_others_write_meanwhile_stays(void **state)
{
	struct fixture *f = *state;
	struct addr a[4];
	auto_free char *ours = NULL, *edited = NULL;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	/* the whole file is theirs: not ours to restore */
	write_ours(f);
	write_file(f->path, "nameserver 192.0.2.99\n", 0644);
	resolvconf_restore(f->rc, NULL);
	assert_file(f->path, "nameserver 192.0.2.99\n");
	assert_nothing_left(f);
	/* the same before the address changes: their nameserver is adopted */
	write_ours(f);
	write_file(f->path, "nameserver 192.0.2.98\n", 0644);
	write_ours(f);
	assert_int_equal(resolvconf_upstreams(f->rc, 0, a, 0, 4), 1);
	assert_int_equal(ntohl(a[0].in.sin_addr.s_addr), 0xc0000262);
	/* a line added to ours stays when ours go, also after kill -9 */
	assert_int_equal(file_read(f->path, 1 << 20, &ours, NULL), 0);
	edited = xasprintf("%snameserver 192.0.2.97\n", ours);
	write_file(f->path, edited, 0644);
	resolvconf_restore(f->rc, NULL);
	assert_file(f->path, "nameserver 192.0.2.98\nnameserver 192.0.2.97\n");
	write_file(f->path, edited, 0644);
	kill_it(f);
	open_it(f, true);
	assert_file(f->path, "nameserver 192.0.2.98\nnameserver 192.0.2.97\n");
}

static void
nothing_is_written_before_the_original_is_kept(void **state)
{
	struct fixture *f = *state;
	struct err err;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	f->keep_fails = true;
	assert_int_equal(resolvconf_write(f->rc, 0xac110001, &err), RESOLVCONF_LEFT);
	assert_file(f->path, ORIGINAL);
	assert_non_null(strstr(err.text, "left alone"));
	f->keep_fails = false;
	assert_int_equal(resolvconf_write(f->rc, 0xac110001, &err), 0);
}

static void
a_crash_while_the_original_was_put_back_in_place(void **state)
{
	struct fixture *f = *state;

	/* write_in_place cuts the file to the length of the original first */
	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	kill_it(f);
	assert_int_equal(truncate(f->path, strlen(ORIGINAL)), 0);
	open_it(f, true);
	assert_file(f->path, ORIGINAL);
}

static void
a_bind_mounted_file_is_written_in_place(void **state)
{
	struct fixture *f = *state;
	struct stat before, after;

	write_file(f->path, ORIGINAL, 0644);
	write_file(f->other, ORIGINAL, 0640);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount(f->other, f->path, NULL, MS_BIND, NULL) < 0)
		skip();
	stat(f->path, &before);
	open_it(f, true);
	resolvconf_write(f->rc, 0xac110001, NULL);
	stat(f->path, &after);
	if (!is_ours(f->path) || before.st_ino != after.st_ino) {
		umount(f->path);
		fail();
	}
	resolvconf_restore(f->rc, NULL);
	umount(f->path);
	assert_file(f->other, ORIGINAL);
	assert_nothing_left(f);
}

/* Cut to nothing, read by us, replaced by us, and only then written: the words are not lost. */
static void
who_writes_while_we_do_is_heard(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	char text[ADDR_TEXT_MAX];
	struct addr a[4];
	FILE *slow;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	assert_int_equal(resolvconf_check(f->rc, true, &err), RESOLVCONF_SAME);
	for (unsigned i = 0; i < 2; i++) {
		slow = fopen(f->path, "w");
		assert_non_null(slow);
		assert_int_equal(resolvconf_check(f->rc, true, &err), RESOLVCONF_MENDED);
		assert_true(is_ours(f->path));
		fputs("nameserver 192.0.2.77\n", slow);
		fclose(slow);
		if (i == 1)
			break;
		assert_int_equal(resolvconf_check(f->rc, true, &err), RESOLVCONF_MENDED);
		assert_int_equal(resolvconf_upstreams(f->rc, 0xac110001, a, 0, 4), 1);
		assert_string_equal(addr_text(&a[0], text), "192.0.2.77:53");
		assert_int_equal(resolvconf_check(f->rc, true, &err), RESOLVCONF_SAME);
	}
	/* nobody looked any more before the end */
	assert_int_equal(resolvconf_restore(f->rc, &err), 0);
	assert_file(f->path, "nameserver 192.0.2.77\n");
}

/* Such as /dev/null, which a rename would replace for the whole host; a FIFO would not even be
 * read. */
static void
a_device_is_never_replaced(void **state)
{
	struct fixture *f = *state;
	struct resolvconf_config c = {.path = f->path,
		.cluster_domain = "cluster.local",
		.manage = true,
		.keep = {f, keep_get, keep_put, keep_del}};
	struct err err = {0};
	struct stat st;

	unlink(f->path);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	assert_int_equal(resolvconf_open(&f->rc, &c, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "no regular file"));
	assert_non_null(strstr(err.text, "dns.manageResolvConf"));
	open_it(f, false);
	assert_int_equal(stat(f->path, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
}

static void
too_large_a_file_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct resolvconf_config c = {
		.path = f->path, .cluster_domain = "cluster.local", .manage = true};
	struct err err;
	auto_free char *large = xcalloc(1, 70001);

	memset(large, '#', 70000);
	write_file(f->path, large, 0644);
	assert_true(resolvconf_open(&f->rc, &c, &err) < 0);
	assert_non_null(strstr(err.text, "dns.manageResolvConf: false"));
	c.manage = false;
	assert_int_equal(resolvconf_open(&f->rc, &c, &err), 0);
	assert_file(f->path, large);
}

/* --- other writers -------------------------------------------------------------------------- */

struct watching {
	struct fixture *f;
	struct loop *loop;
	struct resolvwatch *watch;
	unsigned changed;
};

static void
on_changed(void *arg)
{
	struct watching *w = arg;

	w->changed++;
}

static void
watch_it(struct watching *w, struct fixture *f, uint64_t look_ms, uint64_t calm_ms)
{
	struct resolvwatch_config config = {.keeper = f->rc,
		.path = f->path,
		.changed = on_changed,
		.arg = w,
		.debounce_ms = 1,
		.look_ms = look_ms,
		.calm_ms = calm_ms};

	*w = (struct watching){.f = f};
	assert_int_equal(loop_new(&w->loop, NULL), 0);
	config.loop = w->loop;
	resolvwatch_start(&w->watch, &config);
}

static void
unwatch(struct watching *w)
{
	resolvwatch_stop(&w->watch);
	loop_free(&w->loop);
}

static bool
says(const struct watching *w, const char *text)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	resolvwatch_state(w->watch, &out);
	return strstr(buf_str(&out), text) != NULL;
}

static void
turn(struct watching *w)
{
	patience_turn(w->loop);
}

static void
wait_mended(struct watching *w, unsigned times)
{
	auto_free char *want = xasprintf("\"mended\":%u,", times);

	patience_until(turn(w), says(w, want));
	assert_true(is_ours(w->f->path));
}

static void
assert_upstream(struct fixture *f, uint32_t address)
{
	struct addr a[4];

	assert_int_equal(resolvconf_upstreams(f->rc, 0xac110001, a, 0, 4), 1);
	assert_int_equal(ntohl(a[0].in.sin_addr.s_addr), address);
}

static void
our_lines_come_back_behind_another_writer(void **state)
{
	struct fixture *f = *state;
	struct watching w;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	watch_it(&w, f, 0, 0);
	write_ours(f);
	/* over the file, and under another name renamed over it, as DHCP clients do */
	write_file(f->path, "nameserver 192.0.2.99\n", 0644);
	wait_mended(&w, 1);
	assert_upstream(f, 0xc0000263);
	write_file(f->other, "nameserver 192.0.2.98\nsearch dhcp.example\n", 0640);
	assert_int_equal(rename(f->other, f->path), 0);
	wait_mended(&w, 2);
	assert_upstream(f, 0xc0000262);
	/* whoever deletes it does not take the nameservers with it */
	assert_int_equal(unlink(f->path), 0);
	wait_mended(&w, 3);
	assert_upstream(f, 0xc0000262);
	/* our own writes, of which there were four, did not count */
	assert_int_equal(w.changed, 3);
	assert_int_equal(resolvconf_restore(f->rc, NULL), 0);
	assert_file(f->path, "nameserver 192.0.2.98\nsearch dhcp.example\n");
	unwatch(&w);
	assert_nothing_left(f);
}

static void
a_later_original_survives_kill_9(void **state)
{
	struct fixture *f = *state;
	struct watching w;
	struct stat st;

	write_file(f->path, ORIGINAL, 0644);
	write_file(f->other, "nameserver 192.0.2.97\n", 0644);
	open_it(f, true);
	write_ours(f);
	watch_it(&w, f, 0, 0);
	/* systemd-resolved comes and puts its link there */
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(symlink("stub", f->path), 0);
	wait_mended(&w, 1);
	assert_upstream(f, 0xc0000261);
	unwatch(&w);
	kill_it(f);
	assert_int_equal(resolvconf_recover(f->path,
				 &(struct dns_keep){f, keep_get, keep_put, keep_del}, NULL),
		1);
	assert_int_equal(lstat(f->path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_nothing_left(f);
	assert_int_equal(resolvconf_recover(f->path,
				 &(struct dns_keep){f, keep_get, keep_put, keep_del}, NULL),
		0);
}

/* The manager of resolv.conf comes after us, and writes its file anew with each lease. */
static void
the_target_of_a_link_is_followed(void **state)
{
	struct fixture *f = *state;
	struct watching w;
	struct stat st;

	unlink(f->path);
	unlink(f->other);
	assert_int_equal(symlink("stub", f->path), 0);
	open_it(f, true);
	write_ours(f);
	assert_true(resolvconf_dangles(f->rc));
	watch_it(&w, f, 0, 0);
	write_file(f->other, "nameserver 192.0.2.97\n", 0644);
	wait_mended(&w, 1);
	assert_upstream(f, 0xc0000261);
	assert_false(resolvconf_dangles(f->rc));
	unwatch(&w);
	watch_it(&w, f, 3600000, 0); /* not by looking */
	unlink(f->other);
	write_file(f->other, "nameserver 192.0.2.98\n", 0644);
	wait_mended(&w, 1);
	assert_upstream(f, 0xc0000262);
	unwatch(&w);
	assert_int_equal(resolvconf_restore(f->rc, NULL), 0);
	assert_int_equal(lstat(f->path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
}

static void
what_inotify_does_not_tell_is_seen_by_looking(void **state)
{
	struct fixture *f = *state;
	struct watching w;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	watch_it(&w, f, 5, 0);
	/* through another name, as through the other end of a bind mount */
	assert_int_equal(link(f->path, f->other), 0);
	write_file(f->other, "nameserver 192.0.2.96\n", 0644);
	wait_mended(&w, 1);
	assert_upstream(f, 0xc0000260);
	unwatch(&w);
}

/* Somebody who answers each of our writes with one of theirs. */
static void
fight(struct watching *w)
{
	for (unsigned turns = 0; !says(w, "\"left\":true"); turns++) {
		assert_true(turns < PATIENCE_TURNS);
		if (is_ours(w->f->path))
			write_file(w->f->path, "nameserver 192.0.2.95\n", 0644);
		turn(w);
	}
}

static void
who_keeps_writing_is_left_alone(void **state)
{
	struct fixture *f = *state;
	auto_buf struct buf out;
	struct watching w;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	watch_it(&w, f, 0, 600000);
	fight(&w);
	assert_true(says(&w, "\"mended\":10,"));
	write_file(f->path, "nameserver 192.0.2.94\n", 0644);
	for (unsigned i = 0; i < 20; i++)
		turn(&w);
	assert_true(says(&w, "\"mended\":10,"));
	buf_init(&out, BUF_UNLIMITED);
	resolvconf_state(f->rc, &out);
	assert_non_null(strstr(buf_str(&out), "keeps changing it"));
	assert_int_equal(resolvconf_restore(f->rc, NULL), 0);
	assert_file(f->path, "nameserver 192.0.2.94\n");
	unwatch(&w);
	assert_nothing_left(f);
}

static void
our_lines_come_back_when_it_is_calm(void **state)
{
	struct fixture *f = *state;
	struct watching w;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	watch_it(&w, f, 0, 1000);
	fight(&w);
	while (says(&w, "\"left\":true"))
		turn(&w);
	assert_true(is_ours(f->path));
	assert_upstream(f, 0xc000025f);
	unwatch(&w);
}

static void
a_file_that_is_not_ours_is_read_again(void **state)
{
	struct fixture *f = *state;
	struct watching w;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, false);
	watch_it(&w, f, 0, 0);
	write_file(f->path, "nameserver 192.0.2.93\n", 0644);
	while (w.changed == 0)
		turn(&w);
	assert_upstream(f, 0xc000025d);
	assert_file(f->path, "nameserver 192.0.2.93\n");
	unwatch(&w);
}

/* systemd-resolved reads the resolv.conf that names us: asking it would be asking ourselves. */
static void
behind_resolved_are_those_whom_it_asks(void **state)
{
	struct fixture *f = *state;
	struct resolvconf_config c = {.path = f->path, .cluster_domain = "cluster.local"};
	auto_free char *theirs = xasprintf("%s.resolved", f->path);
	struct resolvwatch_config watch = {.path = f->path, .also = theirs, .changed = on_changed};
	struct watching w = {.f = f};
	struct addr a[4];
	char text[ADDR_TEXT_MAX];

	c.resolved = theirs;
	write_file(f->path, "nameserver 127.0.0.53\nnameserver 192.0.2.9\n", 0644);
	assert_int_equal(resolvconf_open(&f->rc, &c, NULL), 0);
	assert_int_equal(
		resolvconf_upstreams(f->rc, 0, a, 0, ARRAY_LEN(a)), 2); /* it says nothing */
	assert_string_equal(addr_text(&a[0], text), "127.0.0.53:53");
	assert_int_equal(loop_new(&w.loop, NULL), 0);
	watch.loop = w.loop;
	watch.keeper = f->rc;
	watch.arg = &w;
	watch.debounce_ms = 1;
	resolvwatch_start(&w.watch, &watch);
	write_file(theirs, "nameserver 192.0.2.7\nnameserver 192.0.2.8\nsearch x.test\n", 0644);
	for (unsigned i = 0; i < 3000 && w.changed == 0; i++)
		turn(&w);
	assert_true(w.changed > 0);
	assert_int_equal(resolvconf_upstreams(f->rc, 0, a, 0, ARRAY_LEN(a)), 3);
	assert_string_equal(addr_text(&a[0], text), "192.0.2.7:53");
	assert_string_equal(addr_text(&a[1], text), "192.0.2.8:53");
	assert_string_equal(addr_text(&a[2], text), "192.0.2.9:53");
	unwatch(&w);
	unlink(theirs);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_file_comes_back_byte_for_byte),
		T(another_address_goes_in_and_out),
		T(a_link_comes_back_and_its_target_is_never_written),
		T(a_dangling_link_and_a_missing_file_come_back),
		T(the_next_start_puts_back_what_a_killed_run_left),
		T(marks_are_enough_when_the_keep_is_lost_or_damaged),
		T(what_others_write_meanwhile_stays),
		T(nothing_is_written_before_the_original_is_kept),
		T(a_crash_while_the_original_was_put_back_in_place),
		T(a_bind_mounted_file_is_written_in_place),
		T(who_writes_while_we_do_is_heard),
		T(a_device_is_never_replaced),
		T(too_large_a_file_is_left_alone),
		T(our_lines_come_back_behind_another_writer),
		T(a_later_original_survives_kill_9),
		T(the_target_of_a_link_is_followed),
		T(what_inotify_does_not_tell_is_seen_by_looking),
		T(who_keeps_writing_is_left_alone),
		T(our_lines_come_back_when_it_is_calm),
		T(a_file_that_is_not_ours_is_read_again),
		T(behind_resolved_are_those_whom_it_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
