/* The whole of meta/ against a hub that speaks over real websockets and TLS on the loopback. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "meta/meta.h"
#include "tests/unit/meta/client/feed_hub.h"
#include "tests/unit/patience.h"

struct world {
	char dir[64], database[96], url[64], second_url[64];
	struct hub *hub;
	struct loop *loop;
	struct meta *meta;
	const struct snapshot *used; /* what use() gave last */
	unsigned uses;
	const char *token, *node, *domain, *proxy;
	uint32_t subnet, mask;
	unsigned questions; /* of the hub */
	bool answers; /* at once */
	struct meta_question question; /* the last one */
};

static void
on_use(void *arg, const struct snapshot *snapshot)
{
	struct world *w = arg;

	if (w->used != NULL)
		snapshot_unref((struct snapshot **)(uintptr_t)&w->used);
	w->used = snapshot_ref(snapshot);
	w->uses++;
}

static void
on_asked(void *arg, const struct meta_question *question)
{
	struct world *w = arg;

	w->questions++;
	w->question = *question;
	if (w->answers)
		meta_answer(w->meta, question, "{\"known\":true,\"endpoints\":[],\"more\":0}");
}

static int
open_agent(struct world *w, struct err *err)
{
	const char *urls[] = {w->url, w->second_url[0] != '\0' ? w->second_url : NULL, NULL};
	struct meta_config config = {.loop = w->loop,
		.data_dir = w->dir,
		.node = w->node,
		.subnet = w->subnet,
		.mask = w->mask,
		.listen_port = 40001,
		.hub_urls = urls,
		.ca = "",
		.cert = "",
		.key = "",
		.token = w->token,
		.node_id = "",
		.proxy = w->proxy,
		.cluster_domain = w->domain,
		.heartbeat_ms = 1000,
		.asked = on_asked};
	int rc = meta_open(&w->meta, &config, on_use, w, err);

	assert_int_equal(rc, 0);
	return meta_start(w->meta, NULL, 0, err);
}

static void
start_agent(struct world *w)
{
	struct err err = {0};

	if (open_agent(w, &err) < 0)
		fail_msg("%s", err.text);
}

static int
set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct err err;

	snprintf(w->dir, sizeof(w->dir), "/tmp/edgeway-feed-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->database, sizeof(w->database), "%s/edgeway.db", w->dir);
	w->hub = hub_new();
	snprintf(w->url, sizeof(w->url), "wss://127.0.0.1:%u", hub_port(w->hub));
	w->token = hub_token(w->hub);
	w->node = "edge-1";
	w->proxy = "";
	w->domain = "cluster.local";
	w->subnet = 0x09fb0000;
	w->mask = 0xffff0000;
	assert_int_equal(loop_new(&w->loop, &err), 0);
	*state = w;
	return 0;
}

static int
tear_down(void **state)
{
	struct world *w = *state;
	auto_free char *command = xasprintf("rm -rf %s", w->dir);

	meta_stop(&w->meta);
	if (w->used != NULL)
		snapshot_unref((struct snapshot **)(uintptr_t)&w->used);
	loop_free(&w->loop);
	hub_free(&w->hub);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

static void
turn(struct world *w)
{
	patience_turn(w->loop);
}

#define until(w, condition) patience_until(turn(w), condition)

static const struct service *
service(struct world *w, const char *key)
{
	const char *slash = strchr(key, '/');

	if (w->used == NULL)
		return NULL;
	return snapshot_find(w->used, key, (size_t)(slash - key), slash + 1, strlen(slash + 1));
}

static uint32_t
fake_ip(struct world *w, const char *key)
{
	const struct service *s = service(w, key);

	return s != NULL ? s->fake_ip : 0;
}

static unsigned
port_of(struct world *w, const char *key)
{
	const struct service *s = service(w, key);

	return s != NULL && s->ports[0].n_endpoints == 1 ? s->ports[0].endpoints[0].port : 0;
}

static bool
state_says(struct world *w, const char *text)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	meta_state(w->meta, &out);
	return strstr(buf_str(&out), text) != NULL;
}

