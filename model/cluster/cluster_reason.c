/*
 * Explanations of a service: problems, of which one is reported, and pods reached only through the
 * hub, which is not a problem. Only the hub knows whether it can reach them (hub/hub_explain.c), so
 * their nodes are stored too.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/cluster/cluster_private.h"
#include "model/limits.h"
#include "model/mesh.h"

static const struct {
	const char *word;
	enum finding_class class;
} problems[] = {
	[CLUSTER_LIMITS] = {"limits", FINDING_FAULT},
	[CLUSTER_NODES_SELECTOR] = {"nodes_selector", FINDING_FAULT},
	[CLUSTER_ALLOW_FROM] = {"allow_from", FINDING_FAULT},
	[CLUSTER_REFUSED] = {"refused", FINDING_FAULT},
	[CLUSTER_TARGET_PORT] = {"target_port", FINDING_FAULT},
	[CLUSTER_NO_ENDPOINTS] = {"no_endpoints", FINDING_WARNING},
	[CLUSTER_PARTLY] = {"partly", FINDING_WARNING},
	[CLUSTER_WELL] = {"", FINDING_INFO},
};

const char *
cluster_problem_word(enum cluster_problem problem)
{
	return problems[problem].word;
}

enum finding_class
cluster_problem_class(enum cluster_problem problem)
{
	return problems[problem].class;
}

void
cluster_reasons_fini(struct reasons *why)
{
	free(why->text);
	free(why->behind);
	free(why->nodes);
	*why = (struct reasons){.problem = CLUSTER_WELL};
}

void
cluster_reasons_set(struct reasons *why, enum cluster_problem problem, char *text)
{
	if (problem >= why->problem) {
		free(text);
		return;
	}
	free(why->text);
	why->text = text;
	why->problem = problem;
}

void
join_explain(struct joining *j, enum cluster_problem problem, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (j->quiet || problem >= j->why.problem)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	cluster_reasons_set(&j->why, problem, xasprintf("port %u: %s", j->at->port, text));
}

void
join_beyond(struct joining *j, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (j->beyond == NULL)
		j->beyond = xasprintf("beyond what a node takes: %s", text);
}

/* One allocation for all nodes: tens of thousands of services may have the maximum number. */
static void
reason_keep_node(struct reasons *why, const char *node)
{
	size_t len = strlen(node) + 1, at = 0, bytes = 0;

	if (why->n_nodes == CLUSTER_BEHIND_MAX)
		return;
	for (size_t i = 0; i < why->n_nodes; i++) {
		int order = strcmp(why->nodes + bytes, node);

		if (order == 0)
			return;
		bytes += strlen(why->nodes + bytes) + 1;
		if (order < 0)
			at = bytes;
	}
	why->nodes = xrealloc(why->nodes, bytes + len);
	memmove(why->nodes + at + len, why->nodes + at, bytes - at);
	memcpy(why->nodes + at, node, len);
	why->n_nodes++;
}

void
join_behind(struct joining *j, const char *pod, const char *node, uint16_t port)
{
	struct reasons *why = &j->why;

	if (j->quiet)
		return;
	if (why->behind == NULL)
		why->behind = xasprintf(
			"port %u: pod %s has no hostPort for container port %u: "
			"only its own node can dial it, others go by its agent or the hub",
			j->at->port, pod, port);
	if (j->n_views == 0) /* the service itself is joined first */
		reason_keep_node(why, node);
}

/* "http (8080), metrics (9090)" */
static void
reason_add_ports(struct buf *out, const struct kube_pod *p)
{
	const char *comma = "";

	for (size_t i = 0; i < p->n_ports; i++) {
		if (*p->ports[i].name == '\0')
			buf_printf(out, "%s%u without a name", comma, p->ports[i].port);
		else
			buf_printf(out, "%s%s (%u)", comma, p->ports[i].name, p->ports[i].port);
		comma = ", ";
	}
	if (p->n_ports == 0)
		buf_adds(out, "none at all");
}

/* EndpointSlices omit a port that cannot be resolved, and so do not show the wrong name. */
bool
join_explain_target(
	struct joining *j, const struct kube_service_port *sp, const struct members *members)
{
	const struct kube_object *first = NULL;
	auto_free char *why = NULL;
	auto_buf struct buf ports;

	buf_init(&ports, BUF_UNLIMITED);
	for (size_t i = 0; sp->target == 0 && i < members->n; i++) {
		const struct kube_object *pod = members->list[i]->pod;

		if (pod == NULL)
			continue;
		if (first == NULL || strcmp(pod->name, first->name) < 0)
			first = pod;
		if (join_find_target(&pod->pod, sp) != 0)
			return false;
	}
	if (first == NULL)
		return false;
	reason_add_ports(&ports, &first->pod);
	why = xasprintf("targetPort \"%s\" is the name of no container port of its pods; %s has %s",
		sp->target_name, first->name, buf_str(&ports));
	join_explain(j, CLUSTER_TARGET_PORT, "%s", why);
	/* Nodes do not get the pods, and could only report that there is no endpoint. */
	if (strlen(why) <= VIEW_WHY_MAX)
		j->port->why = take_ptr(&why);
	return true;
}

/* --- the last view sent --------------------------------------------------------------------- */

static const struct reasons *
reason_find(const struct cluster *c, const char *ns, const char *name)
{
	static const struct reasons none = {.problem = CLUSTER_WELL};
	const struct told *told = cluster_find_told(c, ns, name);

	return told != NULL ? &told->why : &none;
}

enum cluster_problem
cluster_problem(const struct cluster *c, const char *ns, const char *name)
{
	return reason_find(c, ns, name)->problem;
}

const char *
cluster_reason(const struct cluster *c, const char *ns, const char *name)
{
	const struct reasons *why = reason_find(c, ns, name);

	return why->text != NULL ? why->text : "";
}

struct cluster_behind
cluster_behind(const struct cluster *c, const char *ns, const char *name)
{
	const struct reasons *why = reason_find(c, ns, name);

	return (struct cluster_behind){
		why->behind != NULL ? why->behind : "", why->nodes, why->n_nodes};
}
