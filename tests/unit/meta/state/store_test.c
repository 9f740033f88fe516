#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log.h"
#include "meta/state/load.h"
#include "meta/state/store.h"

enum { SUBNET = 0x09fb0000u, MASK = 0xffff0000u };

static char dir[] = "/tmp/edgeway-store-XXXXXX";
static char path[64];

static char *
make_view(const char *key, size_t *len, uint64_t *digest)
{
	auto_free char *copy = xstrdup(key);
	char *slash = strchr(copy, '/');
	struct view_endpoint e[3];
	struct view_port port = {.port = 80, .mode = PORT_HTTP, .n_endpoints = 3, .endpoints = e};
	struct view v = {.n_ports = 1, .ports = &port};
	char empty[] = "", http[] = "http", node[] = "edge-1", ip[] = "172.17.0.5",
	     host[] = "192.0.2.7";
	struct buf out;

	*slash = '\0';
	v.ns = copy;
	v.name = slash + 1;
	v.cluster_ip = v.external_name = empty;
	port.name = http;
	for (int i = 0; i < 3; i++) {
		e[i] = (struct view_endpoint){.node = node,
			.site = empty,
			.zone = empty,
			.hostname = empty,
			.pod = empty,
			.flags = ENDPOINT_READY,
			.pod_ip = ip,
			.pod_port = (uint16_t)(8080 + i),
			.host_ip = host,
			.host_port = (uint16_t)(30080 + i),
			.given_ip = empty};
	}
	buf_init(&out, BUF_UNLIMITED);
	*digest = view_build(&out, &v);
	*len = buf_len(&out);
	return buf_take_str(&out);
}

static struct store *
open_it(unsigned moved_aside)
{
	struct store *store;
	struct store_report report;
	struct err err = {0};

	if (store_open(&store, path, &report, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(report.moved_aside, moved_aside);
	return store;
}

/* Services first..last-1 in one batch; address of number i is SUBNET + 1 + i. */
static void
put(struct store *store, int first, int last)
{
	struct store_batch batch = {0};
	struct err err = {0};

	for (int i = first; i < last; i++) {
		struct store_op op = {.kind = STORE_PUT, .ip = SUBNET + 1 + (uint32_t)i};

		op.key = xasprintf("default/service-%d", i);
		op.data = make_view(op.key, &op.len, &op.digest);
		store_batch_add(&batch, &op);
	}
	if (store_commit(store, &batch, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < batch.n; i++) {
		free((void *)(uintptr_t)batch.ops[i].key);
		free((void *)(uintptr_t)batch.ops[i].data);
	}
	store_batch_fini(&batch);
}

static struct load_result
load(struct store *store, int want)
{
	struct ipam *ipam;
	struct self self = {.node = "edge-9", .site = "", .zone = ""};
	struct load l = {.store = store, .self = &self, .now_ms = wall_ms()};
	struct load_result result;
	struct err err = {0};
	int rc;

	assert_int_equal(ipam_new(&ipam, SUBNET, MASK, NULL), 0);
	l.ipam = ipam;
	rc = load_services(&l, &result, &err);
	if (rc != want)
		fail_msg("load_services: %d (%s)", rc, err.text);
	ipam_free(&ipam);
	return result;
}

static void
drop(struct load_result *r)
{
	snapshot_unref((struct snapshot **)(uintptr_t)&r->snapshot);
}

static size_t
count_copies(void)
{
	auto_free char *pattern = xasprintf("%s.damaged-*[0-9]", path);
	glob_t found;
	size_t n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;

	globfree(&found);
	return n;
}

static void
write_file(const char *file, const void *bytes, size_t len)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}

static int
clean(void **state)
{
	auto_free char *command = xasprintf("rm -rf %s/*", dir);

	(void)state;
	return system(command);
}

static void
round_trip(void **state)
{
	struct store *store = open_it(0);
	struct store_op ops[] = {
		{.kind = STORE_DEL, .key = "default/service-1"},
		{.kind = STORE_REST,
			.key = "default/service-1",
			.ip = SUBNET + 2,
			.freed_at_ms = 5},
		{.kind = STORE_NOTE, .key = "site", .data = "here", .len = 4},
		{.kind = STORE_NOTE, .key = "synced", .data = "1", .len = 1},
		{.kind = STORE_IP, .key = "default/service-2", .ip = SUBNET + 77},
	};
	struct store_batch batch = {.ops = ops, .n = ARRAY_LEN(ops)};
	struct load_result r;
	const struct service *s;
	auto_free char *site = NULL;
	struct stat st;

	(void)state;
	put(store, 0, 3);
	assert_int_equal(store_commit(store, &batch, NULL), 0);
	store_close(&store);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	store = open_it(0);
	site = store_note(store, "site");
	assert_string_equal(site, "here");
	assert_null(store_note(store, "zone"));
	r = load(store, 0);
	assert_int_equal(snapshot_count(r.snapshot), 2);
	assert_true(snapshot_synced(r.snapshot));
	s = snapshot_find(r.snapshot, "default", 7, "service-2", 9);
	assert_int_equal(s->fake_ip, SUBNET + 77);
	assert_int_equal(s->ports[0].n_endpoints, 3);
	assert_null(snapshot_find(r.snapshot, "default", 7, "service-1", 9));
	drop(&r);
	store_close(&store);
}

static void
keep(void **state)
{
	struct store *store = open_it(0);
	char *data = NULL;
	size_t len = 0;

	(void)state;
	assert_int_equal(store_keep_get(store, "resolv", &data, &len), -ENOENT);
	assert_int_equal(store_keep_put(store, "resolv", "a\0b\n", 4), 0);
	assert_int_equal(store_keep_put(store, "empty", NULL, 0), 0);
	store_close(&store);
	store = open_it(0);
	assert_int_equal(store_keep_get(store, "resolv", &data, &len), 0);
	assert_int_equal(len, 4);
	assert_memory_equal(data, "a\0b\n", 5);
	free(data);
	assert_int_equal(store_keep_get(store, "empty", &data, &len), 0);
	assert_int_equal(len, 0);
	free(data);
	assert_int_equal(store_keep_del(store, "resolv"), 0);
	assert_int_equal(store_keep_get(store, "resolv", &data, &len), -ENOENT);
	store_close(&store);
}

/* A file that cannot be a database: aside with it, and the next one works. */
static void
aside(void)
{
	struct store *store = open_it(1);
	struct load_result r;

	assert_int_equal(count_copies(), 1);
	put(store, 0, 10);
	store_close(&store);
	store = open_it(0);
	r = load(store, 0);
	assert_int_equal(snapshot_count(r.snapshot), 10);
	assert_int_equal(r.dropped, 0);
	drop(&r);
	store_close(&store);
}

static void
garbage(void **state)
{
	uint8_t bytes[20000];

	(void)state;
	random_bytes(bytes, sizeof(bytes));
	bytes[0] = 'x';
	write_file(path, bytes, sizeof(bytes));
	aside();
}

static void
text_file(void **state)
{
	(void)state;
	write_file(path, "hello\n", 6);
	aside();
}

static void
folder(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path, 0755), 0);
	aside();
}