static bool
synced(struct world *w)
{
	return state_says(w, "\"synced\":true");
}

static void
refuses_without_identity(void **state)
{
	struct world *w = *state;
	struct err err = {0};

	w->token = "";
	assert_int_equal(open_agent(w, &err), -ENOENT);
	assert_non_null(strstr(err.text, "token create"));
	assert_non_null(w->used); /* it serves all the same */
	assert_true(state_says(w, "token create"));
}

static void
refuses_bad_configuration(void **state)
{
	struct world *w = *state;
	struct err err = {0};

	w->token = "1234.secret";
	assert_int_equal(open_agent(w, &err), -EINVAL);
	assert_non_null(strstr(err.text, "hub.token"));
	meta_stop(&w->meta);
	w->token = hub_token(w->hub);
	snprintf(w->url, sizeof(w->url), "wss://hub.default.svc.Cluster.local:10000");
	assert_int_equal(open_agent(w, &err), -EINVAL);
	assert_non_null(strstr(err.text, "inside the cluster domain"));
	meta_stop(&w->meta);
	snprintf(w->url, sizeof(w->url), "ws://hub:10000");
	assert_int_equal(open_agent(w, &err), -EINVAL);
	assert_non_null(strstr(err.text, "wss://"));
}

static void
joins_and_follows(void **state)
{
	struct world *w = *state;
	struct stat st;
	auto_free char *key = xasprintf("%s/node.key", w->dir),
		       *cert = xasprintf("%s/node.crt", w->dir);
	uint32_t web;

	hub_put(w->hub, "default/web", 1);
	hub_put(w->hub, "default/api", 1);
	hub_check_database(w->hub, w->database);
	start_agent(w);
	assert_false(snapshot_synced(w->used));
	until(w, snapshot_synced(w->used) && synced(w));
	assert_int_equal(hub_saw(w->hub).joins, 1);
	assert_int_equal(snapshot_count(w->used), 2);
	web = fake_ip(w, "default/web");
	assert_true(web > 0x09fb0000 && web < 0x09fbffff);
	assert_true(fake_ip(w, "default/api") != web);
	assert_int_equal(stat(key, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(cert, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	until(w, hub_saw(w->hub).acks == 2);

	hub_put(w->hub, "default/web", 2);
	until(w, port_of(w, "default/web") == 30002);
	assert_int_equal(fake_ip(w, "default/web"), web);
	hub_delete(w->hub, "default/api");
	until(w, service(w, "default/api") == NULL);
	until(w, hub_saw(w->hub).acks == 4);
	assert_int_equal(hub_saw(w->hub).acks_too_early, 0);
	assert_int_equal(hub_saw(w->hub).errors, 0);
	assert_true(meta_connected(w->meta));
}

static void
restart_without_hub(void **state)
{
	struct world *w = *state;
	uint32_t ips[20];
	char key[32];
	struct hub_saw before;

	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "ns%d/service-%d", i % 3, i);
		hub_put(w->hub, key, 1);
	}
	start_agent(w);
	until(w, synced(w) && snapshot_count(w->used) == 20 && hub_saw(w->hub).acks == 20);
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "ns%d/service-%d", i % 3, i);
		ips[i] = fake_ip(w, key);
	}
	hub_stop(w->hub);
	until(w, !meta_connected(w->meta));
	assert_int_equal(snapshot_count(w->used), 20);
	meta_stop(&w->meta);
	snapshot_unref((struct snapshot **)(uintptr_t)&w->used);
	w->token = ""; /* the certificate of the join is enough */
	start_agent(w);
	assert_true(snapshot_synced(w->used));
	assert_int_equal(snapshot_count(w->used), 20);
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "ns%d/service-%d", i % 3, i);
		assert_int_equal(fake_ip(w, key), ips[i]);
		assert_int_equal(port_of(w, key), 30001);
	}
	before = hub_saw(w->hub);
	hub_delete(w->hub, "ns0/service-0");
	hub_put(w->hub, "ns1/service-1", 7);
	hub_start(w->hub);
	until(w,
		synced(w) && service(w, "ns0/service-0") == NULL &&
			port_of(w, "ns1/service-1") == 30007);
	assert_int_equal(hub_saw(w->hub).updates_sent,
		before.updates_sent + 1); /* what changed, and no more */
	assert_int_equal(hub_saw(w->hub).deletes_sent, before.deletes_sent + 1);
	assert_int_equal(hub_saw(w->hub).joins, 1);
}

