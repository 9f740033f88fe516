#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/buf.h"
#include "model/check.h"
#include "model/kube_private.h"
#include "model/mesh.h"

/*
 * DestinationRules as in Istio and EdgeMesh: only the part that a Service's annotations can also
 * express. The rest is reported, with its place, and ignored; it does not invalidate the part that
 * applies.
 */

enum {
	PARTLY_MAX = 300,
	OUTLIER_5XX_DEFAULT = 5 /* Istio's default when outlierDetection is present */
};

/* One rule being read. */
struct reading {
	struct decoder *d;
	struct kube_rule *r;
	const char *ns;
	struct buf partly;
};

static void printf_like(3, 4)
	leave_out(struct reading *g, const struct tree_node *at, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	kube_note(g->d, at, "%s", what);
	if (buf_len(&g->partly) < PARTLY_MAX)
		buf_printf(&g->partly, "%s%s", buf_len(&g->partly) > 0 ? "; " : "", what);
}

/* Is word one of words, which are separated by '|'? */
static bool
is_word_of(const char *words, const char *word)
{
	for (const char *at = words; *at != '\0'; at += *at == '|') {
		size_t len = strcspn(at, "|");

		if (len == strlen(word) && memcmp(at, word, len) == 0)
			return true;
		at += len;
	}
	return false;
}

/* The map parent.key: NULL when absent or not a map. Members other than `known` are reported as
 * ignored. */
static const struct tree_node *
open_map(struct reading *g, const struct tree_node *parent, const char *key, const char *known)
{
	const struct tree_node *map = tree_get(parent, key);

	if (tree_is_null(map))
		return NULL;
	if (map->kind != TREE_MAP) {
		leave_out(g, map, "%s: a map expected, it does not count", key);
		return NULL;
	}
	tree_each(map, n) {
		if (!tree_is_null(n) && !is_word_of(known, n->key))
			leave_out(g, n, "%s.%.60s is not supported", key, n->key);
	}
	return map;
}

/* --- the service it applies to -------------------------------------------------------------- */

/* The label up to the next dot, on the heap; *at moves past the dot, NULL at the end. */
static char *
next_label(const char **at)
{
	const char *from = *at, *dot = from != NULL ? strchr(from, '.') : NULL;

	*at = dot != NULL ? dot + 1 : NULL;
	if (from == NULL)
		return xstrdup("");
	return dot != NULL ? xstrndup(from, (size_t)(dot - from)) : xstrdup(from);
}

/* SERVICE, SERVICE.NS or SERVICE.NS.svc.DOMAIN, whatever the cluster calls its domain. */
static void
read_host(struct reading *g, const struct tree_node *spec, const struct tree_node *object)
{
	auto_free char *host = kube_text(g->d, spec, "host", NULL), *service = NULL, *ns = NULL,
		       *svc = NULL;
	const struct tree_node *n = tree_get(spec, "host");
	const char *at = host;
	size_t len = strlen(host);

	g->r->service = xstrdup("");
	if (len == 0) {
		kube_wrong(
			g->d, n != NULL ? n : object, "spec.host: the name of a Service expected");
		return;
	}
	if (host[len - 1] == '.')
		host[len - 1] = '\0';
	service = next_label(&at);
	ns = next_label(&at);
	svc = next_label(&at);
	if (!check_label(service, strlen(service)) || !check_label_or_empty(ns, strlen(ns)) ||
		(*svc != '\0' && strcmp(svc, "svc") != 0)) {
		leave_out(g, n,
			"host '%.80s' names no Service of the cluster, nothing of it counts", host);
		return;
	}
	/* Otherwise a user who may write to one namespace could change the Services of all. */
	if (*ns != '\0' && strcmp(ns, g->ns) != 0) {
		leave_out(g, n,
			"host '%.80s' is of another namespace, whose Services only rules of its "
			"own "
			"may change; nothing of it counts",
			host);
		return;
	}
	free(g->r->service);
	g->r->service = take_ptr(&service);
}

/* --- load balancing ------------------------------------------------------------------------- */

