#include "hub/page/web_tell.h"

#include <string.h>

#include "model/json.h"

enum {
	ATTENTION_DAY_S = 86400,
	ATTENTION_CA_S = 90 * ATTENTION_DAY_S, /* so long before its expiry a CA is reported */
	ATTENTION_CERT_S = 14 * ATTENTION_DAY_S,
	/* but only in the last sixth of its lifetime: both are renewed earlier */
	ATTENTION_PART = 6,
	ATTENTION_SETTLE_MS =
		/* a node that has just connected has no tunnel yet, and gets many changes */
	15 * 1000,
};

/* One kind of problem: a list with the first few names, and the total. */
struct attention {
	const struct tell *tell;
	struct buf *out;
	uint64_t now_ms; /* since 1970 */
	const char *kind;
	size_t total;
	bool any; /* there was a kind before */
};

static void
attention_begin(struct attention *a, const char *kind)
{
	a->kind = kind;
	a->total = 0;
}

/* since_ms: since 1970; 0: unknown. For a certificate: its expiry. */
static void
attention_add(struct attention *a, const char *name, const char *text, uint64_t since_ms)
{
	if (a->total++ >= TELL_NAMED)
		return;
	if (a->total == 1)
		buf_printf(a->out, "%s{\"kind\":\"%s\",\"rows\":[", a->any ? "," : "", a->kind);
	a->any = true;
	buf_adds(a->out, a->total > 1 ? ",{\"name\":" : "{\"name\":");
	json_add_text(a->out, name);
	buf_adds(a->out, ",\"text\":");
	json_add_text(a->out, text);
	buf_printf(a->out, ",\"since\":%llu}", (unsigned long long)since_ms);
}

static void
attention_end(struct attention *a)
{
	if (a->total > 0)
		buf_printf(a->out, "],\"total\":%zu}", a->total);
}

/* --- nodes ---------------------------------------------------------------------------------- */

static bool
attention_is_late(int64_t from_s, int64_t to_s, int64_t before_s, uint64_t now_ms)
{
	int64_t part = (to_s - from_s) / ATTENTION_PART;

	return to_s > 0 && to_s - (int64_t)(now_ms / 1000) < MIN(before_s, part);
}

/* The node's problem, as text for its row; NULL: none of this kind. */
typedef const char *attention_node_fn(const struct attention *a, const struct survey_node *n);

static const char *
attention_away(const struct attention *a, const struct survey_node *n)
{
	return n->health == SURVEY_DOWN ? survey_text(a->tell->survey, n->site) : NULL;
}

static const char *
attention_behind(const struct attention *a, const struct survey_node *n)
{
	if (n->lags_since_ms == 0 || a->now_ms - n->lags_since_ms < ATTENTION_SETTLE_MS)
		return NULL;
	return n->unserved > 0 ? "it refuses services, or has no fake IP left for them"
			       : "it does not acknowledge changes";
}

static const char *
attention_bare(const struct attention *a, const struct survey_node *n)
{
	return n->health == SURVEY_BARE && a->now_ms - n->since_ms > ATTENTION_SETTLE_MS
		? survey_text(a->tell->survey, n->site)
		: NULL;
}

static void
attention_nodes(struct attention *a, const char *kind, attention_node_fn *fn)
{
	const struct survey_node *list;
	size_t n = survey_nodes(a->tell->survey, &list);

	attention_begin(a, kind);
	for (size_t i = 0; i < n; i++) {
		const char *text = fn(a, &list[i]);

		if (text != NULL)
			attention_add(a, survey_text(a->tell->survey, list[i].name), text,
				list[i].connected ? list[i].since_ms : list[i].seen_ms);
	}
	attention_end(a);
}

/* --- services ------------------------------------------------------------------------------- */

typedef bool attention_service_fn(const struct service_summary *s);

static bool
attention_idle(const struct service_summary *s)
{
	return s->counts.idle && !s->fault;
}

static bool
attention_fault(const struct service_summary *s)
{
	return s->fault;
}

static bool
attention_partly(const struct service_summary *s)
{
	return service_is_partly(s) && !s->fault;
}