static void
name_returns(void **state)
{
	struct world *w = *state;
	uint32_t ip;

	hub_put(w->hub, "default/web", 1);
	start_agent(w);
	until(w, synced(w) && (ip = fake_ip(w, "default/web")) != 0);
	hub_delete(w->hub, "default/web");
	until(w, service(w, "default/web") == NULL);
	until(w, hub_saw(w->hub).acks == 2);
	meta_stop(&w->meta);
	start_agent(w);
	until(w, synced(w));
	assert_true(state_says(w, "\"resting\":1"));
	hub_put(w->hub, "default/web", 3);
	until(w, port_of(w, "default/web") == 30003);
	assert_int_equal(fake_ip(w, "default/web"), ip);
	assert_true(state_says(w, "\"resting\":0"));
}

static void
garbage(void **state)
{
	static const char *const frames[] = {"", "x", "{}", "[1,2]", "{\"header\":{},\"route\":{}}",
		"\"text\"",
		"{\"header\":{},\"route\":{\"operation\":\"explode\",\"resource\":\"a/b/c\"}}"};
	static const char *const messages[][3] = {
		{"update", "default/service/web", "{}"},
		{"update", "default/service/web", "null"},
		{"update", "default/service/web",
			"{\"ns\":\"default\",\"name\":\"other\",\"ports\":[]}"},
		{"update", "default/service/../../etc", "{}"},
		{"update", "Default/service/web", "{}"},
		{"update", "service", "{}"},
		{"query", "digest/buckets", "{}"},
		{"insert", "node/hello", "[]"},
		{"delete", "/service/", "null"},
	};
	struct world *w = *state;
	unsigned errors;

	hub_put(w->hub, "default/web", 1);
	start_agent(w);
	until(w, synced(w) && snapshot_count(w->used) == 1);
	for (size_t i = 1; i < ARRAY_LEN(frames); i++)
		hub_raw(w->hub, frames[i]);
	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		hub_send(w->hub, messages[i][0], messages[i][1], messages[i][2]);
	errors = ARRAY_LEN(frames) - 1 + ARRAY_LEN(messages);
	until(w, hub_saw(w->hub).errors == errors);
	hub_send(w->hub, "error", "x", "\"whatever\""); /* these are not answered */
	hub_send(w->hub, "response", "x", "\"whatever\"");
	hub_send(w->hub, "keepalive", "x", "\"ping\"");
	assert_int_equal(port_of(w, "default/web"), 30001);
	hub_put(w->hub, "default/web", 5); /* the same connection goes on */
	until(w, port_of(w, "default/web") == 30005);
	assert_int_equal(hub_saw(w->hub).opens, 1);
	assert_int_equal(hub_saw(w->hub).errors, errors);
}

static void
reconnects(void **state)
{
	struct world *w = *state;

	start_agent(w);
	until(w, synced(w));
	for (unsigned i = 2; i < 5; i++) {
		hub_drop(w->hub); /* it offers no ranges: the next connection has none */
		until(w, hub_saw(w->hub).opens == i && synced(w) && !meta_pod_ranges(w->meta)->n);
		hub_put(w->hub, "default/web", i);
		hub_send(w->hub, "update", "node/ranges", "{\"ranges\":[\"10.9.0.0-10.9.0.9\"]}");
		until(w, port_of(w, "default/web") == 30000 + i && meta_pod_ranges(w->meta)->n);
	}
	assert_int_equal(hub_saw(w->hub).joins, 1);
	/* Other CAs are asked for however short connections are; planned ends do not count. */
	hub_other_cas(w->hub, "00", true);
	hub_drop(w->hub);
	until(w, hub_saw(w->hub).joins >= 2 && state_says(w, "\"ends\":4"));
}

