#include "hub/sync/node_sites.h"

#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "hub/kube/follow.h"
#include "model/json.h"
#include "model/mesh.h"
#include "model/table.h"

enum { ANSWER_MS = 8000, ADDRESS_MAX = 63 };

/* An annotation to write to a Node. */
struct note {
	struct note *next;
	struct table_node by_node;
	char node[MESH_NODE_MAX + 1], source[ADDRESS_MAX + 1]; /* "": remove it */
};

struct node_sites {
	struct node_sites_config config;
	struct note *first, **last;
	struct table by_node; /* of them */
	size_t n_waiting;
	struct https_request *request; /* writes the first note */
	struct timer *timer;
	struct kube_wait wait;
	uint64_t noted;
	char problem[400];
};

static void node_sites_work(void *arg);

static uint64_t
note_hash(const char *node)
{
	return hash64(node, strlen(node), 0);
}

static struct note *
node_sites_find(const struct node_sites *s, const char *node)
{
	struct table_node *at = table_first(&s->by_node, note_hash(node));

	for (; at != NULL; at = table_next(at)) {
		struct note *n = container_of(at, struct note, by_node);

		if (strcmp(n->node, node) == 0)
			return n;
	}
	return NULL;
}

static void
drop_first(struct node_sites *s)
{
	struct note *n = s->first;

	s->first = n->next;
	if (s->first == NULL)
		s->last = &s->first;
	s->n_waiting--;
	table_remove(&s->by_node, &n->by_node);
	free(n);
}

/* A note that is refused repeatedly must not delay the others. */
static void
first_to_tail(struct node_sites *s)
{
	struct note *n = s->first;

	if (n->next == NULL)
		return;
	s->first = take_ptr(&n->next);
	*s->last = n;
	s->last = &n->next;
}

static void
node_sites_add(struct node_sites *s, const char *node, const char *source)
{
	struct note *n;

	if (s->n_waiting >= NODE_SITES_WAITING_MAX || node_sites_find(s, node) != NULL)
		return; /* node_sites_saw comes again */
	n = xcalloc(1, sizeof *n);
	snprintf(n->node, sizeof n->node, "%s", node);
	snprintf(n->source, sizeof n->source, "%s", source);
	*s->last = n;
	s->last = &n->next;
	table_add(&s->by_node, &n->by_node, note_hash(node));
	s->n_waiting++;
}

static int
on_data(void *arg, const char *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return 0; /* the watch of Nodes reports the change */
}

static void
on_done(void *arg, const struct https_answer *answer)
{
	struct node_sites *s = arg;
	char why[sizeof s->problem];

	s->request = NULL;
	if (answer->status == 200)
		log_info("kubernetes",
			"noted a node's source address as its site node=%s source=%s",
			s->first->node, s->first->source[0] != '\0' ? s->first->source : "(none)");
	if (answer->status == 200 || answer->status == 404) {
		s->noted += answer->status == 200;
		s->problem[0] = '\0';
		kube_wait_reset(&s->wait);
		drop_first(s);
		timer_start(s->timer, 0, 0);
		return;
	}
	follow_describe(answer, "Nodes",
		"the verb patch on nodes (deploy/kubernetes/rbac-sites.yaml)", why, sizeof why);
	if (strcmp(why, s->problem) != 0)
		log_limited(LOG_LEVEL_WARN, 6, "kubernetes", "%s", why);
	memcpy(s->problem, why, sizeof why);
	first_to_tail(s);
	timer_start(s->timer, kube_wait_ms(&s->wait, answer), 0);
}

static void
node_sites_work(void *arg)
{
	struct node_sites *s = arg;
	auto_free char *path = NULL;
	auto_buf struct buf b;
	struct https_call call = {
		.method = "PATCH",
		.type = "application/merge-patch+json",
		.silence_ms = ANSWER_MS,
		.data = on_data,
		.done = on_done,
		.arg = s,
	};

	buf_init(&b, BUF_UNLIMITED);
	if (s->request != NULL || s->first == NULL)
		return;
	path = xasprintf("/api/v1/nodes/%s", s->first->node);
	buf_adds(&b, "{\"metadata\":{\"annotations\":{\"" KUBE_SOURCE_ADDRESS "\":");
	if (s->first->source[0] != '\0')
		json_add_text(&b, s->first->source);
	else
		buf_adds(&b, "null");
	buf_adds(&b, "}}}");
	call.path = path;
	call.body = buf_str(&b);
	s->request = kube_api_start(s->config.api, &call);
}

/* "192.0.2.1:400", "[2001:db8::1]:400" */
static void
host_of(char to[ADDRESS_MAX + 1], const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon != NULL ? (size_t)(colon - address) : strlen(address);

	if (len >= 2 && address[0] == '[') {
		address++;
		len -= 2;
	}
	snprintf(to, ADDRESS_MAX + 1, "%.*s", (int)MIN(len, (size_t)ADDRESS_MAX), address);
}

void
node_sites_saw(struct node_sites *s, const char *node, const char *address)
{
	struct cluster_source known;
	char host[ADDRESS_MAX + 1];
	const char *want;

	host_of(host, address);
	if (cluster_node_source(s->config.cluster, node, host, &known) < 0)
		return;
	want = known.site_given || known.own ? "" : host;
	if (strcmp(known.noted, want) == 0)
		return;
	if (!s->config.note) {
		if (want[0] != '\0')
			log_limited(LOG_LEVEL_WARN, 4, "hub",
				"a node comes from behind NAT and has no site: others may take a "
				"stranger's address for one of its site; label its Node "
				"edgeway.io/site, or set source.kubernetes.sites node=%s source=%s",
				node, host);
		return;
	}
	node_sites_add(s, node, want);
	if (s->request == NULL && !timer_active(s->timer))
		timer_start(s->timer, 0, 0);
}

struct node_sites *
node_sites_start(const struct node_sites_config *config)
{
	struct node_sites *s = xcalloc(1, sizeof *s);

	s->config = *config;
	s->last = &s->first;
	s->timer = timer_new(config->loop, node_sites_work, s);
	return s;
}

void
node_sites_stop(struct node_sites **out)
{
	struct node_sites *s = take_ptr(out);

	if (s == NULL)
		return;
	https_stop(&s->request);
	timer_free(&s->timer);
	while (s->first != NULL)
		drop_first(s);
	table_fini(&s->by_node);
	free(s);
}

void
node_sites_state(const struct node_sites *s, struct buf *out)
{
	buf_printf(out,
		"{\"noted\":%llu,\"waiting\":%zu,\"problem\":", (unsigned long long)s->noted,
		s->n_waiting);
	json_add_text(out, s->problem);
	buf_adds(out, "}");
}