static void
attention_services(struct attention *a, const char *kind, attention_service_fn *fn)
{
	const struct service_summary *const *list;
	size_t n = survey_services(a->tell->survey, &list);

	attention_begin(a, kind);
	for (size_t i = 0; i < n; i++) {
		const struct service_summary *s = list[i];
		const char *slash = strchr(s->key, '/');
		auto_free char *ns = NULL, *text = NULL;

		if (!fn(s))
			continue;
		ns = xstrndup(s->key, (size_t)(slash - s->key));
		if (fn == attention_partly)
			text = xasprintf("%u of %u endpoints do not serve",
				s->counts.endpoints - s->counts.ready, s->counts.endpoints);
		attention_add(a, s->key,
			text != NULL ? text : cluster_reason(a->tell->from->cluster, ns, slash + 1),
			0);
	}
	attention_end(a);
}

/* One row per service, whichever of its nodes reports it. */
static void
attention_dead(struct attention *a)
{
	const struct dead_row *list;
	size_t n = dead_list(a->tell->dead, &list), next;

	attention_begin(a, "dead");
	for (size_t i = 0; i < n; i = next) {
		auto_free char *text = NULL;
		unsigned most = 0;

		for (next = i; next < n && strcmp(list[next].service, list[i].service) == 0; next++)
			most = MAX(most, list[next].endpoints);
		text = next - i > 1 ? xasprintf("%u endpoint%s, say %s and %zu other node%s", most,
					      most == 1 ? "" : "s", list[i].node, next - i - 1,
					      next - i == 2 ? "" : "s")
				    : xasprintf("%u endpoint%s, says %s", most,
					      most == 1 ? "" : "s", list[i].node);
		attention_add(a, list[i].service, text, 0);
	}
	attention_end(a);
}

/* --- source, certificates ------------------------------------------------------------------- */

static void
attention_on_problem(void *arg, const char *name, const char *problem)
{
	attention_add(arg, name, problem, 0);
}

static void
attention_sources(struct attention *a)
{
	attention_begin(a, "manifests");
	if (a->tell->from->manifests != NULL)
		manifests_each_problem(a->tell->from->manifests, attention_on_problem, a);
	attention_end(a);
	attention_begin(a, "kubernetes");
	if (a->tell->from->kubernetes != NULL)
		kubernetes_each_problem(a->tell->from->kubernetes, attention_on_problem, a);
	attention_end(a);
}

static void
attention_certificates(struct attention *a)
{
	const struct certs *certs = a->tell->from->certs;
	struct certs_term ca, hub;

	if (certs == NULL)
		return;
	certs_terms(certs, &ca, &hub);
	attention_begin(a, "hubCertificates");
	if (attention_is_late(ca.from_s, ca.to_s, ATTENTION_CA_S, a->now_ms))
		attention_add(a, "CA", "every node is turned away then", (uint64_t)ca.to_s * 1000);
	if (attention_is_late(hub.from_s, hub.to_s, ATTENTION_CERT_S, a->now_ms))
		attention_add(a, "hub", "every node refuses it then", (uint64_t)hub.to_s * 1000);
	attention_end(a);
}

static void
attention_node_certificates(struct attention *a)
{
	const struct survey_node *list;
	size_t n = survey_nodes(a->tell->survey, &list);
	int64_t life_s =
		a->tell->from->certs != NULL ? (int64_t)certs_node_life_s(a->tell->from->certs) : 0;

	attention_begin(a, "nodeCertificates");
	for (size_t i = 0; i < n; i++) {
		if (list[i].tunnel &&
			attention_is_late(list[i].ends_s - life_s, list[i].ends_s, ATTENTION_CERT_S,
				a->now_ms))
			attention_add(a, survey_text(a->tell->survey, list[i].name), "",
				(uint64_t)list[i].ends_s * 1000);
	}
	attention_end(a);
}

/* "attention":[{"kind","rows":[{"name","text","since"},...],"total"},...]: the worst kind first,
 * without empty kinds. */
void
tell_attention(const struct tell *t, struct buf *out)
{
	struct attention a = {.tell = t, .out = out, .now_ms = wall_ms()};

	buf_adds(out, "\"attention\":[");
	attention_certificates(&a);
	attention_nodes(&a, "away", attention_away);
	attention_services(&a, "faults", attention_fault);
	attention_services(&a, "idle", attention_idle);
	attention_sources(&a);
	attention_dead(&a);
	attention_services(&a, "partly", attention_partly);
	attention_nodes(&a, "behind", attention_behind);
	attention_nodes(&a, "bare", attention_bare);
	attention_node_certificates(&a);
	buf_adds(out, "]");
}