static void
token_is_refused(void **state)
{
	struct world *w = *state;

	hub_refuse(w->hub, 401);
	start_agent(w);
	until(w, state_says(w, "token create"));
	assert_int_equal(hub_saw(w->hub).joins, 0);
	assert_false(meta_connected(w->meta));
}

/* Said in words that tell whom to upgrade; what is known is served. */
static void
another_protocol(void **state)
{
	struct world *w = *state;

	hub_put(w->hub, "default/web", 1);
	start_agent(w);
	until(w, synced(w) && hub_saw(w->hub).acks == 1);
	hub_protocol(w->hub, 2);
	hub_drop(w->hub);
	until(w, state_says(w, "the hub speaks protocol 2, this agent 1: upgrade the agent"));
	until(w, !meta_connected(w->meta));
	assert_int_equal(port_of(w, "default/web"), 30001);
	meta_stop(&w->meta);
	hub_protocol(w->hub, 0);
	start_agent(w);
	until(w, state_says(w, "upgrade the hub"));
	meta_stop(&w->meta);
	hub_refuse(w->hub, 426); /* the hub was the first to say no */
	start_agent(w);
	until(w, state_says(w, "another protocol than this agent: upgrade the older one"));
	meta_stop(&w->meta);
	hub_refuse(w->hub, 0);
	hub_protocol(w->hub, 1);
	start_agent(w);
	until(w, synced(w));
	assert_int_equal(hub_saw(w->hub).errors, 0);
}

/* The first of two is dead: the second serves, for joining too, until the first one lives. */
static void
second_hub(void **state)
{
	struct world *w = *state;

	memcpy(w->second_url, w->url, sizeof(w->url));
	snprintf(w->url, sizeof(w->url), "wss://127.0.0.1:1");
	hub_put(w->hub, "default/web", 1);
	start_agent(w);
	until(w, synced(w) && port_of(w, "default/web") == 30001);
	assert_true(state_says(w, w->second_url));
	meta_stop(&w->meta);
	snprintf(w->url, sizeof(w->url), "wss://localhost:%u", hub_port(w->hub));
	start_agent(w);
	until(w, synced(w));
	assert_true(state_says(w, w->url));
	assert_int_equal(hub_saw(w->hub).joins, 1);
}

static void
another_ca_is_refused(void **state)
{
	struct world *w = *state;
	auto_free char *token = xasprintf("%064d.secret-of-the-test", 7);

	w->token = token;
	start_agent(w);
	until(w, !state_says(w, "\"error\":\"\""));
	assert_int_equal(hub_saw(w->hub).joins, 0);
}

static void
certificate_of_another_node(void **state)
{
	struct world *w = *state;
	struct err err = {0};

	start_agent(w);
	until(w, synced(w));
	meta_stop(&w->meta);
	w->node = "edge-2";
	assert_int_equal(open_agent(w, &err), -EPERM);
	assert_non_null(strstr(err.text, "is for node \"edge-1\", this node is \"edge-2\""));
}

static void
hub_is_late_and_moves(void **state)
{
	struct world *w = *state;
	uint64_t end = mono_ms() + 700;

	hub_stop(w->hub);
	start_agent(w);
	while (mono_ms() < end)
		turn(w);
	assert_true(state_says(w, "\"joined\":false"));
	hub_address(w->hub, "127.0.0.77"); /* where nobody listens: it comes back */
	hub_start(w->hub);
	until(w, synced(w));
	meta_move(w->meta);
	until(w, !synced(w));
	until(w, synced(w));
}

