#include <errno.h>
#include <string.h>

#include "base/conf/opt_value.h"
#include "model/allow_from.h"
#include "model/check.h"
#include "model/kube_private.h"
#include "model/mesh.h"
#include "model/selector.h"

/*
 * Load-balancing and protection settings of a Service: annotations, session affinity, locality. A
 * mistake in an annotation must not make a service unavailable, so it is reported and the default
 * applies; what the API server itself would refuse makes the object invalid.
 */

enum { AFFINITY_DEFAULT_S = 10800 };

/* The annotations whose value is one number, duration or word. */
struct values {
	unsigned retries, max_connections, hash_balance, outlier_5xx;
	uint64_t connect_ms, request_ms, idle_ms, health_interval_ms, slow_start_ms, outlier_ms;
	int datapath; /* enum datapath - 1 */
};

#define ROW(type, member, key, ...) OPT_ROW(struct values, type, member, key, "", "", __VA_ARGS__)

/* clang-format off */
static const struct opt rows[] = {
	ROW(UINT, retries, "edgeway.io/retries", .max = MESH_RETRIES_MAX)
	ROW(UINT, max_connections, "edgeway.io/max-connections", .min = 1, .max = MESH_CONNECTIONS_MAX)
	ROW(DURATION, connect_ms, "edgeway.io/connect-timeout", .min = 1, .max = MESH_TIMEOUT_MAX_MS)
	ROW(DURATION, request_ms, "edgeway.io/request-timeout", .max = MESH_TIMEOUT_MAX_MS)
	ROW(DURATION, idle_ms, "edgeway.io/idle-timeout", .min = 1, .max = MESH_TIMEOUT_MAX_MS)
	ROW(DURATION, health_interval_ms, "edgeway.io/health-interval", .min = 100, .max = MESH_TIMEOUT_MAX_MS)
	ROW(DURATION, slow_start_ms, "edgeway.io/slow-start", .min = 100, .max = MESH_SLOW_START_MAX_MS)
	ROW(UINT, hash_balance, "edgeway.io/hash-balance", .min = 101, .max = MESH_HASH_BALANCE_MAX)
	ROW(UINT, outlier_5xx, "edgeway.io/outlier-5xx", .min = 1, .max = MESH_OUTLIER_MAX)
	ROW(DURATION, outlier_ms, "edgeway.io/outlier-time", .min = 1, .max = MESH_TIMEOUT_MAX_MS)
	ROW(ENUM, datapath, "edgeway.io/datapath", .words = "proxy|kernel")
};
/* clang-format on */

static void
decode_values(struct decoder *d, const struct tree_node *annotations, struct service_lb *lb)
{
	struct values v = {
		.retries = RETRIES_DEFAULT, .request_ms = REQUEST_MS_DEFAULT, .datapath = -1};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct tree_node *n = tree_get(annotations, rows[i].key);
		struct err err = {0};

		if (!tree_is_null(n) && opt_value_node(&rows[i], &v, n, &err) < 0)
			kube_note(d, n, "%s: %s; the node's own is used", rows[i].key, err.text);
	}
	lb->retries = (uint8_t)v.retries;
	lb->max_connections = v.max_connections;
	lb->connect_ms = (uint32_t)v.connect_ms;
	lb->request_ms = (uint32_t)v.request_ms;
	lb->idle_ms = (uint32_t)v.idle_ms;
	lb->health_interval_ms = (uint32_t)v.health_interval_ms;
	lb->slow_start_ms = (uint32_t)v.slow_start_ms;
	lb->hash_balance = (uint16_t)v.hash_balance;
	lb->outlier_5xx = (uint16_t)v.outlier_5xx;
	lb->outlier_ms = (uint32_t)v.outlier_ms;
	lb->datapath = (uint8_t)(v.datapath + 1);
}

/* Reports unknown annotations: a misspelt name would otherwise be ignored silently. */
static void
decode_unknown(struct decoder *d, const struct tree_node *annotations)
{
	static const char ours[] = "edgeway.io/",
			  *const others[] = {"lb-policy", "hash-on", "health-path", "mesh", "nodes",
				  "allow-from", "retry-on", "encrypt"};

	tree_each(annotations, n) {
		bool known = strncmp(n->key, ours, sizeof ours - 1) != 0;

		for (size_t i = 0; i < ARRAY_LEN(others) && !known; i++)
			known = strcmp(n->key + sizeof ours - 1, others[i]) == 0;
		for (size_t i = 0; i < ARRAY_LEN(rows) && !known; i++)
			known = strcmp(n->key, rows[i].key) == 0;
		if (!known)
			kube_note(d, n, "%.80s: no such annotation of a Service", n->key);
	}
}

