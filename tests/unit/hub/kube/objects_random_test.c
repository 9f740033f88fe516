/*
 * No object of a cluster ends a node's connection. Random Services, Pods, EndpointSlices, Endpoints
 * and Nodes, as large as an API server takes (1.5 MB), with extreme counts, lengths, numbers and
 * texts, go the whole way: the cutter and decoder of the hub's source, its cluster, fanout and
 * session, the lines of tests/fake/net, the agent's feed and database, its snapshot. The agent must
 * refuse nothing that it is told, keep its one connection, and hold in the end exactly what the hub
 * tells.
 *
 * EDGEWAY_OBJECTS: how many (1200, with sanitizers 400), EDGEWAY_SEED: which ones (1).
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
#include "hub/kube/json_stream.h"
#include "hub/port/refusals.h"
#include "hub/sync/node_session.h"
#include "meta/meta.h"
#include "model/limits.h"
#include "tests/fake/net.h"

enum {
#ifdef __SANITIZE_ADDRESS__
	OBJECTS = 400,
#else
	OBJECTS = 1200,
#endif
	OBJECT_MAX_BYTES = 1500 * 1000,
	SERVICES = 6,
	NAMES = 24, /* of every other kind */
	HUGE_STAYS = 2, /* steps */
	STEP_MS = 400,
	CALM_MS = 60 * 1000,
};

struct world {
	char dir[64];
	struct meta *meta;
	struct cluster *cluster;
	struct fanout *fanout;
	struct node_session_stats stats;
	struct node_session *session;
	struct ws_conn *conn;
	unsigned n_opened;
	const struct snapshot *used;
	/* What the generator made. */
	enum kube_kind kind;
	char ns[16], name[16];
	size_t n_put, n_wrong, n_refused, longest_frame;
};

/* --- generator ------------------------------------------------------------------------------ */

static bool
one_in(uint32_t n)
{
	return net_random(n) == 0;
}

/* In large objects one wrong part would make most of them wrong: some have none. */
static bool all_good;

static bool
is_odd(uint32_t n)
{
	return !all_good && one_in(n);
}

/* How many of something: mostly few, sometimes at a bound, in huge objects as many as fit. */
static size_t
some(bool huge)
{
	static const size_t counts[] = {0, 1, 1, 2, 3, 5, 8, 20, 64};
	static const size_t large[] = {255, 256, 257, 1000, 5000, 5001, 20000, 100000};

	return huge && !one_in(6) ? large[net_random(ARRAY_LEN(large))]
				  : counts[net_random(ARRAY_LEN(counts))];
}

static bool
has_room(const struct buf *b)
{
	return buf_len(b) < OBJECT_MAX_BYTES;
}

/* Texts that no field should be confused by, as JSON. */
static const char *const odd_texts[] = {"\"\"", "\"\\u0000\"", "\"a\\u0000b\"",
	"\"\\ud83d\\ude00\"", "\"\xc3\xbc\xe5\x90\x8d\xf0\x9f\x98\x80\"", "\"\\\"\\\\\\n\\u001f\"",
	"\"UPPER\"", "\"-a\"", "\"a.b..c\"", "\"../../etc\"", "null", "true", "[]", "{}", "0", "-1",
	"65536", "1.5", "9007199254740993", "\"0\"", "\"0.0.0.0\"", "\"::\"", "\"127.0.0.1\"",
	"\"256.1.1.1\"", "[[[[[[[[]]]]]]]]"};

static void
add_odd(struct buf *b)
{
	buf_adds(b, odd_texts[net_random(ARRAY_LEN(odd_texts))]);
}

/* A name of this length that DNS would take, or what is none. */
static void
add_name(struct buf *b, const char *prefix, unsigned i)
{
	static const unsigned lengths[] = {0, 0, 0, 10, 15, 63, 63, 64, 253, 254, 5000};
	unsigned fill = is_odd(20) ? lengths[net_random(ARRAY_LEN(lengths))] : 0;

	if (is_odd(400)) {
		add_odd(b);
		return;
	}
	buf_printf(b, "\"%s%u", prefix, i);
	for (unsigned k = (unsigned)strlen(prefix) + 2; k < fill; k++)
		buf_adds(b, "x");
	buf_adds(b, "\"");
}

static void
add_number(struct buf *b, unsigned usual)
{
	static const char *const odd[] = {
		"0", "-1", "65535", "65536", "4294967296", "1e3", "\"80\""};

	if (is_odd(400))
		buf_adds(b, odd[net_random(ARRAY_LEN(odd))]);
	else
		buf_printf(b, "%u", usual);
}