static void
site_changes(void **state)
{
	struct world *w = *state;
	char key[32];

	for (int i = 0; i < 600; i++) { /* more than one portion of the scan */
		snprintf(key, sizeof(key), "default/service-%d", i);
		hub_put(w->hub, key, 1);
	}
	hub_site(w->hub, "east");
	start_agent(w);
	until(w,
		synced(w) && snapshot_count(w->used) == 600 &&
			port_of(w, "default/service-599") == 30001);
	hub_site(w->hub, "west"); /* private addresses of the east mean nothing here */
	hub_drop(w->hub);
	until(w, port_of(w, "default/service-0") == 0 && port_of(w, "default/service-599") == 0);
	meta_stop(&w->meta);
	hub_stop(w->hub);
	start_agent(w);
	assert_int_equal(port_of(w, "default/service-300"), 0); /* remembered */
	assert_int_equal(snapshot_count(w->used), 600);
}

/* Nothing can be written: in use and acknowledged at once, on the disk as soon as that works. */
static void
disk_is_full(void **state)
{
	struct world *w = *state;
	struct rlimit before, none = {.rlim_cur = 1};
	unsigned acks;
	uint32_t api, again;

	hub_put(w->hub, "default/web", 1);
	start_agent(w);
	until(w, synced(w) && hub_saw(w->hub).acks == 1);
	acks = hub_saw(w->hub).acks;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	hub_put(w->hub, "default/web", 2);
	hub_put(w->hub, "default/api", 2);
	until(w, port_of(w, "default/web") == 30002 && port_of(w, "default/api") == 30002);
	hub_delete(w->hub, "default/web");
	until(w, service(w, "default/web") == NULL);
	until(w, hub_saw(w->hub).acks == acks + 3);
	assert_true(state_says(w, "\"state\":\"failing\""));
	assert_int_equal(meta_keep_put(w->meta, "x", "y", 1) < 0, 1);
	for (unsigned i = 3; i < 303; i++) { /* more than the hub's window, and one entry here */
		hub_put(w->hub, "default/api", i);
		until(w, port_of(w, "default/api") == 30000 + i);
	}
	hub_put(w->hub, "default/again", 1);
	hub_delete(w->hub, "default/again");
	hub_put(w->hub, "default/again", 2);
	until(w, port_of(w, "default/again") == 30002);
	until(w, hub_saw(w->hub).acks == acks + 3 + 300 + 3);
	assert_true(state_says(w, "\"state\":\"failing\""));
	assert_false(state_says(w, "\"waiting\":0,"));
	api = fake_ip(w, "default/api");
	again = fake_ip(w, "default/again");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	until(w, state_says(w, "\"waiting\":0") && state_says(w, "\"state\":\"ok\""));
	assert_int_equal(meta_keep_put(w->meta, "x", "y", 1), 0);
	meta_stop(&w->meta);
	hub_stop(w->hub);
	start_agent(w); /* all of it is on the disk */
	assert_int_equal(snapshot_count(w->used), 2);
	assert_int_equal(port_of(w, "default/api"), 30302);
	assert_int_equal(port_of(w, "default/again"), 30002);
	assert_int_equal(fake_ip(w, "default/api"), api);
	assert_int_equal(fake_ip(w, "default/again"), again);
	assert_null(service(w, "default/web"));
}

