#include "hub/sync/node_session_private.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "model/check.h"
#include "model/json.h"
#include "model/mesh.h"
#include "model/pod_name.h"

/*
 * Pods by their address (doc/protocol.md, "Pods by their address"). A node asks for those that its
 * pods call; from then on the pod is among what the node should hold, until it is gone. So what
 * follows, updates, deletions and the comparison after a new connection, is as for any service.
 */

enum {
	/* of one node; beyond, the answer is "busy". Names have an allowance of their own, so that
	 * who reads a range of addresses keeps nobody's calls waiting. */
	POD_ASKS_PER_S = 50,
	POD_ASKS_BURST = 200,
	POD_NAMES_PER_S = 25,
	POD_NAMES_BURST = 100,
};

struct pod_query {
	char *ns, *address; /* ns "": of any namespace */
	char *instead; /* a pod that the node gives back if it has too many; NULL: none */
	uint16_t port; /* 0: none */
	uint16_t client; /* whose call it is, as the node numbers its clients */
	bool name; /* its name is wanted, not the pod itself */
};

/* Makes the cluster's view of the pod known to the fanout; NULL: there is no such pod. */
static struct fanout_item *
pod_item(struct node_session *s, const char *ns, const struct pod_query *q)
{
	char name[POD_NAME_MAX];
	auto_free char *key = NULL;
	struct fanout_item *item;

	if (!pod_name_of(name, q->address))
		return NULL;
	fanout_forget_pods(s->config.fanout, s->config.cluster);
	cluster_pod_want(
		s->config.cluster, ns, q->address, q->port, cluster_pod_asker(s->node, q->client));
	if (s->config.settle != NULL && cluster_dirty(s->config.cluster))
		s->config.settle(s->config.settle_arg);
	key = xasprintf("%s/%s", ns, name);
	item = fanout_find(s->config.fanout, key);
	return item != NULL && item->present ? item : NULL;
}

/* --- what the node holds -------------------------------------------------------------------- */

struct pods_held {
	struct node_session *session;
	struct fanout_item *item; /* that the ports belong to */
	const char *ns;
	char address[INET6_ADDRSTRLEN];
	size_t n, n_ports;
};

static void
pods_read_port(struct json *j, void *to)
{
	struct pods_held *h = to;
	uint64_t port;

	if (json_uint(j, UINT16_MAX, &port) && h->ns != NULL &&
		h->n_ports++ < CLUSTER_POD_PORTS_MAX)
		cluster_pod_want(h->session->config.cluster, h->ns, h->address, (uint16_t)port,
			cluster_pod_asker(h->session->node, 0));
}

/* "ns/172-17-0-5._pod": [8080, ...]; what is no pod any more is left out. */
static void
pods_read(struct json *j, void *to)
{
	struct pods_held *h = to;
	const char *slash = strchr(j->key, '/');
	auto_free char *ns = slash != NULL ? xstrndup(j->key, (size_t)(slash - j->key)) : NULL;

	if (++h->n > MESH_NODE_PODS_MAX)
		return;
	if (ns == NULL || !check_label(ns, strlen(ns)) ||
		!pod_name_address(slash + 1, h->address)) {
		json_wrong(j, "'%.60s' is no pod by its address", j->key);
		return;
	}
	h->ns = ns;
	h->n_ports = 0;
	cluster_pod_want(h->session->config.cluster, ns, h->address, 0, 0);
	json_list(j, pods_read_port, h);
	h->ns = NULL;
}

static void
pods_want(struct json *j, void *to)
{
	struct pods_held *h = to;
	struct fanout_item *item = fanout_find(h->session->config.fanout, j->key);

	if (item != NULL && item->present && item->pod)
		node_filter_want(&h->session->sight, h->session->config.fanout, item);
}

static void
pods_read_all(struct json *j, void *to)
{
	struct pods_held *h = to;
	struct node_session *s = h->session;

	json_map(j, pods_read, h);
	if (s->config.settle != NULL && json_ok(j) && cluster_dirty(s->config.cluster))
		s->config.settle(s->config.settle_arg);
	json_map(j, pods_want, h);
}

static int
pods_take(struct node_session *s, const char *text, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"pods", FIELD_CUSTOM, 0, 0, NULL, pods_read_all},
	};
	struct pods_held h = {.session = s};
	struct json j;

	json_init(&j, text, len);
	json_fields(&j, fields, ARRAY_LEN(fields), &h);
	return json_finish(&j, err);
}

void
node_session_ranges(struct node_session *s)
{
	const char *now = s->takes_ranges && s->config.ready && !s->ended
		? cluster_pod_ranges(s->config.cluster)
		: NULL;
	uint64_t hash = now != NULL ? hash64(now, strlen(now), 1) : 0;
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	if (now == NULL || hash == s->ranges)
		return;
	s->ranges = hash;
	buf_adds(&c, now);
	node_session_say(s, OP_UPDATE, "node/ranges", "", &c);
	outbox_send(&s->outbox);
}

void
node_session_pods(struct node_session *s, const struct envelope *e)
{
	struct err err = {0};

	if (s->takes_ranges) {
		node_session_complain(
			s, e->id, e->resource, "node/pods comes once on a connection");
		return;
	}
	s->takes_ranges = true;
	if (!s->config.ready) {
		free(s->pods_told);
		s->pods_told = xstrndup(e->content, e->content_len);
	} else if (pods_take(s, e->content, e->content_len, &err) < 0) {
		node_session_complain(s, e->id, e->resource, err.text);
	}
	node_session_ranges(s);
}

