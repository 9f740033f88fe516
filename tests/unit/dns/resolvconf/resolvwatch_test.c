/* Other writers of resolv.conf. */
#include "dns/resolvconf/resolvwatch.h"

#include "tests/unit/dns/resolvconf/resolv_bed.h"
#include "tests/unit/patience.h"

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

/* Neither inotify nor the look that comes now and then tells that there is room again. */
static void
what_could_not_be_written_is_tried_again_soon(void **state)
{
	struct fixture *f = *state;
	struct watching w;

	write_file(f->path, ORIGINAL, 0644);
	open_it(f, true);
	write_ours(f);
	watch_it(&w, f, 3600000, 0);
	f->keep_fails = true;
	write_file(f->path, "nameserver 192.0.2.97\n", 0644);
	patience_until(turn(&w), w.changed > 0); /* its nameservers are used */
	assert_upstream(f, 0xc0000261);
	f->keep_fails = false;
	wait_mended(&w, 1);
	unwatch(&w);
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
		T(our_lines_come_back_behind_another_writer),
		T(a_later_original_survives_kill_9),
		T(the_target_of_a_link_is_followed),
		T(what_could_not_be_written_is_tried_again_soon),
		T(what_inotify_does_not_tell_is_seen_by_looking),
		T(who_keeps_writing_is_left_alone),
		T(our_lines_come_back_when_it_is_calm),
		T(a_file_that_is_not_ours_is_read_again),
		T(behind_resolved_are_those_whom_it_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
