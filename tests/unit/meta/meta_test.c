/* A start without a hub, whose disk is not there at first. */
#include "meta/meta.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meta/state/store.h"
#include "model/view.h"
#include "tests/unit/patience.h"

enum { SUBNET = 0x09fb0000, ADDRESS = SUBNET + 7 };

struct world {
	char dir[64], data[80], away[80], database[96];
	struct loop *loop;
	struct meta *meta;
	const struct snapshot *used;
};

static void
world_forget(struct world *w)
{
	if (w->used != NULL)
		snapshot_unref((struct snapshot **)(uintptr_t)&w->used);
}

static void
on_use(void *arg, const struct snapshot *snapshot)
{
	struct world *w = arg;

	world_forget(w);
	w->used = snapshot_ref(snapshot);
}

static void
open_agent(struct world *w)
{
	static const char *const urls[] = {"wss://127.0.0.1:1", NULL};
	const struct meta_config config = {.loop = w->loop,
		.data_dir = w->data,
		.node = "edge-1",
		.subnet = SUBNET,
		.mask = 0xffff0000,
		.hub_urls = urls,
		.ca = "",
		.cert = "",
		.key = "",
		.token = "",
		.node_id = "",
		.proxy = "",
		.cluster_domain = "cluster.local"};

	assert_int_equal(meta_open(&w->meta, &config, on_use, w, NULL), 0);
}

static bool
state_says(struct world *w, const char *text)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	meta_state(w->meta, &out);
	return strstr(buf_str(&out), text) != NULL;
}

static void
fill(struct world *w)
{
	char empty[] = "", ns[] = "shop", name[] = "web", http[] = "http";
	struct view_port port = {.name = http, .port = 80, .mode = PORT_HTTP};
	struct view v = {.ns = ns,
		.name = name,
		.cluster_ip = empty,
		.external_name = empty,
		.n_ports = 1,
		.ports = &port};
	struct store_report report;
	struct store_batch batch = {0};
	struct store *store;
	auto_buf struct buf view;
	uint64_t digest;

	buf_init(&view, BUF_UNLIMITED);
	digest = view_build(&view, &v);
	assert_int_equal(mkdir_p(w->data, 0700), 0);
	assert_int_equal(store_open(&store, w->database, &report, NULL), 0);
	store_batch_add(&batch,
		&(struct store_op){.kind = STORE_PUT,
			.key = "shop/web",
			.digest = digest,
			.data = buf_str(&view),
			.len = buf_len(&view),
			.ip = ADDRESS});
	store_batch_add(&batch,
		&(struct store_op){.kind = STORE_NOTE, .key = STORE_SYNCED, .data = "1", .len = 1});
	store_batch_add(&batch,
		&(struct store_op){.kind = STORE_NOTE, .key = "site", .data = "east", .len = 4});
	assert_int_equal(store_commit(store, &batch, NULL), 0);
	store_batch_fini(&batch);
	store_close(&store);
}

static int
set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	snprintf(w->dir, sizeof w->dir, "/tmp/edgeway-meta-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->data, sizeof w->data, "%s/data", w->dir);
	snprintf(w->away, sizeof w->away, "%s/away", w->dir);
	snprintf(w->database, sizeof w->database, "%s/edgeway.db", w->data);
	assert_int_equal(loop_new(&w->loop, NULL), 0);
	*state = w;
	return 0;
}

static int
tear_down(void **state)
{
	struct world *w = *state;
	auto_free char *command = xasprintf("rm -rf %s", w->dir);

	meta_stop(&w->meta);
	world_forget(w);
	loop_turn(w->loop);
	loop_free(&w->loop);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

static void
the_disk_comes_late(void **state)
{
	struct world *w = *state;
	const struct service *s;

	fill(w);
	/* a file is in its place: not even a folder can be made */
	assert_int_equal(file_write(w->away, "", 0, 0600), 0);
	assert_int_equal(renameat2(AT_FDCWD, w->data, AT_FDCWD, w->away, RENAME_EXCHANGE), 0);
	open_agent(w);
	assert_int_equal(snapshot_count(w->used), 0);
	assert_false(state_says(w, "\"state\":\"ok\""));
	assert_int_equal(renameat2(AT_FDCWD, w->data, AT_FDCWD, w->away, RENAME_EXCHANGE), 0);
	patience_until(patience_turn(w->loop), snapshot_count(w->used) == 1);
	s = snapshot_find(w->used, "shop", 4, "web", 3);
	assert_non_null(s);
	assert_int_equal(s->fake_ip, ADDRESS);
	assert_true(state_says(w, "\"state\":\"ok\""));
	assert_true(state_says(w, "\"moved_aside\":0"));
	assert_true(state_says(w, "\"site\":\"east\""));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_disk_comes_late, set_up, tear_down),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
