#include "hub/hub_private.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"

enum {
	EXPLAIN_LOG_ROUNDS =
		5, /* rounds that a finding must last: a Service often exists before its pods */
	EXPLAIN_LOG_ALONE = 3, /* more findings of a kind at once share a log line */
	UNSERVED_MAX = 16384, /* services of nodes reported by Events, per reason */
	EXPLAIN_HELD =
		/* in addition to the reasons of unserved_why: nodes refuse it as it is */
	UNSERVED_WHYS,
	EXPLAIN_ROWS,
};

/* The services that nodes cannot serve, sorted by service, then by node. */
struct unserved_rows {
	struct row {
		const char *key, *node, *reason; /* borrowed; reason: of refused services */
	} * rows;
	size_t n;
};

static void
explain_add_row(struct unserved_rows *u, const char *key, const char *node, const char *reason)
{
	if (u->n == UNSERVED_MAX)
		return;
	if ((u->n & (u->n - 1)) == 0)
		u->rows = xrealloc(u->rows, MAX(u->n * 2, (size_t)1) * sizeof *u->rows);
	u->rows[u->n++] = (struct row){key, node, reason};
}

static void
add_unserved(void *arg, enum unserved_why why, const char *key, const char *node)
{
	explain_add_row(&((struct unserved_rows *)arg)[why], key, node, NULL);
}

static void
explain_add_held(void *arg, const char *key, const char *node, const char *reason)
{
	explain_add_row(&((struct unserved_rows *)arg)[EXPLAIN_HELD], key, node, reason);
}

static int
compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	return order != 0 ? order : strcmp(x->node, y->node);
}

/* The first node that cannot serve it: the same node for as long as it reports so, since each text
 * makes an Event. NULL: none. */