static void
add_address(struct buf *b)
{
	uint32_t n = net_random(1 << 22);

	if (is_odd(800))
		add_odd(b);
	else if (one_in(20))
		buf_printf(b, "\"2001:db8::%x:%x\"", n >> 16, n & 0xffff);
	else
		buf_printf(b, "\"10.%u.%u.%u\"", n >> 16 & 0xff, n >> 8 & 0xff, n & 0xff);
}

static void
add_deep(struct buf *b)
{
	unsigned depth = one_in(2) ? net_random(30) : net_random(20000);

	for (unsigned i = 0; i < depth; i++)
		buf_adds(b, "{\"f:x\":");
	add_odd(b);
	for (unsigned i = 0; i < depth; i++)
		buf_adds(b, "}");
}

static void
add_labels(struct buf *b, bool huge)
{
	size_t n = some(huge && one_in(4));

	buf_printf(b, "{\"app\":\"a%u\"", net_random(3));
	for (size_t i = 0; i < n && has_room(b); i++)
		buf_printf(b, ",\"k%zu\":\"v%u\"", i, net_random(2));
	if (is_odd(200)) {
		buf_adds(b, ",\"odd\":");
		add_odd(b);
	}
	buf_adds(b, "}");
}

static const char *const annotation_keys[] = {"edgeway.io/retries", "edgeway.io/hash-on",
	"edgeway.io/health-path", "edgeway.io/lb-policy", "edgeway.io/nodes",
	"edgeway.io/slow-start", "edgeway.io/max-connections", "edgeway.io/connect-timeout",
	"edgeway.io/none", "note"};

static void
add_annotations(struct buf *b, bool huge)
{
	static const char *const values[] = {"\"3\"", "\"10\"", "\"11\"", "\"header:X-A\"",
		"\"cookie:\"", "\"/ok\"", "\"ok\"", "\"random\"", "\"tier=t0\"", "\"tier in (\"",
		"\"5s\"", "\"99999999999d\"", "\"1000000\"", "\"18446744073709551616\""};
	size_t n = some(false) % 8;

	buf_adds(b, "{\"first\":\"");
	for (size_t i = huge && one_in(4) ? OBJECT_MAX_BYTES / 2 : net_random(100); i > 0; i--)
		buf_adds(b, one_in(2) ? "\\u0000" : "0");
	buf_adds(b, "\"");
	for (size_t i = 0; i < n; i++) {
		buf_printf(b, ",\"%s\":", annotation_keys[(i + n) % ARRAY_LEN(annotation_keys)]);
		if (one_in(6))
			add_odd(b);
		else
			buf_adds(b, values[net_random(ARRAY_LEN(values))]);
	}
	buf_adds(b, "}");
}

static void
add_metadata(struct buf *b, const struct world *w, bool huge, const char *labels)
{
	buf_printf(b, "\"metadata\":{\"name\":\"%s\"", w->name);
	if (w->kind != KUBE_NODE)
		buf_printf(b, ",\"namespace\":\"%s\"", w->ns);
	buf_adds(b, ",\"labels\":");
	if (labels != NULL)
		buf_adds(b, labels);
	else
		add_labels(b, huge);
	buf_adds(b, ",\"annotations\":");
	add_annotations(b, huge);
	if (one_in(4)) {
		buf_adds(b, ",\"managedFields\":[{\"fieldsV1\":");
		add_deep(b);
		buf_adds(b, "}]");
	}
	buf_adds(b, "}");
}

static const char *
protocol(void)
{
	return one_in(20) ? "UDP" : one_in(40) ? "SCTP" : is_odd(2000) ? "odd" : "TCP";
}

static void
add_service(struct buf *b, bool huge)
{
	size_t n = one_in(12) ? some(huge) : net_random(20);

	buf_adds(b, ",\"spec\":{\"clusterIP\":");
	if (one_in(3))
		buf_adds(b, "\"None\"");
	else
		add_address(b);
	if (one_in(10))
		buf_adds(
			b, ",\"sessionAffinity\":\"ClientIP\",\"internalTrafficPolicy\":\"Local\"");
	if (one_in(2)) {
		buf_adds(b, ",\"selector\":");
		add_labels(b, huge);
	}
	buf_adds(b, ",\"ports\":[");
	for (size_t i = 0; i < n && has_room(b); i++) {
		buf_printf(b,
			"%s{\"name\":\"p%zu\",\"protocol\":\"%s\",\"port\":", i > 0 ? "," : "", i,
			protocol());
		add_number(b, 80 + (unsigned)i);
		buf_adds(b, ",\"targetPort\":");
		if (one_in(4))
			add_name(b, "t", (unsigned)i);
		else
			add_number(b, 8000 + (unsigned)i);
		buf_adds(b, "}");
	}
	buf_adds(b, "]}");
}

