/*
 * The manifest source against a real folder: what counts after each kind of change and of mistake,
 * seen as the services that the cluster has. Files in a folder of its own under TMPDIR.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "hub/manifests/manifest_file.h"
#include "hub/manifests/manifests.h"
#include "tests/unit/patience.h"

struct bed {
	char dir[64];
	char *folder;
	char *data_dir; /* NULL: no copies are kept */
	struct loop *loop;
	struct cluster *cluster;
	struct manifests *manifests;
	char services[4096]; /* "name:port name:port " of what the cluster has, sorted */
	unsigned n_changed;
};

struct known {
	char name[64];
	unsigned port;
};

static struct known known[256];
static size_t n_known;

static void
note(const struct cluster_change *c)
{
	size_t i = 0;

	while (i < n_known && strcmp(known[i].name, c->name) < 0)
		i++;
	if (i < n_known && strcmp(known[i].name, c->name) == 0) {
		if (c->view == NULL)
			memmove(known + i, known + i + 1, (--n_known - i) * sizeof *known);
		else
			known[i].port = c->view->ports[0].port;
		return;
	}
	if (c->view == NULL)
		return;
	memmove(known + i + 1, known + i, (n_known++ - i) * sizeof *known);
	snprintf(known[i].name, sizeof known[i].name, "%s", c->name);
	known[i].port = c->view->ports[0].port;
}

static void
on_changed(void *arg)
{
	struct bed *b = arg;
	struct cluster_change change;
	size_t used = 0;

	b->n_changed++;
	while (cluster_next_change(b->cluster, &change)) {
		note(&change);
		cluster_change_fini(&change);
	}
	b->services[0] = '\0';
	for (size_t i = 0; i < n_known; i++)
		used += (size_t)snprintf(b->services + used, sizeof b->services - used, "%s:%u ",
			known[i].name, known[i].port);
}

static void
wait_services(struct bed *b, const char *want)
{
	for (unsigned turns = 0; strcmp(b->services, want) != 0 && turns < PATIENCE_TURNS; turns++)
		patience_turn(b->loop);
	assert_string_equal(b->services, want);
}

static void
idle(struct bed *b, unsigned ms)
{
	uint64_t end = mono_ms() + ms;

	while (mono_ms() < end)
		patience_turn(b->loop);
}

static char *
path_of(struct bed *b, const char *name)
{
	return xasprintf("%s/%s", b->folder, name);
}

static void
put(struct bed *b, const char *name, const char *text)
{
	auto_free char *path = path_of(b, name);
	FILE *f = fopen(path, "w"); /* in place: not the atomic way */

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void
take_away(struct bed *b, const char *name)
{
	auto_free char *path = path_of(b, name);

	assert_int_equal(unlink(path), 0);
}

#define SERVICE(name, port)                                                                        \
	"apiVersion: v1\nkind: Service\nmetadata: {name: " name "}\nspec: {ports: [{port: " port   \
	"}]}\n"

static void
start(struct bed *b)
{
	struct manifests_config config = {b->folder, b->cluster, on_changed, b, b->data_dir};
	struct err err = {0};

	assert_int_equal(manifests_start(&b->manifests, b->loop, &config, &err), 0);
}

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	const char *tmp = getenv("TMPDIR");
	struct err err = {0};

	n_known = 0;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	snprintf(b->dir, sizeof b->dir, "%.40s/manifests-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(b->dir));
	b->folder = xasprintf("%s/m", b->dir);
	assert_int_equal(mkdir(b->folder, 0755), 0);
	assert_int_equal(loop_new(&b->loop, &err), 0);
	b->cluster = cluster_new();
	*state = b;
	return 0;
}

static void
remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		auto_free char *inner = xasprintf("%s/%s", path, d->d_name);

		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
			unlink(inner) < 0)
			remove_tree(inner);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	manifests_stop(&b->manifests);
	cluster_free(&b->cluster);
	loop_free(&b->loop);
	remove_tree(b->dir);
	free(b->folder);
	free(b->data_dir);
	free(b);
	return 0;
}