static void
empty_file(void **state)
{
	struct store *store;

	(void)state;
	write_file(path, "", 0);
	store = open_it(0);
	put(store, 0, 3);
	store_close(&store);
}

/* Fields of the file's header (sqlite.org/fileformat.html) with values that this SQLite, or this
 * version of ours, cannot use. */
static void
header_fields(void **state)
{
	static const off_t fields[] = {16, 19, 44, 56, 60}; /* 60: user_version */

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const uint8_t value[4] = {99, 99, 99, 99};
		struct store *store = open_it(0);
		int fd;

		put(store, 0, 3);
		store_close(&store);
		fd = open(path, O_WRONLY);
		assert_int_equal(pwrite(fd, value, fields[i] == 19 ? 1 : 4, fields[i]),
			fields[i] == 19 ? 1 : 4);
		close(fd);
		aside();
		clean(NULL);
	}
}

static void
truncated(void **state)
{
	(void)state;
	for (int i = 1; i < 8; i++) {
		struct store *store = open_it(0);
		struct store_report report;
		struct load_result r;
		struct stat st;

		put(store, 0, 200);
		store_close(&store);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(truncate(path, st.st_size * i / 8 + i * 7), 0);
		assert_int_equal(store_open(&store, path, &report, NULL), 0);
		assert_int_equal(report.moved_aside, 1);
		r = load(store, 0);
		assert_int_equal(snapshot_count(r.snapshot), 0);
		drop(&r);
		store_close(&store);
		clean(NULL);
	}
}

/* The file is gone, then another one is in its place: what is open is written there again, without
 * what the journals beside it hold, and the other file is kept. */