static void
read_simple(struct reading *g, const struct tree_node *balancer)
{
	static const struct {
		const char *word;
		enum lb_policy policy;
	} words[] = {
		{"UNSPECIFIED", LB_DEFAULT},
		{"RANDOM", LB_RANDOM},
		{"ROUND_ROBIN", LB_ROUND_ROBIN},
		{"LEAST_REQUEST", LB_LEAST_REQUEST},
		{"LEAST_CONN", LB_LEAST_REQUEST},
	};
	const struct tree_node *n = tree_get(balancer, "simple");

	if (tree_is_null(n))
		return;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(tree_text(n, "?"), words[i].word) != 0)
			continue;
		g->r->policy = (uint8_t)words[i].policy;
		return;
	}
	leave_out(g, n,
		"loadBalancer.simple: '%.40s' is not supported, RANDOM, ROUND_ROBIN and "
		"LEAST_REQUEST "
		"are",
		tree_text(n, "?"));
}

/* `on` in the syntax of the annotation edgeway.io/hash-on. Of several the first applies. */
static void
hash_on(struct reading *g, const struct tree_node *n, const char *on)
{
	int found;

	if (g->r->policy == LB_CONSISTENT_HASH) {
		leave_out(g, n, "consistentHash.%s is one too many", n->key);
		return;
	}
	found = hash_on_parse(on, &g->r->hash_key);
	if (found < 0) {
		leave_out(
			g, n, "consistentHash.%s: '%.64s' is no name", n->key, strchr(on, ':') + 1);
		return;
	}
	g->r->hash_on = (uint8_t)found;
	g->r->policy = LB_CONSISTENT_HASH;
}

static void
read_hash(struct reading *g, const struct tree_node *balancer)
{
	const struct tree_node *hash = open_map(g, balancer, "consistentHash",
		"httpHeaderName|httpCookie|useSourceIp|minimumRingSize|ringHash|maglev");
	const struct tree_node *header = tree_get(hash, "httpHeaderName");
	const struct tree_node *source = tree_get(hash, "useSourceIp");
	const struct tree_node *cookie = open_map(g, hash, "httpCookie", "name|path");

	if (hash != NULL && g->r->policy != LB_DEFAULT) {
		leave_out(g, tree_get(balancer, "simple"),
			"loadBalancer.simple beside consistentHash");
		g->r->policy = LB_DEFAULT;
	}
	if (!tree_is_null(header)) {
		auto_free char *on = xasprintf("header:%s", tree_text(header, ""));

		hash_on(g, header, on);
	}
	if (cookie != NULL) {
		auto_free char *on =
			xasprintf("cookie:%s", tree_text(tree_get(cookie, "name"), ""));

		hash_on(g, cookie, on);
	}
	if (!tree_is_null(source) && tree_bool(source, false))
		hash_on(g, source, "source-ip");
}

/* --- limits --------------------------------------------------------------------------------- */

/* "1h", "1m30s", "0.5s", "250ms", in ms; -EINVAL. */
static int
parse_duration(const char *text, uint64_t *ms)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {{"ms", 1000}, {"h", 3600000000}, {"m", 60000000}, {"s", 1000000}};
	const char *at = text;
	uint64_t total = 0;

	while (*at != '\0') {
		uint64_t value = 0, part = 1;
		size_t u = 0, digits = strspn(at, "0123456789"), decimals;

		if (digits > 9)
			return -EINVAL;
		for (size_t i = 0; i < digits; i++)
			value = value * 10 + (uint64_t)(*at++ - '0');
		decimals = *at == '.' ? strspn(++at, "0123456789") : 0;
		if (digits + decimals == 0 || decimals > 6)
			return -EINVAL;
		for (size_t i = 0; i < decimals; i++, part *= 10)
			value = value * 10 + (uint64_t)(*at++ - '0');
		while (u < ARRAY_LEN(units) &&
			strncmp(at, units[u].name, strlen(units[u].name)) != 0)
			u++;
		if (u == ARRAY_LEN(units))
			return -EINVAL;
		at += strlen(units[u].name);
		/* At most 15 digits, and an hour in µs: a value that overflows is no sensible
		 * timeout. */
		if (value > UINT64_MAX / units[u].us)
			return -EINVAL;
		total += MIN(value * units[u].us / part, (uint64_t)MESH_TIMEOUT_MAX_MS * 1001);
	}
	*ms = total / 1000;
	return at == text ? -EINVAL : 0;
}