/* What cannot be read must not have calls go in clear text. */
static void
decode_encrypt(struct decoder *d, const struct tree_node *annotations, struct service_lb *lb)
{
	static const char key[] = "edgeway.io/encrypt";
	const struct tree_node *n = tree_get(annotations, key);
	int encrypt = encrypt_parse(tree_text(n, ""));

	if (encrypt < 0 || (encrypt == ENCRYPT_DEFAULT && !tree_is_null(n))) {
		kube_note(d, n, "%s: '%.40s' is none of off, site and always; always is used", key,
			tree_text(n, ""));
		encrypt = ENCRYPT_ALWAYS;
	}
	lb->encrypt = (uint8_t)encrypt;
}

static void
decode_policy(struct decoder *d, const struct tree_node *annotations, struct service_lb *lb)
{
	static const char key[] = "edgeway.io/lb-policy";
	const struct tree_node *n = tree_get(annotations, key);
	int policy = lb_policy_parse(tree_text(n, ""));

	if (policy < 0)
		kube_note(d, n,
			"%s: '%.40s' is no policy, expected round-robin, random, least-request, "
			"ewma or consistent-hash; the node's own is used",
			key, tree_text(n, ""));
	else
		lb->policy = (uint8_t)policy;
}

static void
decode_retry_on(struct decoder *d, const struct tree_node *annotations, struct service_lb *lb)
{
	static const char key[] = "edgeway.io/retry-on";
	const struct tree_node *n = tree_get(annotations, key);
	int bits = retry_on_parse(tree_text(n, ""));

	if (tree_is_null(n))
		return;
	if (bits < 0)
		kube_note(d, n,
			"%s: '%.40s', expected some of 500, 502, 503, 504 and unavailable, such as "
			"\"503\" or \"502,503\"; no answer is asked for again",
			key, tree_text(n, ""));
	else
		lb->retry_on = (uint8_t)bits;
}

static void
decode_hash(struct decoder *d, const struct tree_node *annotations, struct kube_service *s)
{
	static const char key[] = "edgeway.io/hash-on";
	const struct tree_node *n = tree_get(annotations, key);
	int on;

	s->hash_key = xstrdup("");
	if (tree_is_null(n))
		return;
	on = hash_on_parse(tree_text(n, ""), &s->hash_key);
	if (on < 0) {
		kube_note(d, n,
			"%s: '%.64s', expected source-ip, header:NAME or cookie:NAME; source-ip is "
			"used",
			key, tree_text(n, ""));
		return;
	}
	s->lb.hash_on = (uint8_t)on;
	s->hash_given = true;
	if (s->lb.policy == LB_DEFAULT)
		s->lb.policy = LB_CONSISTENT_HASH;
	else if (s->lb.policy != LB_CONSISTENT_HASH)
		kube_note(d, n, "%s: of no use with edgeway.io/lb-policy: %s", key,
			lb_policy_name(s->lb.policy));
}

static void
decode_health(struct decoder *d, const struct tree_node *annotations, struct kube_service *s)
{
	static const char key[] = "edgeway.io/health-path";
	const struct tree_node *n = tree_get(annotations, key);
	const char *path = tree_text(n, "");

	s->health_path = xstrdup("");
	if (tree_is_null(n))
		return;
	if (!check_path(path, strlen(path))) {
		kube_note(d, n,
			"%s: '%.64s', expected a path of visible ASCII that begins with / and has "
			"at "
			"most %d bytes; no active health check",
			key, path, MESH_NODE_MAX);
		return;
	}
	free(s->health_path);
	s->health_path = xstrdup(path);
}

static void
decode_nodes(struct decoder *d, const struct tree_node *annotations, struct kube_service *s)
{
	static const char key[] = "edgeway.io/nodes";
	const struct tree_node *n = tree_get(annotations, key);
	struct selector *parsed;
	struct err err = {0};

	s->nodes = xstrdup("");
	s->nodes_wrong = xstrdup("");
	if (tree_is_null(n))
		return;
	if (selector_parse(&parsed, tree_text(n, "?"), &err) < 0) {
		free(s->nodes_wrong);
		s->nodes_wrong = xasprintf("%s: %s; all nodes are told of it", key, err.text);
		kube_note(d, n, "%s", s->nodes_wrong);
		return;
	}
	selector_free(&parsed);
	free(s->nodes);
	s->nodes = xstrdup(tree_text(n, ""));
}