static void
rewritten(void **state)
{
	struct store *store = open_it(0);
	auto_free char *value = NULL;
	struct load_result r;
	size_t len;

	(void)state;
	put(store, 0, 50);
	assert_int_equal(store_keep_put(store, "k", "v", 1), 0);
	assert_false(store_moved(store));
	for (int round = 0; round < 2; round++) {
		unlink(path);
		if (round == 1)
			assert_int_equal(file_write(path, "other", 5, 0600), 0);
		assert_true(store_moved(store));
		put(store, 50 + round, 51 + round);
		assert_int_equal(store_rewrite(store, path, NULL), 0);
		store_close(&store);
		store = open_it(0);
		assert_false(store_moved(store));
		r = load(store, 0);
		assert_int_equal(snapshot_count(r.snapshot), 51 + round);
		drop(&r);
		assert_int_equal(count_copies(), round);
	}
	assert_int_equal(store_keep_get(store, "k", &value, &len), 0);
	assert_string_equal(value, "v");
	store_close(&store);
}

/* A backup is copied over the open file: that is another matter than what we write ourselves. */
static void
overwritten_in_use(void **state)
{
	auto_free char *backup = NULL;
	struct store *store;
	size_t len = 0;

	(void)state;
	store = open_it(0);
	put(store, 0, 5);
	store_close(&store);
	assert_int_equal(file_read(path, 1 << 20, &backup, &len), 0);
	store = open_it(0);
	put(store, 5, 3000); /* more than the journal takes */
	assert_int_equal(store_keep_put(store, "k", "v", 1), 0);
	assert_false(store_overwritten(store));
	write_file(path, backup, len);
	assert_true(store_overwritten(store));
	assert_false(store_moved(store));
	store_close(&store);
}