static void
add_pod(struct buf *b, bool huge)
{
	size_t n = some(huge);

	buf_printf(b, ",\"spec\":{\"nodeName\":\"edge-%u\",\"hostname\":", net_random(3));
	add_name(b, "h", net_random(4));
	buf_printf(b, ",\"subdomain\":\"s%u\",\"hostNetwork\":%s,\"containers\":[{\"ports\":[",
		net_random(SERVICES), one_in(5) ? "true" : "false");
	for (size_t i = 0; i < n && has_room(b); i++) {
		buf_printf(b, "%s{\"name\":\"t%zu\",\"protocol\":\"%s\",\"containerPort\":",
			i > 0 ? "," : "", i, protocol());
		add_number(b, 1 + (8000 + (unsigned)i) % 65535);
		if (one_in(2)) {
			buf_adds(b, ",\"hostPort\":");
			add_number(b, 1 + (30000 + (unsigned)i) % 65535);
			buf_adds(b, ",\"hostIP\":");
			add_address(b);
		}
		buf_adds(b, "}");
	}
	buf_adds(b, "]}]},\"status\":{\"phase\":\"Running\",\"podIP\":");
	add_address(b);
	buf_adds(b, ",\"hostIP\":");
	add_address(b);
	buf_adds(b, "}");
}

static void
add_endpoint_ports(struct buf *b, bool huge)
{
	size_t n = huge ? some(true) : 1 + net_random(20);

	buf_adds(b, "\"ports\":[");
	for (size_t i = 0; i < n && has_room(b); i++) {
		buf_printf(b,
			"%s{\"name\":\"p%zu\",\"protocol\":\"%s\",\"port\":", i > 0 ? "," : "", i,
			protocol());
		add_number(b, 1 + (8000 + (unsigned)i) % 65535);
		buf_adds(b, "}");
	}
	buf_adds(b, "]");
}

static void
add_hints(struct buf *b)
{
	size_t n = 1 + net_random(9);

	buf_adds(b, ",\"hints\":{\"forZones\":[");
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s{\"name\":\"zone-%zu\"}", i > 0 ? "," : "", i);
	buf_adds(b, "]}");
}

static void
add_slice(struct buf *b, bool huge)
{
	bool many_ports = huge && one_in(4);
	size_t n = some(huge && !many_ports);

	buf_adds(b, ",\"addressType\":\"IPv4\",");
	add_endpoint_ports(b, many_ports);
	buf_adds(b, ",\"endpoints\":[");
	for (size_t i = 0; i < n && has_room(b); i++) {
		buf_adds(b, i > 0 ? ",{\"addresses\":[" : "{\"addresses\":[");
		add_address(b);
		buf_adds(b, "]");
		if (one_in(4))
			buf_printf(b, ",\"nodeName\":\"edge-%u\",\"zone\":\"zone-%u\"",
				net_random(3), net_random(3));
		if (one_in(6)) {
			buf_adds(b, ",\"hostname\":");
			add_name(b, "h", (unsigned)i);
		}
		if (one_in(8))
			buf_printf(b, ",\"targetRef\":{\"kind\":\"Pod\",\"name\":\"o%u\"}",
				net_random(NAMES));
		if (one_in(8))
			buf_printf(b,
				",\"conditions\":{\"ready\":%s,\"serving\":true,\"terminating\":%"
				"s}",
				one_in(2) ? "true" : "null", one_in(2) ? "true" : "false");
		if (is_odd(50))
			add_hints(b);
		buf_adds(b, "}");
	}
	buf_adds(b, "]");
}

static void
add_endpoints(struct buf *b, bool huge)
{
	size_t n = 1 + net_random(3);

	buf_adds(b, ",\"subsets\":[");
	for (size_t i = 0; i < n && has_room(b); i++) {
		bool many_ports = huge && one_in(4);
		size_t n_addresses = some(huge && !many_ports);

		buf_adds(b, i > 0 ? ",{" : "{");
		add_endpoint_ports(b, many_ports);
		buf_adds(b, ",\"addresses\":[");
		for (size_t k = 0; k < n_addresses && has_room(b); k++) {
			buf_adds(b, k > 0 ? ",{\"ip\":" : "{\"ip\":");
			add_address(b);
			buf_adds(b, "}");
		}
		buf_adds(b, "]}");
	}
	buf_adds(b, "]");
}