static void
names_that_are_read(void **state)
{
	(void)state;
	assert_true(manifest_name_ok("a.yaml"));
	assert_true(manifest_name_ok("a.b.yml"));
	assert_true(manifest_name_ok("a.json"));
	assert_false(manifest_name_ok(".a.yaml"));
	assert_false(manifest_name_ok(".a.yaml.swp"));
	assert_false(manifest_name_ok("a.yaml~"));
	assert_false(manifest_name_ok("#a.yaml#"));
	assert_false(manifest_name_ok("#a.yaml"));
	assert_false(manifest_name_ok("a.yaml.tmp.12"));
	assert_false(manifest_name_ok("4913"));
	assert_false(manifest_name_ok("yaml"));
	assert_false(manifest_name_ok(""));
}

static void
what_is_there_is_read_at_once(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", SERVICE("one", "1") "---\n" SERVICE("two", "2"));
	put(b, "b.json",
		"{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"three\"},"
		"\"spec\":{\"ports\":[{\"port\":3}]}}");
	put(b, ".hidden.yaml", SERVICE("four", "4"));
	put(b, "README", "no manifest");
	start(b);
	assert_true(manifests_ready(b->manifests));
	assert_string_equal(b->services, "one:1 three:3 two:2 ");
}

static void
changes_are_taken_up(void **state)
{
	struct bed *b = *state;
	auto_free char *from = path_of(b, "a.yaml"), *to = path_of(b, "z.yml");

	start(b);
	assert_string_equal(b->services, "");
	put(b, "a.yaml", SERVICE("one", "1"));
	wait_services(b, "one:1 ");
	put(b, "a.yaml", SERVICE("one", "11") "---\n" SERVICE("two", "2"));
	wait_services(b, "one:11 two:2 ");
	put(b, "a.yaml", SERVICE("two", "2"));
	wait_services(b, "two:2 ");
	assert_int_equal(rename(from, to), 0);
	idle(b, 400);
	assert_string_equal(b->services, "two:2 ");
	take_away(b, "z.yml");
	wait_services(b, "");
}

/* An editor that moves the old file away before it writes the new one. */
static void
a_file_that_is_gone_for_a_moment_counts(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", SERVICE("one", "1"));
	start(b);
	take_away(b, "a.yaml");
	idle(b, 50);
	assert_string_equal(b->services, "one:1 ");
	put(b, "a.yaml", SERVICE("one", "2"));
	wait_services(b, "one:2 ");
	idle(b, 300);
	assert_string_equal(b->services, "one:2 ");
}

static void
assert_problem(struct bed *b, const char *what)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	manifests_state(b->manifests, &out);
	if (strstr(buf_str(&out), what) == NULL)
		fail_msg("%s does not say %s", buf_str(&out), what);
}

static void
a_broken_file_keeps_what_it_said(void **state)
{
	struct bed *b = *state;
	auto_free char *where = NULL;

	put(b, "a.yaml", SERVICE("one", "1"));
	put(b, "b.yaml", SERVICE("two", "2"));
	start(b);
	put(b, "a.yaml", SERVICE("one", "9") "\tnot: [yaml");
	put(b, "b.yaml", SERVICE("two", "3"));
	wait_services(b, "one:1 two:3 ");
	where = xasprintf("%s/a.yaml:", b->folder);
	assert_problem(b, where);
	put(b, "a.yaml", SERVICE("one", "4"));
	wait_services(b, "one:4 two:3 ");
	assert_problem(b, "\"file\":\"a.yaml\",\"objects\":1,\"problem\":\"\"");
}

static void
a_file_broken_from_the_start_leaves_the_others(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", "kind: [");
	put(b, "b.yaml", SERVICE("two", "2"));
	start(b);
	assert_true(manifests_ready(b->manifests));
	assert_string_equal(b->services, "two:2 ");
}

static void
an_empty_file_keeps_what_it_said(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", SERVICE("one", "1"));
	start(b);
	put(b, "a.yaml", "");
	idle(b, 100);
	assert_problem(b, "empty");
	put(b, "a.yaml", "# nothing here\n---\n");
	idle(b, 100);
	assert_string_equal(b->services, "one:1 ");
	/* An empty list is not nothing: somebody says that there are none. */
	put(b, "a.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
	wait_services(b, "");
}

static void
a_wrong_object_leaves_the_others(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml",
		SERVICE("one", "1") "---\n" SERVICE("bad", "99999") "---\n" SERVICE("two", "2"));
	start(b);
	assert_string_equal(b->services, "one:1 two:2 ");
	assert_problem(b, "a.yaml:");
}

static void
an_object_that_became_wrong_stays_as_it_was(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml",
		SERVICE("one", "1") "---\n" SERVICE("two", "2") "---\n" SERVICE("three", "3"));
	start(b);
	put(b, "a.yaml", SERVICE("one", "11") "---\n" SERVICE("two", "99999"));
	wait_services(b, "one:11 two:2 ");
	put(b, "a.yaml",
		SERVICE("one", "12") "---\napiVersion: v1\nkind: List\nitems:\n- kind: Service\n"
				     "  apiVersion: v1\n  metadata: {name: two}\n  spec: {ports: "
				     "[{port: nonsense}]}\n");
	wait_services(b, "one:12 two:2 ");
	put(b, "a.yaml", SERVICE("one", "12"));
	wait_services(b, "one:12 ");
}