/* An invalid text permits nobody: its author wanted to restrict callers. */
static void
decode_allow_from(struct decoder *d, const struct tree_node *meta, struct kube_service *s)
{
	static const char key[] = "edgeway.io/allow-from";
	const struct tree_node *n = tree_get(tree_get(meta, "annotations"), key);
	const char *text = tree_text(n, "?");
	struct allow_from *parsed = NULL;
	struct err err = {0};

	s->allow_from = xstrdup("");
	s->allow_from_wrong = xstrdup("");
	if (n == NULL)
		return;
	free(s->allow_from);
	if (strlen(text) > ALLOW_FROM_TEXT_MAX)
		err_set(&err, EINVAL, "longer than %d bytes", (int)ALLOW_FROM_TEXT_MAX);
	else
		allow_from_parse(&parsed, tree_is_null(n) ? "" : text,
			tree_text(tree_get(meta, "namespace"), "default"), &err);
	s->allow_from = xstrdup(parsed != NULL ? text : ALLOW_FROM_NONE);
	if (parsed == NULL) {
		free(s->allow_from_wrong);
		s->allow_from_wrong = xasprintf("%s: %s; nobody may call it", key, err.text);
		kube_note(d, n, "%s", s->allow_from_wrong);
	}
	allow_from_unref(&parsed);
}

static void
decode_affinity(struct decoder *d, const struct tree_node *spec, struct kube_service *s)
{
	const struct tree_node *word = tree_get(spec, "sessionAffinity");
	const struct tree_node *timeout =
		tree_path(spec, "sessionAffinityConfig.clientIP.timeoutSeconds");
	int64_t v = AFFINITY_DEFAULT_S;
	int rc;

	if (strcmp(tree_text(word, "None"), "None") == 0)
		return;
	if (strcmp(tree_text(word, ""), "ClientIP") != 0)
		kube_wrong(d, word, "sessionAffinity: None or ClientIP expected");
	rc = tree_int(timeout, 1, MESH_AFFINITY_MAX_S, &v);
	if (rc < 0 && rc != -ENOENT)
		kube_wrong(d, timeout, "timeoutSeconds: 1 to %d expected", MESH_AFFINITY_MAX_S);
	s->lb.affinity_s = (uint32_t)v;
}

/* Topology hints are in the EndpointSlices; service.kubernetes.io/topology-mode only requests
 * them. */
static void
decode_locality(struct decoder *d, const struct tree_node *spec, struct kube_service *s)
{
	const struct tree_node *internal = tree_get(spec, "internalTrafficPolicy");
	const struct tree_node *distribution = tree_get(spec, "trafficDistribution");
	const char *policy = tree_text(internal, "Cluster"), *word = tree_text(distribution, "");

	s->local_only = strcmp(policy, "Local") == 0;
	if (!s->local_only && strcmp(policy, "Cluster") != 0)
		kube_wrong(d, internal, "internalTrafficPolicy: Cluster or Local expected");
	if (strcmp(word, "PreferSameNode") == 0)
		s->distribution = DISTRIBUTE_NODE;
	else if (strcmp(word, "PreferSameZone") == 0 || strcmp(word, "PreferClose") == 0)
		s->distribution = DISTRIBUTE_ZONE;
	else if (*word != '\0')
		/* Later Kubernetes versions may have more values; proxies must ignore unknown
		 * ones. */
		kube_note(d, distribution,
			"trafficDistribution: '%.40s', expected PreferClose, PreferSameZone or "
			"PreferSameNode; all endpoints are alike",
			word);
}

void
kube_policy_decode(struct decoder *d, const struct tree_node *n, struct kube_service *s)
{
	const struct tree_node *annotations = tree_path(n, "metadata.annotations");
	const struct tree_node *spec = tree_get(n, "spec");

	if (!tree_is_null(annotations) && annotations->kind != TREE_MAP) {
		kube_note(d, annotations, "metadata.annotations: a map expected; none is read");
		annotations = NULL;
	}
	decode_unknown(d, annotations);
	decode_values(d, annotations, &s->lb);
	decode_policy(d, annotations, &s->lb);
	decode_encrypt(d, annotations, &s->lb);
	decode_retry_on(d, annotations, &s->lb);
	decode_hash(d, annotations, s);
	decode_health(d, annotations, s);
	decode_nodes(d, annotations, s);
	decode_allow_from(d, tree_get(n, "metadata"), s);
	decode_affinity(d, spec, s);
	decode_locality(d, spec, s);
}