void
node_session_pods_ready(struct node_session *s)
{
	auto_free char *told = take_ptr(&s->pods_told);
	struct err err = {0};

	if (told != NULL && !s->ended && pods_take(s, told, strlen(told), &err) < 0)
		node_session_complain(s, "", "node/pods", err.text);
	node_session_ranges(s);
}

/* --- questions ------------------------------------------------------------------------------ */

static bool
pod_check_ns(const char *text, size_t len)
{
	return len == 0 || check_label(text, len);
}

static bool
pod_check_address(const char *text, size_t len)
{
	struct in6_addr ip;

	return len < INET6_ADDRSTRLEN && ip_parse(text, &ip);
}

static int
pod_query_read(struct pod_query *q, const struct envelope *e, struct err *err)
{
	static const struct field fields[] = {
		{"ns", FIELD_TEXT, offsetof(struct pod_query, ns), MESH_NAME_MAX, pod_check_ns,
			NULL},
		{"address", FIELD_TEXT, offsetof(struct pod_query, address), INET6_ADDRSTRLEN,
			pod_check_address, NULL},
		{"port", FIELD_UINT16, offsetof(struct pod_query, port), UINT16_MAX, NULL, NULL},
		{"client", FIELD_UINT16, offsetof(struct pod_query, client), UINT16_MAX, NULL,
			NULL},
		{"instead", FIELD_TEXT, offsetof(struct pod_query, instead),
			MESH_NAME_MAX + POD_NAME_MAX, NULL, NULL},
		{"name", FIELD_BOOL, offsetof(struct pod_query, name), 0, NULL, NULL},
	};
	struct json j;
	int rc;

	json_init(&j, e->content, e->content_len);
	json_fields(&j, fields, ARRAY_LEN(fields), q);
	rc = json_finish(&j, err);
	if (rc == 0 && (q->ns == NULL || q->address == NULL))
		rc = err_set(err, EBADMSG, "node/pod needs ns and address");
	return rc;
}

/* Adds it to what the node holds, if that is full instead of the pod that the query gives back. */
static bool
pod_want(struct node_session *s, const struct pod_query *q, struct fanout_item *item)
{
	struct fanout_item *old;

	if (node_filter_want(&s->sight, s->config.fanout, item))
		return true;
	old = q->instead != NULL ? fanout_find(s->config.fanout, q->instead) : NULL;
	if (old == NULL || !node_filter_unwant(&s->sight, s->config.fanout, old))
		return false;
	pending_add(&s->pending, old);
	return node_filter_want(&s->sight, s->config.fanout, item);
}

/* The word of the answer; *name, where there is one pod: its name under the cluster's domain. */
static const char *
pod_query_judge(struct node_session *s, const struct pod_query *q, const char **ns, char **name)
{
	struct cluster_place place;
	struct fanout_item *item;
	enum cluster_pod_found found;

	if (!s->config.ready ||
		!(q->name ? rate_count_take(
				    &s->pod_names, POD_NAMES_PER_S, POD_NAMES_BURST, mono_ms())
			  : rate_count_take(
				    &s->pod_asks, POD_ASKS_PER_S, POD_ASKS_BURST, mono_ms())))
		return "busy";
	found = cluster_pod_find(
		s->config.cluster, q->ns, q->address, q->name ? s->node : "", &place);
	if (found != CLUSTER_POD_ONE)
		return found == CLUSTER_POD_NONE ? "none" : "many";
	*name = cluster_pod_dns_name(s->config.cluster, &place, q->address);
	*ns = place.ns;
	if (q->name)
		return "one";
	item = pod_item(s, place.ns, q);
	if (item == NULL)
		return "none";
	if (item->restricted && !s->config.enforces)
		return "none";
	if (!pod_want(s, q, item)) {
		log_limited(LOG_LEVEL_WARN, 4, "hub",
			"a node asks for more than %d pods by their address node=%s pod=%s",
			MESH_NODE_PODS_MAX, s->node, item->key);
		return "full";
	}
	pending_add(&s->pending, item);
	return "one";
}

void
node_session_ask_pod(struct node_session *s, const struct envelope *e)
{
	struct pod_query q = {0};
	auto_free char *name = NULL;
	const char *ns = "", *found;
	auto_buf struct buf c;
	struct err err = {0};

	buf_init(&c, BUF_UNLIMITED);
	if (!s->live) {
		node_session_complain(s, e->id, e->resource, "digest/buckets must come first");
	} else if (pod_query_read(&q, e, &err) < 0) {
		node_session_complain(s, e->id, e->resource, err.text);
	} else {
		found = pod_query_judge(s, &q, &ns, &name);
		buf_printf(&c, "{\"found\":\"%s\",\"ns\":", found);
		json_add_text(&c, ns);
		buf_adds(&c, ",\"name\":");
		json_add_text(&c, name != NULL ? name : "");
		buf_adds(&c, "}");
		node_session_say(s, OP_RESPONSE, "node/pod", e->id, &c);
	}
	free(q.ns);
	free(q.address);
	free(q.instead);
}
