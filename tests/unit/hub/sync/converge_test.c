/*
 * Random histories: objects of the source come, change and go, lines are cut, hub and agents
 * restart and crash, frames are late and come twice, disks are full for a while, some services are
 * for some nodes only and labels of nodes change. The hub's sessions, the agents with their
 * databases and everything between are the real ones, on tests/fake/net's clock. Now and then all
 * is left alone for a while; then every agent must hold exactly the views that a cluster made anew
 * of the objects gives. An address never changes while its service stays.
 *
 * EDGEWAY_SEEDS: how many histories (8), EDGEWAY_SEED: the first one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/tls/pki.h"
#include "hub/sync/node_session.h"
#include "meta/meta.h"
#include "model/envelope.h"
#include "tests/fake/net.h"

enum {
	AGENTS = 3,
	SERVICES = 10,
	PODS = 16,
	SLICES = 10,
	NODES = AGENTS,
	OBJECTS = SERVICES + PODS + SLICES + NODES,
	STEPS = 150,
	CALM_MS = 150 * 1000, /* two back-offs, a window's time-out, and no periodic check */
	TICK_MS = 5000,
	CATCH_UP_MS = 2000,
};

struct seen { /* a service as the agent gave it to its users last */
	char key[160];
	uint64_t digest;
	uint32_t ip;
};

struct agent {
	char name[16], *dir;
	struct meta *meta;
	struct seen seen[256];
	size_t n_seen;
	bool cut;
	struct node_session *session; /* the hub's */
	struct ws_conn *conn;
};

struct world {
	char dir[64];
	struct agent agents[AGENTS];
	unsigned version[OBJECTS]; /* 0: not there */
	struct cluster *cluster;
	struct fanout *fanout;
	struct node_session_stats stats;
	bool up, ready;
	struct timer *tick;
	char *eaten[8]; /* acknowledgements of what was swallowed */
	size_t n_eaten;
	unsigned n_checks, n_hidden; /* services that an agent was not to know of */
	uint64_t seed, simulated_ms, frames, refused;
};

/* --- the source ----------------------------------------------------------------------------- */

static const char *const namespaces[] = {"default", "shop"};
static const char *const selectors[] = {"", "tier=t0", "tier in (t0, t1)", "tier!=t1", "!tier"};

static char *
object_text(unsigned i, unsigned version)
{
	const char *ns = namespaces[i % 2];

	if (i < SERVICES && i % 5 == 4)
		return xasprintf(
			"{apiVersion: v1, kind: Service, metadata: {name: s%u, namespace: %s}, "
			"spec: {clusterIP: None, selector: {app: a%u}, ports: [{name: http, "
			"port: %u, targetPort: 8080}]}}",
			i, ns, i % 4, 80 + version % 3);
	if (i < SERVICES)
		return xasprintf(
			"{apiVersion: v1, kind: Service, metadata: {name: s%u, namespace: %s, "
			"annotations: {edgeway.io/nodes: \"%s\"}}, spec: {selector: {app: a%u}, "
			"ports: [{name: http, port: %u, targetPort: 8080}]}}",
			i, ns, i % 2 == 0 ? "" : selectors[version % ARRAY_LEN(selectors)],
			(i + version) % 4, 80 + version % 3);
	if (i < SERVICES + PODS)
		return xasprintf(
			"{apiVersion: v1, kind: Pod, metadata: {name: p%u, namespace: %s, labels: "
			"{app: a%u}}, spec: {hostname: h%u, subdomain: s4, nodeName: n%u, "
			"containers: [{ports: [{containerPort: 8080, hostPort: %u}]}]}, status: "
			"{phase: Running, hostIP: 192.0.2.%u, podIP: 172.17.0.%u}}",
			i, ns, (i + version) % 4, i, i % 3, 30000 + i, i % 3 + 1,
			version % 200 + 1);
	if (i >= OBJECTS - NODES)
		return xasprintf(
			"{apiVersion: v1, kind: Node, metadata: {name: edge-%u, labels: {tier: "
			"t%u, other: o%u}}}",
			i - (OBJECTS - NODES), version % 3, version % 2);
	return xasprintf(
		"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, "
		"metadata: "
		"{name: e%u, namespace: %s, labels: {kubernetes.io/service-name: s%u}}, ports: "
		"[{name: http, port: 8080}], endpoints: [{addresses: [198.51.100.%u]}]}",
		i, ns, i - SERVICES - PODS, version % 200 + 1);
}