static void
add_node(struct buf *b, bool huge)
{
	size_t n = some(huge);

	buf_adds(b, ",\"status\":{\"addresses\":[");
	for (size_t i = 0; i < n && has_room(b); i++) {
		buf_printf(b, "%s{\"type\":\"%s\",\"address\":", i > 0 ? "," : "",
			one_in(4)           ? "ExternalIP"
				: one_in(4) ? "Hostname"
					    : "InternalIP");
		add_address(b);
		buf_adds(b, "}");
	}
	buf_adds(b, "]}");
}

static void
generate(struct world *w, struct buf *b, bool huge)
{
	static const enum kube_kind kinds[] = {KUBE_SERVICE, KUBE_SERVICE, KUBE_SERVICE, KUBE_POD,
		KUBE_POD, KUBE_SLICE, KUBE_SLICE, KUBE_SLICE, KUBE_ENDPOINTS, KUBE_ENDPOINTS,
		KUBE_NODE};
	static void (*const adds[])(struct buf * b, bool huge) = {[KUBE_SERVICE] = add_service,
		[KUBE_POD] = add_pod,
		[KUBE_SLICE] = add_slice,
		[KUBE_ENDPOINTS] = add_endpoints,
		[KUBE_NODE] = add_node};
	bool named; /* as its service is */
	char labels[64];

	all_good = huge && !one_in(4);
	w->kind = kinds[net_random(ARRAY_LEN(kinds))];
	named = w->kind == KUBE_SERVICE || w->kind == KUBE_ENDPOINTS;
	snprintf(w->ns, sizeof w->ns, "%s",
		w->kind == KUBE_NODE ? ""
			: one_in(3)  ? "shop"
				     : "default");
	snprintf(w->name, sizeof w->name, "%s%u",
		named                          ? "s"
			: w->kind == KUBE_NODE ? "edge-"
					       : "o",
		named ? net_random(SERVICES) : 1 + net_random(NAMES - 1));
	snprintf(labels, sizeof labels, "{\"kubernetes.io/service-name\":\"s%u\"}",
		net_random(SERVICES));
	buf_printf(b, "{\"apiVersion\":\"%s\",\"kind\":\"%s\",",
		w->kind == KUBE_SLICE ? "discovery.k8s.io/v1" : "v1", kube_kind_name(w->kind));
	add_metadata(b, w, huge, w->kind == KUBE_SLICE ? labels : NULL);
	adds[w->kind](b, huge);
	buf_adds(b, "}");
}

/* --- hub ------------------------------------------------------------------------------------ */

static void
tell(struct world *w)
{
	struct cluster_change change;
	char *note;

	while (cluster_next_change(w->cluster, &change)) {
		if (change.view == NULL)
			fanout_remove(w->fanout, change.ns, change.name);
		else
			fanout_set(w->fanout, &change);
		w->longest_frame = MAX(w->longest_frame, change.json_len);
		cluster_change_fini(&change);
	}
	while ((note = cluster_next_note(w->cluster)) != NULL) {
		w->n_refused += strncmp(note, "a service is refused", 20) == 0;
		free(note);
	}
	fanout_settle(w->fanout);
}

/* As hub/kube/reflector does with an object of a list. */
static int
on_object(void *arg, const char *text, size_t len)
{
	struct world *w = arg;
	struct kube_object *o = NULL;
	struct tree *tree = NULL;
	struct err err = {0};

	if (text == NULL) {
		w->n_wrong++;
		return 0;
	}
	if (tree_parse(&tree, "object", text, len, &err) < 0)
		fail_msg("the whole list would be lost: %s", err.text);
	assert_int_equal(tree_count(tree), 1);
	if (kube_decode(&o, "object", tree_document(tree, 0), NULL, &err) == 0) {
		w->n_put++;
		cluster_put(w->cluster, "", &o);
	} else {
		w->n_wrong++;
	}
	tree_free(&tree);
	return 0;
}

static void
on_open(void *arg, struct ws_conn *c, const char *node)
{
	struct world *w = arg;
	const struct node_session_config config = {.fanout = w->fanout,
		.cluster = w->cluster,
		.stats = &w->stats,
		.ca_hash = "",
		.agent = "",
		.node = node,
		.site = "",
		.zone = "",
		.cluster_domain = "cluster.local",
		.ready = true,
		.bundles = true};

	w->n_opened++;
	w->conn = c;
	w->session = node_session_new(&config, c);
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct world *w = arg;

	if (w->conn == c)
		node_session_text(w->session, text, len);
}