static void
wait_problem(struct bed *b, const char *want)
{
	uint64_t end = mono_ms() + 2 * MANIFESTS_KEEP_AGAIN_MS;
	bool found = false;

	while (!found && mono_ms() < end) {
		auto_buf struct buf state;

		idle(b, 20);
		buf_init(&state, BUF_UNLIMITED);
		manifests_state(b->manifests, &state);
		found = strstr(buf_str(&state), want) != NULL;
	}
	assert_true(found);
}

static void
the_first_of_two_files_counts(void **state)
{
	struct bed *b = *state;

	put(b, "b.yaml", SERVICE("one", "2"));
	start(b);
	assert_string_equal(b->services, "one:2 ");
	put(b, "c.yaml", SERVICE("one", "3"));
	wait_problem(
		b, "c.yaml:1: Service default/one is defined in b.yaml:1, too: that one counts");
	assert_string_equal(b->services, "one:2 ");
	put(b, "a.yaml", SERVICE("one", "1"));
	wait_services(b, "one:1 ");
	take_away(b, "a.yaml");
	wait_services(b, "one:2 ");
	put(b, "b.yaml", SERVICE("other", "9"));
	wait_services(b, "one:3 other:9 ");
}

static void
the_first_of_two_in_a_file_counts(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", SERVICE("one", "1") "---\n" SERVICE("one", "2"));
	start(b);
	assert_string_equal(b->services, "one:1 ");
	wait_problem(b, "a.yaml:6: Service default/one is defined in line 1, too: that one counts");
}

static void
a_misspelt_kind_keeps_what_was_said(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", SERVICE("one", "1"));
	start(b);
	put(b, "a.yaml", "apiVersion: v1\nkind: Servce\nmetadata: {name: one}\n");
	wait_problem(b, "a.yaml:2: kind 'Servce' is not known: is Service meant?");
	assert_string_equal(b->services, "one:1 ");
}

/* libyaml names no tab. */
static void
a_tab_is_told(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", "apiVersion: v1\nkind: Service\nmetadata:\n\tname: one\n");
	start(b);
	wait_problem(b, "a.yaml:4: a tab indents the line: YAML wants spaces");
}

static void
a_missing_folder_is_waited_for(void **state)
{
	struct bed *b = *state;

	rmdir(b->folder);
	start(b);
	assert_false(manifests_ready(b->manifests));
	assert_int_equal(b->n_changed, 0);
	assert_int_equal(mkdir(b->folder, 0755), 0);
	put(b, "a.yaml", SERVICE("one", "1"));
	wait_services(b, "one:1 ");
	assert_true(manifests_ready(b->manifests));
}

static void
a_folder_that_goes_away_leaves_its_content(void **state)
{
	struct bed *b = *state;
	auto_free char *aside = xasprintf("%s/aside", b->dir);

	put(b, "a.yaml", SERVICE("one", "1"));
	put(b, "b.yaml", SERVICE("two", "2"));
	start(b);
	assert_int_equal(rename(b->folder, aside), 0);
	idle(b, 400);
	assert_string_equal(b->services, "one:1 two:2 ");
	assert_int_equal(mkdir(b->folder, 0755), 0);
	put(b, "a.yaml", SERVICE("one", "3"));
	wait_services(b, "one:3 ");
	put(b, "c.yaml", SERVICE("three", "3"));
	wait_services(b, "one:3 three:3 ");
}