/* dataDir was moved to another disk, and a link leads there; then the link leads elsewhere. */
static void
by_a_link(void **state)
{
	auto_free char *link = xasprintf("%s/link", dir), *elsewhere = xasprintf("%s/other", dir),
		       *by = xasprintf("%s/edgeway.db", link);
	struct store_report report;
	struct store *store;
	struct err err = {0};

	(void)state;
	assert_int_equal(symlink(dir, link), 0);
	if (store_open(&store, by, &report, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(store_moved(store));
	unlink(link);
	mkdir_p(elsewhere, 0700);
	assert_int_equal(symlink(elsewhere, link), 0);
	assert_true(store_moved(store));
	assert_int_equal(store_rewrite(store, by, NULL), 0);
	store_close(&store);
	assert_int_equal(store_open(&store, by, &report, &err), 0);
	assert_false(report.created);
	store_close(&store);
	unlink(by);
	unlink(link);
	rmdir(elsewhere);
}

/* Random bytes anywhere: whatever is read afterwards is what was written, or it is gone. */
static void
overwritten(void **state)
{
	size_t dropped = 0, moved = 0;

	(void)state;
	for (int round = 0; round < 60; round++) {
		struct store *store = open_it(0);
		struct store_report report;
		struct ipam *ipam;
		struct self self = {.node = "edge-9", .site = "", .zone = ""};
		struct load l = {.store = NULL, .self = &self, .now_ms = wall_ms()};
		struct load_result r;
		struct stat st;
		uint8_t bytes[64];
		uint32_t at;
		int fd, rc;

		put(store, 0, 100);
		store_close(&store);
		fd = open(path, O_RDWR);
		assert_int_equal(fstat(fd, &st), 0);
		random_bytes(bytes, sizeof(bytes));
		random_bytes(&at, sizeof(at));
		assert_int_equal(
			pwrite(fd, bytes, sizeof(bytes), at % (st.st_size - 64)), sizeof(bytes));
		close(fd);
		assert_int_equal(store_open(&store, path, &report, NULL), 0);
		moved += report.moved_aside;
		assert_int_equal(ipam_new(&ipam, SUBNET, MASK, NULL), 0);
		l.store = store;
		l.ipam = ipam;
		rc = load_services(&l, &r, NULL);
		assert_true(rc == 0 || rc == -EUCLEAN);
		for (size_t i = 0; rc == 0 && i < snapshot_count(r.snapshot); i++) {
			const struct service *s = snapshot_at(r.snapshot, i);
			size_t len;
			uint64_t digest;
			auto_free char *key = xasprintf("%s/%s", s->namespace, s->name);
			auto_free char *view = make_view(key, &len, &digest);

			assert_non_null(view);
			assert_true(digest == s->digest);
		}
		dropped += r.dropped;
		if (rc == 0)
			drop(&r);
		ipam_free(&ipam);
		store_close(&store);
		clean(NULL);
	}
	assert_true(dropped + moved > 0);
}

/* Journals of a crash: the last transaction cut short, bytes in it changed, garbage behind it. */
static void
half_written_journal(void **state)
{
	auto_free char *wal = xasprintf("%s-wal", path);
	struct store *store = open_it(0);
	char *db_bytes, *wal_bytes;
	size_t db_len, wal_len, before;

	(void)state;
	put(store, 0, 50);
	assert_int_equal(file_read(wal, 1 << 24, &wal_bytes, &before), 0);
	free(wal_bytes);
	put(store, 50, 60);
	assert_int_equal(file_read(path, 1 << 24, &db_bytes, &db_len), 0);
	assert_int_equal(file_read(wal, 1 << 24, &wal_bytes, &wal_len), 0);
	store_close(&store);
	assert_true(wal_len > before);
	for (int i = 0; i <= 20; i++) {
		size_t cut = before + (wal_len - before) * (size_t)i / 20;
		struct load_result r;

		clean(NULL);
		write_file(path, db_bytes, db_len);
		write_file(wal, wal_bytes, cut);
		store = open_it(0);
		r = load(store, 0);
		assert_int_equal(snapshot_count(r.snapshot), i == 20 ? 60 : 50);
		drop(&r);
		store_close(&store);
		/* the same with a byte of the last transaction changed */
		clean(NULL);
		write_file(path, db_bytes, db_len);
		wal_bytes[before + 30 + (wal_len - before - 40) * (size_t)i / 20] ^= 0x55;
		write_file(wal, wal_bytes, wal_len);
		wal_bytes[before + 30 + (wal_len - before - 40) * (size_t)i / 20] ^= 0x55;
		store = open_it(0);
		r = load(store, 0);
		assert_int_equal(snapshot_count(r.snapshot), 50);
		drop(&r);
		store_close(&store);
	}
	free(db_bytes);
	free(wal_bytes);
}

static void
damaged_row(void **state)
{
	struct store *store = open_it(0);
	struct store_op op = {.kind = STORE_PUT,
		.key = "default/service-2",
		.data = "{\"ns\":",
		.len = 6,
		.digest = 7,
		.ip = SUBNET + 3};
	struct store_op other = {.kind = STORE_PUT, .key = "default/twice", .ip = SUBNET + 1};
	struct store_batch batch = {.ops = &op, .n = 1}, second = {.ops = &other, .n = 1};
	struct load_result r;
	const struct service *s;

	(void)state;
	other.data = make_view(other.key, &other.len, &other.digest);
	put(store, 0, 5);
	assert_int_equal(store_commit(store, &batch, NULL), 0);
	assert_int_equal(store_commit(store, &second, NULL), 0);
	free((void *)(uintptr_t)other.data);
	r = load(store, 0);
	assert_int_equal(r.dropped, 1);
	assert_int_equal(r.moved, 1);
	assert_int_equal(snapshot_count(r.snapshot), 5);
	s = snapshot_find(r.snapshot, "default", 7, "twice", 5);
	assert_true(s->fake_ip != SUBNET + 1 && s->fake_ip != SUBNET + 3 && s->fake_ip != 0);
	drop(&r);
	r = load(store, 0); /* and it was written down */
	assert_int_equal(r.dropped + r.moved, 0);
	assert_int_equal(snapshot_count(r.snapshot), 5);
	drop(&r);
	store_close(&store);
}

static int
anonymous_kb(void)
{
	auto_free char *text = NULL;
	const char *at;

	if (file_read("/proc/self/status", 1 << 16, &text, NULL) < 0 ||
		(at = strstr(text, "RssAnon:")) == NULL)
		return 0;
	return atoi(at + 8);
}

static void
ten_thousand(void **state)
{
	struct store *store = open_it(0);
	struct load_result r;
	uint64_t start, opened, loaded;
	int before;

	(void)state;
	for (int i = 0; i < 10000; i += 1000)
		put(store, i, i + 1000);
	store_close(&store);
	before = anonymous_kb();
	start = mono_ms();
	store = open_it(0);
	opened = mono_ms();
	r = load(store, 0);
	loaded = mono_ms();
	print_message("# 10000 services: open and check %d ms, load and build %d ms, %d kB more\n",
		(int)(opened - start), (int)(loaded - opened), anonymous_kb() - before);
	assert_int_equal(snapshot_count(r.snapshot), 10000);
	drop(&r);
	store_close(&store);
}

enum { KILLED_MOST = 60000 };

/* Writes batches of ten, telling after each commit how many are in, until it is killed. */
static void
write_until_killed(_Atomic int *committed)
{
	struct store *store;
	struct store_report report;

	if (store_open(&store, path, &report, NULL) < 0)
		_exit(1);
	for (int i = *committed; i < KILLED_MOST; i += 10) {
		put(store, i, i + 10);
		*committed = i + 10;
	}
	_exit(0);
}

static void
killed(void **state)
{
	_Atomic int *committed =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	/* where /tmp is in memory all may be written before the last round */
	for (int round = 0; round < 12 && *committed < KILLED_MOST; round++) {
		struct store *store;
		struct load_result r;
		uint16_t random;
		pid_t child = fork();
		int status;
		size_t n;

		assert_true(child >= 0);
		if (child == 0)
			write_until_killed(committed);
		random_bytes(&random, sizeof(random));
		usleep(5000 + random);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		assert_true(WIFSIGNALED(status) || (status == 0 && *committed == KILLED_MOST));
		store = open_it(0);
		r = load(store, 0);
		n = snapshot_count(r.snapshot);
		assert_int_equal(n % 10, 0);
		assert_true(n == (size_t)*committed || n == (size_t)*committed + 10);
		assert_int_equal(r.dropped + r.moved, 0);
		for (size_t i = 0; i < n; i++) {
			const struct service *s = snapshot_at(r.snapshot, i);

			assert_int_equal(s->fake_ip, SUBNET + 1 + (uint32_t)atoi(s->name + 8));
		}
		*committed = (int)n;
		drop(&r);
		store_close(&store);
	}
	assert_true(*committed > 0);
	munmap((void *)(uintptr_t)committed, 4096);
}

/* In a mount namespace of its own: 0 when all is well, else the number of the step that failed. */
static int
read_only_steps(void)
{
	struct store_op op = {.kind = STORE_NOTE, .key = "a", .data = "b", .len = 1};
	struct store_batch batch = {.ops = &op, .n = 1};
	struct store *store = open_it(0);
	struct store_report report;
	struct load_result r;

	put(store, 0, 20);
	store_close(&store);
	if (mount("none", dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0)
		return 1;
	if (store_open(&store, path, &report, NULL) < 0 || !report.read_only)
		return 2;
	r = load(store, 0);
	if (snapshot_count(r.snapshot) != 20)
		return 3;
	drop(&r);
	if (store_commit(store, &batch, NULL) != -EROFS)
		return 4;
	store_close(&store);
	return 0;
}

static void
read_only_disk(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
			mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
			mount("none", dir, "tmpfs", 0, NULL) < 0)
			_exit(77);
		_exit(read_only_steps());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* not root */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void
few_copies_are_kept(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct store *store;

		write_file(path, "not a database", 14);
		store = open_it(1);
		store_close(&store);
		usleep(2000);
	}
	assert_int_equal(count_copies(), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(round_trip, clean),
		cmocka_unit_test_teardown(keep, clean),
		cmocka_unit_test_teardown(garbage, clean),
		cmocka_unit_test_teardown(text_file, clean),
		cmocka_unit_test_teardown(folder, clean),
		cmocka_unit_test_teardown(empty_file, clean),
		cmocka_unit_test_teardown(header_fields, clean),
		cmocka_unit_test_teardown(truncated, clean),
		cmocka_unit_test_teardown(rewritten, clean),
		cmocka_unit_test_teardown(overwritten_in_use, clean),
		cmocka_unit_test_teardown(by_a_link, clean),
		cmocka_unit_test_teardown(overwritten, clean),
		cmocka_unit_test_teardown(half_written_journal, clean),
		cmocka_unit_test_teardown(damaged_row, clean),
		cmocka_unit_test_teardown(ten_thousand, clean),
		cmocka_unit_test_teardown(killed, clean),
		cmocka_unit_test_teardown(read_only_disk, clean),
		cmocka_unit_test_teardown(few_copies_are_kept, clean),
	};
	int rc;

	if (mkdtemp(dir) == NULL)
		return 99;
	snprintf(path, sizeof(path), "%s/edgeway.db", dir);
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	rc = cmocka_run_group_tests_name("store", tests, NULL, NULL);
	rmdir(dir);
	return rc;
}