static void
on_closed(void *arg, struct ws_conn *c)
{
	struct world *w = arg;

	if (w->conn != c)
		return;
	node_session_free(&w->session);
	w->conn = NULL;
}

/* --- agent ---------------------------------------------------------------------------------- */

static void
on_use(void *arg, const struct snapshot *snapshot)
{
	struct world *w = arg;

	if (w->used != NULL)
		snapshot_unref((struct snapshot **)(uintptr_t)&w->used);
	w->used = snapshot_ref(snapshot);
}

static void
write_identity(const struct world *w)
{
	auto_free char *ca = NULL, *ca_key = NULL, *key = NULL, *cert = NULL;
	auto_free char *ca_file = xasprintf("%s/ca.pem", w->dir),
		       *cert_file = xasprintf("%s/node.crt", w->dir),
		       *key_file = xasprintf("%s/node.key", w->dir);
	struct pki_issue issue = {.common_name = "edge-0", .client = true, .days = 30};
	struct err err = {0};

	assert_int_equal(pki_ca_new("test", 30, &ca, &ca_key, &err), 0);
	issue.ca_cert_pem = ca;
	issue.ca_key_pem = ca_key;
	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_sign_key(&issue, key, &cert, &err), 0);
	assert_int_equal(file_write(ca_file, ca, strlen(ca), 0600), 0);
	assert_int_equal(file_write(cert_file, cert, strlen(cert), 0600), 0);
	assert_int_equal(file_write(key_file, key, strlen(key), 0600), 0);
}