static void
link_to(struct bed *b, const char *target, const char *name)
{
	auto_free char *path = path_of(b, name);

	assert_int_equal(symlink(target, path), 0);
}

/* As the kubelet swaps the content of a mounted ConfigMap. */
static void
swapped_links_are_followed(void **state)
{
	struct bed *b = *state;
	auto_free char *first = path_of(b, "..1"), *second = path_of(b, "..2");
	auto_free char *temp = path_of(b, "..data_tmp"), *data = path_of(b, "..data");

	assert_int_equal(mkdir(first, 0755), 0);
	assert_int_equal(mkdir(second, 0755), 0);
	put(b, "..1/a.yaml", SERVICE("one", "1"));
	put(b, "..2/a.yaml", SERVICE("one", "2"));
	link_to(b, "..1", "..data");
	link_to(b, "..data/a.yaml", "a.yaml");
	start(b);
	assert_string_equal(b->services, "one:1 ");
	link_to(b, "..2", "..data_tmp");
	assert_int_equal(rename(temp, data), 0);
	wait_services(b, "one:2 ");
}

static void
links_are_taken_up_when_they_are_made(void **state)
{
	struct bed *b = *state;
	auto_free char *outside = xasprintf("%s/outside.yaml", b->dir);
	auto_free char *soft = path_of(b, "soft.yaml"), *hard = path_of(b, "hard.yaml");
	FILE *f = fopen(outside, "w");

	assert_non_null(f);
	assert_true(fputs(SERVICE("one", "1"), f) >= 0);
	assert_int_equal(fclose(f), 0);
	start(b);
	assert_int_equal(symlink("../outside.yaml", soft), 0);
	wait_services(b, "one:1 ");
	take_away(b, "soft.yaml");
	wait_services(b, "");
	assert_int_equal(link(outside, hard), 0);
	wait_services(b, "one:1 ");
}

static void
a_list_that_is_none_keeps_what_was_said(void **state)
{
	struct bed *b = *state;

	put(b, "a.yaml", SERVICE("one", "1"));
	start(b);
	put(b, "a.yaml", "apiVersion: v1\nkind: List\nitems: {name: one}\n");
	put(b, "b.yaml", SERVICE("two", "2"));
	wait_services(b, "one:1 two:2 ");
	assert_problem(b, "items: a list expected");
}

static void
a_huge_file_is_refused(void **state)
{
	struct bed *b = *state;
	auto_free char *path = path_of(b, "a.yaml");

	put(b, "a.yaml", SERVICE("one", "1"));
	start(b);
	assert_int_equal(truncate(path, MANIFEST_FILE_MAX + 1), 0);
	put(b, "b.yaml", SERVICE("two", "2"));
	manifests_stop(&b->manifests);
	n_known = 0;
	cluster_free(&b->cluster);
	b->cluster = cluster_new();
	start(b);
	assert_string_equal(b->services, "two:2 ");
	assert_problem(b, "larger than 16 MiB");
}

/* Want of descriptors for a moment: the same file is read again though nothing about it has
 * changed. */