/* The file is replaced by rubbish while we run: same addresses, all is asked from the hub again. */
static void
database_is_lost(void **state)
{
	struct world *w = *state;
	auto_free char *rubbish = xasprintf("%s/rubbish", w->dir),
		       *wal = xasprintf("%s-wal", w->database);
	struct rlimit before, none = {.rlim_cur = 1};
	unsigned sent;
	uint32_t web, api;

	hub_put(w->hub, "default/web", 1);
	hub_put(w->hub, "default/api", 1);
	hub_put(w->hub, "default/old", 1);
	start_agent(w);
	until(w, synced(w) && hub_saw(w->hub).acks == 3 && snapshot_count(w->used) == 3);
	web = fake_ip(w, "default/web");
	api = fake_ip(w, "default/api");
	sent = hub_saw(w->hub).updates_sent;
	assert_int_equal(file_write(rubbish, "this is not a database", 22, 0600), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	hub_put(w->hub, "default/web", 2);
	until(w, state_says(w, "\"state\":\"failing\"") && port_of(w, "default/web") == 30002);
	assert_int_equal(rename(rubbish, w->database), 0);
	unlink(wal);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	until(w, state_says(w, "\"moved_aside\":1") && state_says(w, "\"state\":\"ok\""));
	until(w, hub_saw(w->hub).updates_sent >= sent + 1 + 3 && state_says(w, "\"waiting\":0"));
	hub_delete(w->hub, "default/old");
	until(w, service(w, "default/old") == NULL && state_says(w, "\"waiting\":0"));
	meta_stop(&w->meta);
	hub_stop(w->hub);
	start_agent(w);
	assert_int_equal(snapshot_count(w->used), 2);
	assert_int_equal(fake_ip(w, "default/web"), web);
	assert_int_equal(fake_ip(w, "default/api"), api);
	assert_int_equal(port_of(w, "default/web"), 30002);
}

static void
small_subnet(void **state)
{
	struct world *w = *state;
	uint32_t last;

	w->mask = 0xfffffffc; /* two addresses */
	hub_put(w->hub, "default/a", 1);
	hub_put(w->hub, "default/b", 1);
	start_agent(w);
	until(w, synced(w) && snapshot_count(w->used) == 2);
	hub_put(w->hub, "default/c", 1);
	until(w, service(w, "default/c") != NULL && hub_saw(w->hub).acks == 3);
	assert_int_equal(fake_ip(w, "default/c"), 0);
	assert_true(state_says(w, "\"services_without\":1"));
	hub_delete(w->hub, "default/b");
	until(w, service(w, "default/b") == NULL);
	hub_put(w->hub, "default/c", 2); /* b's address rests */
	until(w, port_of(w, "default/c") == 30002);
	assert_int_equal(fake_ip(w, "default/c"), 0);
	until(w, hub_saw(w->hub).acks == 5);
	meta_stop(&w->meta);
	hub_stop(w->hub);

	w->subnet =
		/* the operator chooses another range: everyone moves, and stays there */
		0x0a0a0000;
	w->mask = 0xffffff00;
	start_agent(w);
	last = fake_ip(w, "default/c");
	assert_true(last > 0x0a0a0000 && last < 0x0a0a00ff);
	assert_int_equal(fake_ip(w, "default/a") & w->mask, w->subnet);
	meta_stop(&w->meta);
	start_agent(w);
	assert_int_equal(fake_ip(w, "default/c"), last);
	assert_int_equal(snapshot_count(w->used), 2);
}

/* Every name has the address 127.0.0.1, as far as this server of DNS knows. */
static void
on_question(void *arg, int fd, unsigned events)
{
	static const uint8_t rr[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1};
	struct addr from = {.len = sizeof(from.in)};
	uint8_t m[512];
	size_t end = 12;
	ssize_t n = recvfrom(fd, m, sizeof(m) - sizeof(rr), 0, &from.sa, &from.len);

	(void)arg;
	(void)events;
	while (n > 12 && end < (size_t)n && m[end] != 0)
		end += m[end] + 1u;
	end += 5;
	m[2] |= 0x80;
	m[3] = 0x80;
	m[11] = 0;
	m[7] = m[end - 3] == 1; /* A */
	memcpy(m + end, rr, sizeof(rr));
	sendto(fd, m, end + (m[7] ? sizeof(rr) : 0), 0, &from.sa, from.len);
}

static void
open_server(int *fd, struct addr *at)
{
	struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);

	assert_int_equal(sock_udp(&any, 0, fd, NULL), 0);
	at->len = sizeof(at->in);
	assert_int_equal(getsockname(*fd, &at->sa, &at->len), 0);
}