static void
put_object(struct cluster *c, unsigned i, unsigned version)
{
	auto_free char *text = object_text(i, version);
	struct kube_object *o = NULL;
	struct err err = {0};
	struct tree *t = NULL;

	assert_int_equal(tree_parse(&t, "object", text, strlen(text), &err), 0);
	if (kube_decode(&o, "object", tree_document(t, 0), NULL, &err) != 0)
		fail_msg("%s: %s", err.text, text);
	cluster_put(c, "", &o);
	tree_free(&t);
}

static void
remove_object(struct cluster *c, unsigned i)
{
	char name[16];
	enum kube_kind kind = i < SERVICES ? KUBE_SERVICE
		: i < SERVICES + PODS      ? KUBE_POD
		: i < OBJECTS - NODES      ? KUBE_SLICE
					   : KUBE_NODE;

	if (kind == KUBE_NODE) {
		snprintf(name, sizeof(name), "edge-%u", i - (OBJECTS - NODES));
		assert_true(cluster_remove(c, "", kind, "", name));
		return;
	}
	snprintf(name, sizeof(name), "%c%u", "spe"[(i >= SERVICES) + (i >= SERVICES + PODS)], i);
	assert_true(cluster_remove(c, "", kind, namespaces[i % 2], name));
}

/* --- the hub -------------------------------------------------------------------------------- */

static struct agent *
agent_named(struct world *w, const char *node)
{
	for (int i = 0; i < AGENTS; i++)
		if (strcmp(w->agents[i].name, node) == 0)
			return &w->agents[i];
	fail_msg("no agent %s", node);
	return NULL;
}

static void
on_open(void *arg, struct ws_conn *c, const char *node)
{
	struct world *w = arg;
	struct agent *a = agent_named(w, node);
	const struct node_session_config config = {.fanout = w->fanout,
		.cluster = w->cluster,
		.stats = &w->stats,
		.ca_hash = "",
		.agent = "",
		.node = a->name,
		.site = "",
		.zone = "",
		.cluster_domain = "cluster.local",
		.ready = w->ready,
		.labels = cluster_node_labels(w->cluster, a->name),
		.bundles = a->name[5] != '1'}; /* one is of an older version */

	if (a->session != NULL) { /* as hub/sync/nodes does: the newer one counts */
		node_session_end(a->session, 4001, "replaced");
		node_session_free(&a->session);
	}
	a->conn = c;
	a->session = node_session_new(&config, c);
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct world *w = arg;

	for (int i = 0; i < AGENTS; i++)
		if (w->agents[i].conn == c && w->agents[i].session != NULL)
			node_session_text(w->agents[i].session, text, len);
}

static void
on_closed(void *arg, struct ws_conn *c)
{
	struct world *w = arg;

	for (int i = 0; i < AGENTS; i++) {
		if (w->agents[i].conn != c)
			continue;
		node_session_free(&w->agents[i].session);
		w->agents[i].conn = NULL;
	}
}

static void
on_tick(void *arg)
{
	struct world *w = arg;

	for (int i = 0; i < AGENTS; i++)
		if (w->agents[i].session != NULL)
			node_session_tick(w->agents[i].session, net_now_ms());
}

static void
tell(struct world *w)
{
	struct cluster_change change;

	while (cluster_next_change(w->cluster, &change)) {
		if (change.view == NULL)
			fanout_remove(w->fanout, change.ns, change.name);
		else
			fanout_set(w->fanout, &change);
		cluster_change_fini(&change);
	}
	fanout_settle(w->fanout);
	for (int i = 0; i < AGENTS; i++)
		if (w->agents[i].session != NULL)
			node_session_relabel(w->agents[i].session,
				cluster_node_labels(w->cluster, w->agents[i].name));
}

static void
start_hub(struct world *w)
{
	w->cluster = cluster_new();
	w->fanout = fanout_new();
	w->ready = false;
	w->up = true;
	net_hub_up(true);
}

/* The source is read some time after the start; until then nobody may be told that there is
 * nothing. */
static void
read_source(struct world *w)
{
	if (!w->up || w->ready)
		return;
	for (unsigned i = 0; i < OBJECTS; i++)
		if (w->version[i] != 0)
			put_object(w->cluster, i, w->version[i]);
	tell(w);
	w->ready = true;
	for (int i = 0; i < AGENTS; i++)
		if (w->agents[i].session != NULL)
			node_session_ready(w->agents[i].session);
}