static void
a_file_that_could_not_be_read_is_tried_again(void **state)
{
	struct bed *b = *state;
	auto_free char *path = path_of(b, "a.yaml");
	struct manifest_file *f = manifest_file_new("a.yaml");
	struct claims *claims = claims_new();
	struct rlimit limit, none;
	struct stat st;
	const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

	put(b, "a.yaml", SERVICE("one", "1"));
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(manifest_file_load(f, b->folder, b->cluster, claims), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_false(manifest_file_same(f, &st));
	assert_int_equal(manifest_file_load(f, b->folder, b->cluster, claims), 0);
	assert_true(manifest_file_same(f, &st));
	manifest_file_free(&f, b->cluster, claims);
	claims_free(&claims);
}

/* --- copies under dataDir ------------------------------------------------------------------- */

static void
restart(struct bed *b)
{
	manifests_stop(&b->manifests);
	cluster_free(&b->cluster);
	b->cluster = cluster_new();
	n_known = 0;
	start(b);
}

static void
a_restart_forgets_nothing_that_was_good(void **state)
{
	struct bed *b = *state;
	auto_free char *path = path_of(b, "a.yaml");

	b->data_dir = xasprintf("%s/data", b->dir);
	put(b, "a.yaml", SERVICE("one", "1"));
	put(b, "b.yaml", SERVICE("two", "2"));
	start(b);
	put(b, "a.yaml", SERVICE("one", "5"));
	wait_services(b, "one:5 two:2 ");
	put(b, "a.yaml", "{not: [yaml");
	restart(b);
	assert_string_equal(b->services, "one:5 two:2 ");
	assert_problem(b, "\"file\":\"a.yaml\",\"objects\":1,\"problem\":\"");
	restart(b); /* a second time, with what the first one recalled */
	assert_string_equal(b->services, "one:5 two:2 ");
	put(b, "a.yaml", "");
	restart(b);
	assert_string_equal(b->services, "one:5 two:2 ");
	/* Good again while no hub ran: what it says now is all that counts. */
	manifests_stop(&b->manifests);
	put(b, "a.yaml", SERVICE("three", "3"));
	restart(b);
	assert_string_equal(b->services, "three:3 two:2 ");
	/* And a file that was deleted meanwhile takes nothing with it into the next life. */
	manifests_stop(&b->manifests);
	take_away(b, "a.yaml");
	restart(b);
	assert_string_equal(b->services, "two:2 ");
	put(b, "a.yaml", "{not: [yaml");
	restart(b);
	assert_string_equal(b->services, "two:2 ");
	assert_int_equal(access(path, F_OK), 0);
}

static void
a_restart_keeps_objects_that_became_wrong(void **state)
{
	struct bed *b = *state;

	b->data_dir = xasprintf("%s/data", b->dir);
	put(b, "a.yaml", SERVICE("one", "1") "---\n" SERVICE("two", "2"));
	start(b);
	put(b, "a.yaml", SERVICE("one", "70000") "---\n" SERVICE("two", "3"));
	wait_services(b, "one:1 two:3 ");
	restart(b);
	assert_string_equal(b->services, "one:1 two:3 ");
	put(b, "a.yaml", "{not: [yaml");
	restart(b);
	assert_string_equal(b->services, "one:1 two:3 ");
	put(b, "a.yaml", SERVICE("two", "4"));
	wait_services(b, "two:4 ");
	put(b, "a.yaml", "{not: [yaml");
	restart(b);
	assert_string_equal(b->services, "two:4 ");
}

static void
copies_that_cannot_be_written_are_told(void **state)
{
	struct bed *b = *state;
	auto_free char *way = xasprintf("%s/data", b->dir);

	b->data_dir = xasprintf("%s/inner", way);
	assert_int_equal(file_write(way, "", 0, 0600), 0);
	put(b, "a.yaml", SERVICE("one", "1"));
	start(b);
	assert_string_equal(b->services, "one:1 ");
	idle(b, MANIFESTS_KEEP_MS + 500);
	assert_problem(b, "no copy of a.yaml can be kept under dataDir");
}

static bool
is_kept(const struct manifest_keep *keep, const char *file)
{
	auto_free char *text = NULL;
	size_t len;

	text = manifest_keep_read(keep, file, KEEP_WHOLE, &len);
	return text != NULL;
}

/* Nobody touches the file, and another's success does not hide what is missing. A folder lies in
 * the place of one copy. */
static void
copies_that_failed_are_tried_again(void **state)
{
	struct bed *b = *state;
	uint64_t hash = hash64(b->folder, strlen(b->folder), 0);
	auto_free char *way = xasprintf("%s/data/manifests/%016" PRIx64 "/a.yaml", b->dir, hash);
	struct manifest_keep *keep;

	b->data_dir = xasprintf("%s/data", b->dir);
	keep = manifest_keep_open(b->data_dir, b->folder);
	assert_int_equal(mkdir_p(way, 0700), 0);
	put(b, "a.yaml", SERVICE("one", "1"));
	put(b, "b.yaml", SERVICE("two", "2"));
	start(b);
	patience_until(patience_turn(b->loop), is_kept(keep, "b.yaml"));
	assert_problem(b, "no copy of a.yaml can be kept under dataDir");
	assert_int_equal(rmdir(way), 0);
	wait_problem(b, "\"copies_problem\":\"\"");
	assert_true(is_kept(keep, "a.yaml"));
	manifest_keep_close(&keep);
}

/* Not even a restart takes them back; an empty List says that it is meant. A single file is deleted
 * on purpose. */
static void
an_emptied_folder_keeps_its_services(void **state)
{
	struct bed *b = *state;

	b->data_dir = xasprintf("%s/data", b->dir);
	put(b, "a.yaml", SERVICE("one", "1"));
	put(b, "b.yaml", SERVICE("two", "2"));
	put(b, "c.yaml", SERVICE("three", "3"));
	start(b);
	take_away(b, "c.yaml");
	wait_services(b, "one:1 two:2 ");
	take_away(b, "a.yaml");
	take_away(b, "b.yaml");
	wait_problem(b, "all manifests have vanished from the folder; their 2 Services go on");
	assert_int_equal(manifests_broken(b->manifests), 1);
	assert_string_equal(b->services, "one:1 two:2 ");
	manifests_stop(&b->manifests);
	wait_services(b, "one:1 two:2 ");
	start(b);
	wait_problem(b, "all manifests have vanished from the folder; their 2 Services go on");
	assert_string_equal(b->services, "one:1 two:2 ");
	put(b, "a.yaml", SERVICE("one", "1"));
	wait_problem(b, "\"problem\":\"\",\"remedy\":\"\"");
	assert_string_equal(b->services, "one:1 two:2 ");
	wait_services(b, "one:1 ");
	put(b, "b.yaml", SERVICE("two", "2"));
	wait_services(b, "one:1 two:2 ");
	take_away(b, "a.yaml");
	take_away(b, "b.yaml");
	wait_problem(b, "their 2 Services go on");
	put(b, "none.yaml", "kind: List\n");
	wait_services(b, "");
	put(b, "a.yaml", SERVICE("one", "1"));
	wait_services(b, "one:1 ");
	take_away(b, "none.yaml");
	take_away(b, "a.yaml");
	wait_services(b, "");
}

/* A file that comes back and cannot be read yet, as half a copy, says nothing about the others: not
 * while the hub runs, and not when it starts. */
static void
a_broken_file_does_not_end_that(void **state)
{
	struct bed *b = *state;

	b->data_dir = xasprintf("%s/data", b->dir);
	put(b, "a.yaml", SERVICE("one", "1"));
	put(b, "b.yaml", SERVICE("two", "2"));
	start(b);
	wait_services(b, "one:1 two:2 ");
	take_away(b, "a.yaml");
	take_away(b, "b.yaml");
	wait_problem(b, "their 2 Services go on");
	put(b, "a.yaml", "kind: [");
	wait_problem(b, "a.yaml:");
	idle(b, MANIFESTS_GRACE_MS + MANIFESTS_RETURN_MS + 500);
	assert_string_equal(b->services, "one:1 two:2 ");
	restart(b);
	wait_services(b, "one:1 two:2 ");
	idle(b, MANIFESTS_GRACE_MS + 500);
	assert_string_equal(b->services, "one:1 two:2 ");
	put(b, "a.yaml", SERVICE("one", "1"));
	wait_services(b, "one:1 ");
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_are_read),
		case_of(what_is_there_is_read_at_once),
		case_of(changes_are_taken_up),
		case_of(a_file_that_is_gone_for_a_moment_counts),
		case_of(a_broken_file_keeps_what_it_said),
		case_of(a_file_broken_from_the_start_leaves_the_others),
		case_of(an_empty_file_keeps_what_it_said),
		case_of(a_wrong_object_leaves_the_others),
		case_of(an_object_that_became_wrong_stays_as_it_was),
		case_of(the_first_of_two_files_counts),
		case_of(the_first_of_two_in_a_file_counts),
		case_of(a_misspelt_kind_keeps_what_was_said),
		case_of(a_tab_is_told),
		case_of(a_missing_folder_is_waited_for),
		case_of(a_folder_that_goes_away_leaves_its_content),
		case_of(swapped_links_are_followed),
		case_of(links_are_taken_up_when_they_are_made),
		case_of(a_list_that_is_none_keeps_what_was_said),
		case_of(a_huge_file_is_refused),
		case_of(a_file_that_could_not_be_read_is_tried_again),
		case_of(a_restart_forgets_nothing_that_was_good),
		case_of(a_restart_keeps_objects_that_became_wrong),
		case_of(copies_that_cannot_be_written_are_told),
		case_of(copies_that_failed_are_tried_again),
		case_of(an_emptied_folder_keeps_its_services),
		case_of(a_broken_file_does_not_end_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