static void
start_agent(struct world *w)
{
	const char *urls[] = {"wss://192.0.2.1:10000", NULL};
	const struct meta_config config = {.loop = net_loop(),
		.data_dir = w->dir,
		.node = "edge-0",
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

	if (meta_open(&w->meta, &config, on_use, w, &err) < 0 ||
		meta_start(w->meta, NULL, 0, &err) < 0)
		fail_msg("%s", err.text);
}

/* --- the test ------------------------------------------------------------------------------- */

static uint64_t
number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void
check_alive(const struct world *w, uint64_t i)
{
	if (w->n_opened != 1 || w->session == NULL || node_session_ended(w->session))
		fail_msg("object %llu (%s %s/%s) ended the connection", (unsigned long long)i,
			kube_kind_name(w->kind), w->ns, w->name);
	if (w->stats.refused + w->stats.bad_messages > 0)
		fail_msg("the agent refused what object %llu (%s %s/%s) made",
			(unsigned long long)i, kube_kind_name(w->kind), w->ns, w->name);
}

static void
check_held(const struct world *w)
{
	size_t n = 0;

	for (uint32_t i = 0; i < fanout_slots(w->fanout); i++) {
		const struct fanout_item *item = fanout_at(w->fanout, i);
		const struct service *s;
		const char *slash;

		if (item == NULL || !item->present || !selector_matches(item->nodes, NULL))
			continue;
		slash = strchr(item->key, '/');
		s = snapshot_find(w->used, item->key, (size_t)(slash - item->key), slash + 1,
			strlen(slash + 1));
		if (s == NULL || s->digest != item->digest)
			fail_msg("%s is %s", item->key, s == NULL ? "lost" : "stale");
		n++;
	}
	assert_int_equal(snapshot_count(w->used), n);
}

static void
put_one(struct world *w, bool huge)
{
	auto_buf struct buf text;
	struct json_stream split;

	buf_init(&text, BUF_UNLIMITED);
	generate(w, &text, huge);
	json_stream_init(&split, JSON_STREAM_STREAM, on_object, w);
	assert_int_equal(json_stream_feed(&split, buf_at(&text), buf_len(&text)), 0);
	assert_true(json_stream_whole(&split));
	json_stream_fini(&split);
}

static void
begin(struct world *w)
{
	static const struct net_hub hub = {on_open, on_text, on_closed};
	const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	net_start(number("EDGEWAY_SEED", 1), &hub, w);
	snprintf(w->dir, sizeof(w->dir), "%s/edgeway-objects-XXXXXX", shm);
	assert_non_null(mkdtemp(w->dir));
	write_identity(w);
	w->cluster = cluster_new();
	w->fanout = fanout_new();
	net_hub_up(true);
	start_agent(w);
	net_run(CALM_MS);
}

static void
end(struct world *w)
{
	auto_free char *command = xasprintf("rm -rf %s", w->dir);

	meta_stop(&w->meta);
	node_session_free(&w->session);
	w->conn = NULL;
	net_hub_up(false);
	snapshot_unref((struct snapshot **)(uintptr_t)&w->used);
	cluster_free(&w->cluster);
	fanout_free(&w->fanout);
	assert_int_equal(system(command), 0);
	free(w);
}

/* A hub that knows no limits, as one before these had none, says what the agent cannot read. */
static void
say_endless(struct world *w, unsigned i, unsigned values)
{
	auto_free char *name = xasprintf("endless-%u", i);
	struct view unrestricted = {0};
	struct cluster_change change = {.ns = (char[]){"default"},
		.name = name,
		.view = &unrestricted,
		.nodes = (char[]){""}};
	auto_buf struct buf json;

	buf_init(&json, BUF_UNLIMITED);
	buf_printf(&json, "{\"ns\":\"default\",\"name\":\"%s\",\"later\":[0", name);
	for (unsigned k = 1; k < values; k++)
		buf_adds(&json, ",0");
	buf_adds(&json, "],\"ports\":[]}");
	change.json_len = buf_len(&json);
	change.digest = view_digest(buf_at(&json), buf_len(&json));
	change.json = (char *)(uintptr_t)buf_str(&json);
	fanout_set(w->fanout, &change);
}

/* More of them than the messages that an agent bears from something that is no hub. */
static void
what_cannot_be_read_is_refused_and_held_back(void **state)
{
	enum { ENDLESS = 70 };
	struct world *w = xcalloc(1, sizeof(*w));
	uint64_t n_updates;

	(void)state;
	begin(w);
	for (unsigned i = 0; i < ENDLESS; i++)
		say_endless(w, i, JSON_VALUES_MAX);
	fanout_settle(w->fanout);
	net_run(2 * NODE_SESSION_ACK_MS);
	assert_int_equal(w->stats.refused, ENDLESS);
	assert_int_equal(refusals_count(node_session_refusals(w->session)), ENDLESS);
	assert_string_equal(
		node_session_refusals(w->session)->list[0].service, "default/endless-0");
	assert_non_null(
		strstr(node_session_refusals(w->session)->list[0].reason, "too many values"));
	/* Held back: not sent again, whatever comparisons say. */
	n_updates = w->stats.updates;
	net_run(15 * CALM_MS);
	assert_int_equal(w->stats.updates, n_updates);
	/* Until it changes. */
	say_endless(w, 0, 3);
	fanout_settle(w->fanout);
	net_run(CALM_MS);
	assert_int_equal(refusals_count(node_session_refusals(w->session)), ENDLESS - 1);
	assert_int_equal(snapshot_count(w->used), 1);
	assert_int_equal(w->n_opened, 1);
	assert_int_equal(w->stats.stalled + w->stats.bad_messages, 0);
	end(w);
}

static void
no_object_ends_a_connection(void **state)
{
	uint64_t objects = number("EDGEWAY_OBJECTS", OBJECTS);
	struct world *w = xcalloc(1, sizeof(*w));
	struct {
		enum kube_kind kind;
		char ns[16], name[16];
	} last = {0};

	(void)state;
	begin(w);
	for (uint64_t i = 0; i < objects; i++) {
		bool huge = i % 32 == 31;

		if (i % 32 == HUGE_STAYS && i > 32)
			cluster_remove(w->cluster, "", last.kind, last.ns, last.name);
		put_one(w, huge);
		if (huge) {
			last.kind = w->kind;
			memcpy(last.ns, w->ns, sizeof last.ns);
			memcpy(last.name, w->name, sizeof last.name);
		}
		tell(w);
		net_run(STEP_MS);
		check_alive(w, i);
	}
	net_run(CALM_MS);
	check_alive(w, objects);
	check_held(w);
	printf("# objects %zu, not understood %zu, services refused %zu, updates %llu, longest %zu "
	       "bytes\n",
		w->n_put, w->n_wrong, w->n_refused, (unsigned long long)w->stats.updates,
		w->longest_frame);
	assert_true(w->n_put > objects / 2 && w->n_wrong > 0);
	assert_true(w->longest_frame > 64 * 1024);
	end(w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_be_read_is_refused_and_held_back),
		cmocka_unit_test(no_object_ends_a_connection),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests_name("objects_random", tests, NULL, NULL);
}