static void
stop_hub(struct world *w)
{
	if (!w->up)
		return;
	for (int i = 0; i < AGENTS; i++) {
		node_session_free(&w->agents[i].session);
		w->agents[i].conn = NULL;
	}
	net_hub_up(false);
	w->up = w->ready = false;
	cluster_free(&w->cluster);
	fanout_free(&w->fanout);
}

/* --- agents --------------------------------------------------------------------------------- */

static const struct seen *
find_seen(const struct agent *a, const char *key)
{
	for (size_t i = 0; i < a->n_seen; i++)
		if (strcmp(a->seen[i].key, key) == 0)
			return &a->seen[i];
	return NULL;
}

static void
on_use(void *arg, const struct snapshot *snapshot)
{
	struct agent *a = arg;
	struct seen now[ARRAY_LEN(a->seen)];
	size_t n = snapshot_count(snapshot);

	assert_true(n <= ARRAY_LEN(now));
	for (size_t i = 0; i < n; i++) {
		const struct service *s = snapshot_at(snapshot, i);
		const struct seen *before;

		snprintf(now[i].key, sizeof(now[i].key), "%s/%s", s->namespace, s->name);
		now[i].digest = s->digest;
		now[i].ip = s->fake_ip;
		assert_true(s->fake_ip != 0);
		before = find_seen(a, now[i].key);
		if (before != NULL && before->ip != s->fake_ip)
			fail_msg("%s: %s moved", a->name, now[i].key);
		for (size_t k = 0; k < i; k++)
			assert_true(now[k].ip != now[i].ip);
	}
	memcpy(a->seen, now, n * sizeof(now[0]));
	a->n_seen = n;
}

static void
start_agent(struct agent *a)
{
	const char *urls[] = {"wss://192.0.2.1:10000", NULL};
	const struct meta_config config = {.loop = net_loop(),
		.data_dir = a->dir,
		.node = a->name,
		.subnet = 0x09fb0000,
		.mask = 0xffff0000,
		.listen_port = 40001,
		.hub_urls = urls,
		.ca = "",
		.cert = "",
		.key = "",
		.token = "",
		.node_id = "",
		.proxy = "",
		.cluster_domain = "cluster.local",
		.heartbeat_ms = 4000};
	struct err err = {0};

	if (meta_open(&a->meta, &config, on_use, a, &err) < 0 ||
		meta_start(a->meta, NULL, 0, &err) < 0)
		fail_msg("%s", err.text);
}

static void
restart_agent(struct agent *a, bool crash)
{
	net_crash(crash);
	meta_stop(&a->meta);
	net_crash(false);
	start_agent(a);
}

static void
write_identity(struct world *w)
{
	auto_free char *ca = NULL, *ca_key = NULL;
	struct err err = {0};

	assert_int_equal(pki_ca_new("test", 30, &ca, &ca_key, &err), 0);
	for (int i = 0; i < AGENTS; i++) {
		struct agent *a = &w->agents[i];
		const struct pki_issue issue = {.ca_cert_pem = ca,
			.ca_key_pem = ca_key,
			.common_name = a->name,
			.client = true,
			.days = 30};
		auto_free char *key = NULL, *cert = NULL, *ca_file = NULL, *key_file = NULL,
			       *cert_file = NULL;

		memcpy(a->name, "edge-0", 7);
		a->name[5] = (char)('0' + i);
		a->dir = xasprintf("%s/%s", w->dir, a->name);
		assert_int_equal(mkdir_p(a->dir, 0700), 0);
		assert_int_equal(pki_key_new(&key, &err), 0);
		assert_int_equal(pki_sign_key(&issue, key, &cert, &err), 0);
		ca_file = xasprintf("%s/ca.pem", a->dir);
		cert_file = xasprintf("%s/node.crt", a->dir);
		key_file = xasprintf("%s/node.key", a->dir);
		assert_int_equal(file_write(ca_file, ca, strlen(ca), 0600), 0);
		assert_int_equal(file_write(cert_file, cert, strlen(cert), 0600), 0);
		assert_int_equal(file_write(key_file, key, strlen(key), 0600), 0);
	}
}

/* --- what happens --------------------------------------------------------------------------- */

static void
change_object(struct world *w)
{
	unsigned i = net_random(OBJECTS);

	if (w->version[i] != 0 && net_random(3) == 0) {
		w->version[i] = 0;
		if (w->ready)
			remove_object(w->cluster, i);
	} else {
		w->version[i] = net_random(1000) + 1;
		if (w->ready)
			put_object(w->cluster, i, w->version[i]);
	}
	if (w->ready)
		tell(w);
}