/* First nobody can be asked, then somebody who says nothing, then somebody who knows. */
static void
upstreams_change(void **state)
{
	struct world *w = *state;
	struct addr silent, knows;
	auto_fd int silent_fd = -1, fd = -1;
	struct watch *watch;

	hub_put(w->hub, "default/web", 1);
	snprintf(w->url, sizeof(w->url), "wss://hub.example.test:%u", hub_port(w->hub));
	open_server(&silent_fd, &silent);
	open_server(&fd, &knows);
	watch = watch_start(w->loop, fd, WATCH_READ, on_question, w);
	start_agent(w);
	until(w, state_says(w, "cannot resolve the hub's name"));
	meta_use_upstreams(w->meta, &silent, 1);
	for (unsigned i = 0; i < 100; i++) {
		loop_turn(w->loop);
		usleep(1000);
	}
	assert_false(synced(w));
	meta_use_upstreams(w->meta, &knows, 1);
	until(w, synced(w) && service(w, "default/web") != NULL);
	meta_use_upstreams(w->meta, &silent, 1); /* of no concern while connected */
	assert_true(synced(w));
	watch_stop(&watch);
}

/* Its kernel accepts, and nobody answers: the other one is tried before long. */
static void
hub_is_frozen(void **state)
{
	struct world *w = *state;
	struct addr at = addr_ipv4(INADDR_LOOPBACK, 0);
	auto_fd int frozen = -1;

	hub_put(w->hub, "default/web", 1);
	assert_int_equal(sock_listen(&at, 0, &frozen, NULL), 0);
	assert_int_equal(getsockname(frozen, &at.sa, &at.len), 0);
	memcpy(w->second_url, w->url, sizeof w->url);
	snprintf(w->url, sizeof w->url, "wss://127.0.0.1:%u", addr_port(&at));
	start_agent(w);
	until(w, state_says(w, "others may be quicker"));
	assert_false(state_says(w, "within 5000 ms"));
	until(w, synced(w) && service(w, "default/web") != NULL);
}

/* A question is for the agent, and its answer for the hub; what makes no sense is refused. */
static void
questions(void **state)
{
	struct world *w = *state;
	unsigned errors;

	hub_put(w->hub, "shop/db-0.db", 1);
	start_agent(w);
	until(w, synced(w));
	w->answers = true;
	errors = hub_saw(w->hub).errors;
	hub_send(w->hub, "query", "shop/health/db-0.db", "null");
	until(w, hub_saw(w->hub).answers == 1);
	assert_string_equal(w->question.service.ns, "shop");
	assert_string_equal(w->question.service.name, "db-0.db");
	hub_send(w->hub, "query", "shop/health/", "null");
	hub_send(w->hub, "query", "shop/secret/x", "null");
	until(w, hub_saw(w->hub).errors == errors + 2);
	assert_non_null(strstr(hub_saw(w->hub).error, "<namespace>/health/<name>"));
	/* One that is answered on another connection than it came by. */
	w->answers = false;
	hub_send(w->hub, "query", "shop/health/x", "null");
	until(w, w->questions == 2);
	hub_drop(w->hub);
	until(w, !synced(w));
	until(w, synced(w));
	meta_answer(w->meta, &w->question, "{}");
	hub_put(w->hub, "default/later", 1);
	until(w, service(w, "default/later") != NULL);
	assert_int_equal(hub_saw(w->hub).answers, 1);
}

/* A hub that asks without end is told so, and keeps the connection. */
static void
questions_without_end(void **state)
{
	struct world *w = *state;

	start_agent(w);
	until(w, synced(w));
	for (int i = 0; i < 300; i++)
		hub_send(w->hub, "query", "default/health/web", "null");
	until(w, hub_saw(w->hub).errors == 300 - 32);
	assert_int_equal(w->questions, 32);
	assert_int_equal(hub_saw(w->hub).closes, 0);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(refuses_without_identity),
		CASE(refuses_bad_configuration),
		CASE(joins_and_follows),
		CASE(restart_without_hub),
		CASE(name_returns),
		CASE(garbage),
		CASE(reconnects),
		CASE(token_is_refused),
		CASE(another_protocol),
		CASE(second_hub),
		CASE(another_ca_is_refused),
		CASE(certificate_of_another_node),
		CASE(hub_is_late_and_moves),
		CASE(site_changes),
		CASE(disk_is_full),
		CASE(database_is_lost),
		CASE(small_subnet),
		CASE(upstreams_change),
		CASE(hub_is_frozen),
		CASE(questions),
		CASE(questions_without_end),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
