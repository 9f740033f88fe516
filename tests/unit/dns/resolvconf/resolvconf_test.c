/* What is written, and put back. */
#include "dns/resolvconf/resolvconf.h"

#include <sched.h>
#include <sys/mount.h>

#include "tests/unit/dns/resolvconf/resolv_bed.h"

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

static bool
has_trouble(struct fixture *f, const char *trouble)
{
	auto_free char *want = xasprintf("\"trouble\":\"%s\"", trouble);
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	resolvconf_state(f->rc, &out);
	return strstr(buf_str(&out), want) != NULL;
}

/* A lease that comes while the disk is full: in the file, and in the target of the link that was
 * there, when our lines of before are still in the file. */
static void
what_could_not_be_mended_is_told_and_tried_again(void **state)
{
	static const char unkept[] = "left alone, its original cannot be kept";
	struct fixture *f = *state;
	struct err err = {0};
	struct addr a[4];
	char text[ADDR_TEXT_MAX];

	for (unsigned link = 0; link < 2; link++) {
		write_file(link ? f->other : f->path, ORIGINAL, 0644);
		if (link)
			assert_int_equal(symlink("stub", f->path), 0);
		open_it(f, true);
		write_ours(f);
		f->keep_fails = true;
		write_file(link ? f->other : f->path, "nameserver 192.0.2.99\n", 0644);
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(resolvconf_check(f->rc, true, &err), -EIO);
			assert_true(has_trouble(f, unkept));
		}
		if (link) {
			assert_int_equal(resolvconf_check(f->rc, false, &err), RESOLVCONF_SAME);
			assert_true(has_trouble(f, unkept));
		}
		assert_int_equal(resolvconf_upstreams(f->rc, 0xac110001, a, 0, 4), 1);
		assert_string_equal(addr_text(&a[0], text), "192.0.2.99:53");
		f->keep_fails = false;
		assert_int_equal(resolvconf_check(f->rc, true, &err), RESOLVCONF_MENDED);
		assert_true(has_trouble(f, ""));
		assert_true(is_ours(f->path));
		assert_int_equal(resolvconf_check(f->rc, true, &err), RESOLVCONF_SAME);
		assert_int_equal(resolvconf_restore(f->rc, &err), 0);
		resolvconf_close(&f->rc);
		assert_file(f->path, "nameserver 192.0.2.99\n");
		assert_int_equal(unlink(f->path), 0);
	}
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

/* A lease changes the target, and the agent is killed, or the power goes, when what it is about to
 * write is kept and not yet there. */
static void
killed_between_keep_and_rename(void **state)
{
	static const char *const leases[] = {
		"nameserver 192.0.2.97\nnameserver 192.0.2.98\nsearch lease.example\n",
		"nameserver 192.0.2.96\n", "nameserver 192.0.2.95\n"};
	struct fixture *f = *state;
	struct err err = {0};
	char target[64];

	for (unsigned i = 0; i < ARRAY_LEN(leases); i++) {
		write_file(f->other, "nameserver 192.0.2.99\n", 0644);
		unlink(f->path);
		assert_int_equal(symlink("stub", f->path), 0);
		open_it(f, true);
		write_ours(f);
		for (unsigned k = 0; k <= i; k++) {
			write_file(f->other, leases[k], 0644);
			assert_int_equal(resolvconf_check(f->rc, true, &err), RESOLVCONF_MENDED);
		}
		write_file(f->path, f->at_keep, 0644);
		kill_it(f);
		assert_int_equal(resolvconf_recover(f->path,
					 &(struct dns_keep){f, keep_get, keep_put, keep_del}, NULL),
			1);
		assert_int_equal(readlink(f->path, target, sizeof target), 4);
		assert_file(f->other, leases[i]);
		assert_nothing_left(f);
	}
}

/* What was kept by an agent that did not say what it had written before. */
static void
an_older_record_is_read(void **state)
{
	struct fixture *f = *state;

	write_file(f->path, "ours\n", 0644);
	keep_put(f, "", "edgeway-resolv-conf 1 0 644 0 0 0 7 5\ntheirs\nours\n", 50);
	open_it(f, true);
	assert_file(f->path, "theirs\n");
	assert_nothing_left(f);
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
		T(what_could_not_be_mended_is_told_and_tried_again),
		T(a_device_is_never_replaced),
		T(too_large_a_file_is_left_alone),
		T(killed_between_keep_and_rename),
		T(an_older_record_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