static void
set_cut(struct agent *a, bool cut)
{
	if (a->cut != cut)
		net_cut(a->name, cut);
	a->cut = cut;
}

static void
step(struct world *w)
{
	static const uint64_t pauses[] = {1, 30, 200, 2000, 20000, 120000};
	struct agent *a = &w->agents[net_random(AGENTS)];
	unsigned what = net_random(100), burst = net_random(8) == 0 ? 40 : 3;
	uint64_t pause;

	if (what < 60)
		for (unsigned i = net_random(burst) + 1; i > 0; i--)
			change_object(w);
	else if (what < 72)
		set_cut(a, !a->cut);
	else if (what < 84)
		restart_agent(a, net_random(2) == 0);
	else if (what < 88)
		stop_hub(w);
	else if (what < 92)
		net_disk_full(net_random(2) == 0);
	else if (!w->up)
		start_hub(w);
	else
		read_source(w);
	pause = pauses[net_random(ARRAY_LEN(pauses))];
	pause = net_random((uint32_t)pause) + 1;
	net_run(pause);
	w->simulated_ms += pause;
}

static bool
is_for(const struct cluster *truth, const struct agent *a, const struct cluster_change *change)
{
	struct selector *s;
	struct err err;
	bool yes;

	assert_int_equal(selector_parse(&s, change->nodes, &err), 0);
	yes = selector_matches(s, cluster_node_labels(truth, a->name));
	selector_free(&s);
	return yes;
}

static void
check(struct world *w)
{
	struct cluster *truth = cluster_new();
	struct cluster_change change;
	size_t n[AGENTS] = {0};

	for (unsigned i = 0; i < OBJECTS; i++)
		if (w->version[i] != 0)
			put_object(truth, i, w->version[i]);
	while (cluster_next_change(truth, &change)) {
		for (int i = 0; i < AGENTS; i++) {
			auto_free char *key = xasprintf("%s/%s", change.ns, change.name);
			const struct seen *s = find_seen(&w->agents[i], key);

			if (!is_for(truth, &w->agents[i], &change)) {
				w->n_hidden++;
				continue;
			}
			n[i]++;
			if (s == NULL || s->digest != change.digest)
				fail_msg("%s: %s is %s (EDGEWAY_SEED=%llu)", w->agents[i].name, key,
					s == NULL ? "lost" : "stale", (unsigned long long)w->seed);
		}
		cluster_change_fini(&change);
	}
	for (int i = 0; i < AGENTS; i++)
		if (w->agents[i].n_seen != n[i])
			fail_msg("%s: %zu services, not %zu (EDGEWAY_SEED=%llu)", w->agents[i].name,
				w->agents[i].n_seen, n[i], (unsigned long long)w->seed);
	cluster_free(&truth);
	w->n_checks++;
}

/* What is in use is on the disk as well, soon after it can be written again: without a hub a node
 * knows it all. */
static void
crash_alone(struct world *w)
{
	net_disk_full(false);
	net_run(CATCH_UP_MS);
	for (int i = 0; i < AGENTS; i++) {
		set_cut(&w->agents[i], true);
		restart_agent(&w->agents[i], true);
	}
	check(w);
	w->simulated_ms += CATCH_UP_MS;
}

static void
calm_down(struct world *w)
{
	for (int i = 0; i < AGENTS; i++)
		set_cut(&w->agents[i], false);
	if (!w->up)
		start_hub(w);
	read_source(w);
	net_run(CALM_MS);
	w->simulated_ms += CALM_MS;
	check(w);
	if (net_random(3) == 0)
		crash_alone(w);
}

static void
begin(struct world *w, uint64_t seed)
{
	static const struct net_hub hub = {on_open, on_text, on_closed};
	const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	memset(w->agents, 0, sizeof(w->agents));
	memset(w->version, 0, sizeof(w->version));
	w->seed = seed;
	net_start(seed, &hub, w);
	snprintf(w->dir, sizeof(w->dir), "%s/edgeway-converge-XXXXXX", shm);
	assert_non_null(mkdtemp(w->dir));
	write_identity(w);
	w->tick = timer_new(net_loop(), on_tick, w);
	timer_start(w->tick, TICK_MS, TICK_MS);
	for (int i = 0; i < AGENTS; i++)
		start_agent(&w->agents[i]);
	start_hub(w);
}