static void
read_time(struct reading *g, const struct tree_node *n, const char *what, uint32_t *to)
{
	uint64_t ms = 0;

	if (tree_is_null(n))
		return;
	if (parse_duration(tree_text(n, ""), &ms) < 0 || ms < 1 || ms > MESH_TIMEOUT_MAX_MS)
		leave_out(g, n, "%s: '%.40s', a time such as 250ms or 3s expected, up to a day",
			what, tree_text(n, ""));
	else
		*to = (uint32_t)ms;
}

static void
read_pool(struct reading *g, const struct tree_node *policy)
{
	const struct tree_node *pool = open_map(g, policy, "connectionPool", "tcp");
	const struct tree_node *tcp = open_map(g, pool, "tcp", "maxConnections|connectTimeout");
	const struct tree_node *most = tree_get(tcp, "maxConnections");
	const struct tree_node *timeout = tree_get(tcp, "connectTimeout");
	int64_t v = 0;

	if (!tree_is_null(most) && tree_int(most, 1, MESH_CONNECTIONS_MAX, &v) < 0)
		leave_out(g, most, "tcp.maxConnections: 1 to %d expected", MESH_CONNECTIONS_MAX);
	else
		g->r->max_connections = (uint32_t)v;
	read_time(g, timeout, "tcp.connectTimeout", &g->r->connect_ms);
}

/* --- outlier ejection ----------------------------------------------------------------------- */

/* Consecutive 5xx responses, and the ejection time. Istio checks every `interval`, we at each
 * response; when too many endpoints are ejected, all are used, as if maxEjectionPercent were
 * 100. */
static void
read_outlier(struct reading *g, const struct tree_node *policy)
{
	const struct tree_node *outlier = open_map(g, policy, "outlierDetection",
		"consecutive5xxErrors|baseEjectionTime|interval|maxEjectionPercent");
	const struct tree_node *n = tree_get(outlier, "consecutive5xxErrors");
	const struct tree_node *percent = tree_get(outlier, "maxEjectionPercent");
	int64_t v = OUTLIER_5XX_DEFAULT;

	if (outlier == NULL)
		return;
	if (!tree_is_null(n) && tree_int(n, 0, MESH_OUTLIER_MAX, &v) < 0) {
		leave_out(g, n, "outlierDetection.consecutive5xxErrors: 0 to %d expected",
			MESH_OUTLIER_MAX);
		return;
	}
	g->r->outlier_5xx = (uint16_t)v;
	read_time(g, tree_get(outlier, "baseEjectionTime"), "outlierDetection.baseEjectionTime",
		&g->r->outlier_ms);
	if (!tree_is_null(percent) && (tree_int(percent, 0, 100, &v) < 0 || v != 100))
		leave_out(g, percent, "outlierDetection.maxEjectionPercent other than 100");
}

/* --- the whole rule ------------------------------------------------------------------------- */

char *
kube_created(const struct tree_node *n)
{
	static const char form[] = "0000-00-00T00:00:00Z";
	const char *text = tree_text(tree_path(n, "metadata.creationTimestamp"), "");

	if (strlen(text) != sizeof form - 1)
		return xstrdup("");
	for (size_t i = 0; form[i] != '\0'; i++)
		if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return xstrdup("");
	return xstrdup(text);
}

void
kube_rule_decode(struct decoder *d, const struct tree_node *n, const char *ns, struct kube_rule *r)
{
	struct reading g = {.d = d, .r = r, .ns = ns};
	const struct tree_node *spec, *policy, *balancer;

	buf_init(&g.partly, BUF_UNLIMITED);
	r->hash_key = xstrdup("");
	r->created = kube_created(n);
	spec = open_map(&g, n, "spec", "host|trafficPolicy");
	read_host(&g, spec, n);
	policy =
		open_map(&g, spec, "trafficPolicy", "loadBalancer|connectionPool|outlierDetection");
	balancer = open_map(&g, policy, "loadBalancer", "simple|consistentHash");
	read_simple(&g, balancer);
	read_hash(&g, balancer);
	read_pool(&g, policy);
	read_outlier(&g, policy);
	r->partly = buf_take_str(&g.partly);
}

void
kube_rule_fini(struct kube_rule *r)
{
	free(r->service);
	free(r->created);
	free(r->partly);
	free(r->hash_key);
}