static const struct row *
find_unserved(const struct unserved_rows *u, const char *key)
{
	size_t low = 0, high = u->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(u->rows[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < u->n && strcmp(u->rows[low].key, key) == 0 ? &u->rows[low] : NULL;
}

/* Describes the nodes' reports on it; on the heap. NULL: none. */
static char *
explain_unserved(const struct unserved_rows unserved[], const char *key, const char **kind)
{
	const struct row *row = find_unserved(&unserved[EXPLAIN_HELD], key);

	if (row != NULL) {
		*kind = EVENT_HELD;
		return xasprintf("some nodes, such as %s, refuse it as it is, and keep what they "
				 "knew of it before: %s",
			row->node, row->reason);
	}
	if ((row = find_unserved(&unserved[UNSERVED_ADDRESS], key)) != NULL) {
		*kind = EVENT_EXHAUSTED;
		return xasprintf("no fake IP is left for it on some nodes, such as %s: its name "
				 "does not exist there; choose a larger mesh.subnet",
			row->node);
	}
	if ((row = find_unserved(&unserved[UNSERVED_PORTS], key)) != NULL) {
		*kind = EVENT_PORTS;
		return xasprintf("some nodes, such as %s, do not serve a port of it to callers "
				 "from outside: a process there, or another Service, has it, or it "
				 "is UDP with restricted callers; edgewayctl nodeports on the node "
				 "tells which",
			row->node);
	}
	if ((row = find_unserved(&unserved[UNSERVED_REFUSED], key)) == NULL)
		return NULL;
	*kind = EVENT_REFUSED;
	return xasprintf(
		"some nodes, such as %s, refuse an endpoint because of what its address is there; "
		"edgewayctl endpoints on the node names it; where that is meant, "
		"name it in lb.allow of the agents",
		row->node);
}

/* The Event's reason for a finding of the hub itself. */
static const char *
explain_event(const struct hub_service *found)
{
	static const char *const kinds[HUB_SERVICE_KINDS] = {
		[CLUSTER_LIMITS] = EVENT_LIMITS,
		[CLUSTER_NODES_SELECTOR] = EVENT_SELECTOR,
		[CLUSTER_ALLOW_FROM] = EVENT_ALLOW_FROM,
		[CLUSTER_REFUSED] = EVENT_REFUSED,
	};

	return kinds[found->kind] != NULL ? kinds[found->kind] : EVENT_UNREACHABLE;
}

static void
hub_explain_explain(const struct hub *hub, struct kube_events *events, const char *key,
	const struct unserved_rows unserved[])
{
	const char *name = strchr(key, '/') + 1, *kind;
	auto_free char *ns = xstrndup(key, (size_t)(name - 1 - key));
	auto_free char *text = NULL, *rules = cluster_rule_problem(hub->cluster, ns, name);
	struct hub_service found;

	hub_service_look(hub, ns, name, &found);
	kind = explain_event(&found);
	kube_events_tell(events, ns, name, EVENT_RULE, rules);
	/* A node's report must not hide what the hub itself finds. That pods are not ready is no
	 * Event: Kubernetes has its own. */
	if (found.class == FINDING_INFO || found.kind == HUB_SERVICE_NOT_READY ||
		found.text[0] == '\0')
		text = explain_unserved(unserved, key, &kind);
	else
		text = xstrdup(found.text);
	kube_events_tell(events, ns, name, kind, text != NULL ? text : "");
}

/* --- the log -------------------------------------------------------------------------------- */

/* New findings of one kind that have lasted long enough to be logged. */
struct explain_fresh {
	size_t n;
	char *lines[EXPLAIN_LOG_ALONE]; /* of the first of them */
};

static void
explain_note(struct hub *hub, uint32_t index, const char *key, struct explain_fresh fresh[])
{
	const char *name = strchr(key, '/') + 1;
	auto_free char *ns = xstrndup(key, (size_t)(name - 1 - key));
	struct hub_service_said *said = &hub->said[index];
	struct explain_fresh *to;
	struct hub_service found;

	hub_service_look(hub, ns, name, &found);
	hub->service_counts[found.kind]++;
	if (said->kind != found.kind)
		*said = (struct hub_service_said){.kind = (uint8_t)found.kind};
	if (found.class == FINDING_INFO || said->rounds > EXPLAIN_LOG_ROUNDS ||
		said->rounds++ < EXPLAIN_LOG_ROUNDS)
		return;
	to = &fresh[found.kind];
	if (to->n++ < EXPLAIN_LOG_ALONE)
		to->lines[to->n - 1] = xasprintf("service=%s reason=\"%s\"", key, found.text);
}

static void
explain_log(struct explain_fresh *fresh, enum hub_service_kind kind)
{
	const char *class = finding_word(hub_service_class(kind)), *word = hub_service_word(kind);

	if (fresh->n > EXPLAIN_LOG_ALONE)
		log_limited(LOG_LEVEL_WARN, 20, "hub",
			"services do not work as they are; edgewayctl status names them class=%s "
			"problem=%s services=%zu such as %s",
			class, word, fresh->n, fresh->lines[0]);
	for (size_t i = 0; i < MIN(fresh->n, (size_t)EXPLAIN_LOG_ALONE); i++) {
		if (fresh->n <= EXPLAIN_LOG_ALONE)
			log_limited(LOG_LEVEL_WARN, 20, "hub",
				"a service does not work as it is class=%s problem=%s %s", class,
				word, fresh->lines[i]);
		free(fresh->lines[i]);
	}
}

/* Counts the services by finding, and logs the new findings. */
static void
explain_count(struct hub *hub)
{
	struct explain_fresh fresh[HUB_SERVICE_KINDS] = {0};
	uint32_t slots = fanout_slots(hub->fanout);

	if (slots > hub->n_said) {
		hub->said = xrealloc(hub->said, slots * sizeof *hub->said);
		memset(hub->said + hub->n_said, 0, (slots - hub->n_said) * sizeof *hub->said);
		hub->n_said = slots;
	}
	memset(hub->service_counts, 0, sizeof hub->service_counts);
	for (uint32_t i = 0; i < slots; i++) {
		const struct fanout_item *item = fanout_at(hub->fanout, i);

		if (item != NULL && item->present && strchr(strchr(item->key, '/'), '.') == NULL)
			explain_note(hub, i, item->key, fresh);
	}
	for (unsigned kind = 0; kind < HUB_SERVICE_KINDS; kind++)
		explain_log(&fresh[kind], (enum hub_service_kind)kind);
}

/* --- Events --------------------------------------------------------------------------------- */

struct explaining {
	const struct hub *hub;
	struct kube_events *events;
};

/* A Service that nodes never got: no item represents it. */
static void
explain_beyond(void *arg, const char *ns, const char *name, const char *reason)
{
	const struct explaining *to = arg;
	auto_free char *key = xasprintf("%s/%s", ns, name);
	const struct fanout_item *item = fanout_find(to->hub->fanout, key);

	if (strchr(name, '.') == NULL && (item == NULL || !item->present))
		kube_events_tell(to->events, ns, name, EVENT_LIMITS, reason);
}

/* A route that does not count as it is: by the replica that writes the status of routes. */
static void
explain_route(void *arg, enum kube_kind kind, const char *ns, const char *name, const char *problem)
{
	const struct explaining *to = arg;

	if (*problem == '\0' || route_status_leads(to->hub->route_status))
		kube_events_tell(to->events, ns, name,
			kind == KUBE_GRPCROUTE ? EVENT_GRPCROUTE : EVENT_HTTPROUTE, problem);
}

static void
on_source(void *arg, const char *node, const char *address)
{
	node_sites_saw(arg, node, address);
}

static void
explain_events(const struct hub *hub, struct kube_events *events)
{
	struct unserved_rows unserved[EXPLAIN_ROWS] = {0};
	struct explaining to = {hub, events};

	if (hub->nodes != NULL) {
		nodes_sources(hub->nodes, on_source, hub->sites);
		nodes_unserved(hub->nodes, add_unserved, unserved);
		nodes_held(hub->nodes, explain_add_held, unserved);
	}
	for (size_t i = 0; i < EXPLAIN_ROWS; i++)
		if (unserved[i].n > 1)
			qsort(unserved[i].rows, unserved[i].n, sizeof *unserved[i].rows,
				compare_rows);
	kube_events_begin(events);
	for (uint32_t i = 0; i < fanout_slots(hub->fanout); i++) {
		const struct fanout_item *item = fanout_at(hub->fanout, i);

		/* A name with a dot is a pod's own view, not a Service. */
		if (item != NULL && item->present && strchr(strchr(item->key, '/'), '.') == NULL)
			hub_explain_explain(hub, events, item->key, unserved);
	}
	cluster_each_beyond(hub->cluster, explain_beyond, &to);
	if (hub->route_status != NULL)
		cluster_each_route_problem(hub->cluster, explain_route, &to);
	kube_events_end(events);
	for (size_t i = 0; i < EXPLAIN_ROWS; i++)
		free(unserved[i].rows);
}

/* --- other replicas ------------------------------------------------------------------------- */

static void
explain_count_lacking(void *arg, const struct node_session *talk)
{
	struct node_session_facts facts;

	node_session_facts(talk, &facts);
	*(size_t *)arg += facts.held > 0 || facts.unserved > 0;
}

/* Tells the other replicas what only this one knows, so that they can report it, too. */
static void
explain_tell_peers(const struct hub *hub)
{
	const struct share *share = authority_share(hub->authority);
	const char *waits = hub_waits(hub), *unwritten = hub_unwritten(hub),
		   *source = hub->kubernetes != NULL ? kubernetes_problem(hub->kubernetes) : "";
	size_t broken = hub->manifests != NULL ? manifests_broken(hub->manifests) : 0, lacking = 0;
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (waits[0] != '\0')
		buf_printf(&text, "; not ready: %s", waits);
	if (source[0] != '\0')
		buf_printf(&text, "; Kubernetes: %s", source);
	if (share != NULL && share_problem(share)[0] != '\0')
		buf_printf(&text, "; shared Secrets: %s", share_problem(share));
	if (broken > 0)
		buf_printf(&text, "; %zu manifests with errors", broken);
	if (hub->disk_problem != NULL)
		buf_printf(&text, "; %s", hub->disk_problem);
	if (unwritten[0] != '\0')
		buf_printf(&text, "; %s", unwritten);
	if (hub->nodes != NULL)
		nodes_each(hub->nodes, explain_count_lacking, &lacking);
	if (lacking > 0)
		buf_printf(&text, "; %zu of its nodes refuse services or have no address for some",
			lacking);
	peers_tell_trouble(hub->peers, buf_len(&text) > 0 ? buf_str(&text) + 2 : "");
}

void
hub_explain(struct hub *hub)
{
	struct kube_events *events =
		hub->kubernetes != NULL ? kubernetes_events(hub->kubernetes) : NULL;

	hub_service_begin(hub);
	cluster_look_near(hub->cluster);
	explain_count(hub);
	explain_tell_peers(hub);
	if (events != NULL)
		explain_events(hub, events);
}