static void
end(struct world *w)
{
	auto_free char *command = NULL;

	for (int i = 0; i < AGENTS; i++) {
		meta_stop(&w->agents[i].meta);
		free(w->agents[i].dir);
	}
	stop_hub(w);
	timer_free(&w->tick);
	w->frames += net_frames();
	w->refused += net_refused();
	command = xasprintf("rm -rf %s", w->dir);
	assert_int_equal(system(command), 0);
}

static void
live(struct world *w, uint64_t seed)
{
	begin(w, seed);
	for (int i = 1; i <= STEPS; i++) {
		step(w);
		if (i % 15 == 0)
			calm_down(w);
	}
	end(w);
}

/* The path to the hub swallows an update and acknowledges it in the node's name: nobody can know
 * that anything is missing. */
static bool
eat_update(void *arg, struct ws_conn *hub_end, const char *text, size_t len)
{
	struct world *w = arg;
	auto_buf struct buf ack;
	struct saying say = {.source = "edgeway-agent", .operation = OP_RESPONSE};
	struct envelope e;
	struct err err;
	bool update;

	(void)hub_end;
	buf_init(&ack, BUF_UNLIMITED);
	assert_int_equal(envelope_parse(&e, text, len, &err), 0);
	update = e.operation == OP_UPDATE || e.operation == OP_DELETE;
	say.resource = e.resource;
	say.parent = e.id;
	envelope_say(&ack, &say, "swallowed");
	envelope_fini(&e);
	if (!update)
		return false;
	assert_true(w->n_eaten < ARRAY_LEN(w->eaten));
	w->eaten[w->n_eaten++] = buf_take_str(&ack);
	return true;
}

static void
acknowledge_eaten(struct world *w, struct agent *a)
{
	while (w->n_eaten > 0) {
		auto_free char *ack = take_ptr(&w->eaten[--w->n_eaten]);

		node_session_text(a->session, ack, strlen(ack));
	}
}

static size_t
differing(struct world *w, const struct agent *a)
{
	size_t n = 0;

	for (uint32_t i = 0; i < fanout_slots(w->fanout); i++) {
		const struct fanout_item *item = fanout_at(w->fanout, i);
		const struct seen *s = item != NULL ? find_seen(a, item->key) : NULL;

		n += item != NULL && item->present && (s == NULL || s->digest != item->digest);
	}
	return n;
}

static void
the_periodic_check_heals_what_nobody_noticed(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct agent *a = &w->agents[1]; /* the one without bundles */
	struct ws_conn *conn;

	(void)state;
	begin(w, 77);
	for (unsigned i = 0; i < SERVICES; i += 2) /* of all nodes */
		w->version[i] = 1;
	read_source(w);
	net_run(CALM_MS);
	check(w);
	conn = a->conn;
	assert_non_null(conn);
	net_eat(a->name, eat_update);
	put_object(w->cluster, 0, w->version[0] = 2);
	remove_object(w->cluster, 2);
	w->version[2] = 0;
	tell(w);
	acknowledge_eaten(w, a);
	net_eat("", NULL);
	/* Longer than it takes to miss an acknowledgement. */
	net_run(NODE_SESSION_ACK_MS + CALM_MS / 2);
	assert_int_equal(differing(w, a), 1);
	assert_non_null(find_seen(a, "default/s2"));
	assert_int_equal(differing(w, &w->agents[0]), 0);
	assert_ptr_equal(a->conn, conn);
	net_run(5 * 60 * 1000 + 10 * 1000);
	check(w);
	assert_ptr_equal(a->conn, conn);
	end(w);
	free(w);
}

static uint64_t
number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void
every_agent_converges(void **state)
{
	uint64_t first = number("EDGEWAY_SEED", 1), n = number("EDGEWAY_SEEDS", 8);
	struct world *w = xcalloc(1, sizeof(*w));

	(void)state;
	for (uint64_t seed = first; seed < first + n; seed++)
		live(w, seed);
	printf("# histories %llu, simulated %.1f h, checks %u, frames %llu, updates %llu, deletes "
	       "%llu, "
	       "commits that waited for a disk %llu\n",
		(unsigned long long)n, (double)w->simulated_ms / 3600000, w->n_checks,
		(unsigned long long)w->frames, (unsigned long long)w->stats.updates,
		(unsigned long long)w->stats.deletes, (unsigned long long)w->refused);
	assert_true(w->refused > n);
	assert_true(w->n_checks >= n * (STEPS / 15));
	assert_true(w->n_hidden > w->n_checks);
	free(w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_periodic_check_heals_what_nobody_noticed),
		cmocka_unit_test(every_agent_converges),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests_name("converge", tests, NULL, NULL);
}
