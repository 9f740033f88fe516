#include <errno.h>

#include "model/check.h"
#include "model/json.h"
#include "model/mesh.h"
#include "model/view.h"

enum { AFFINITY_MAX_S = 86400 };

/* --- writing ------------------------------------------------------------ */

static const char *
plain(const char *text)
{
	return text != NULL ? text : "";
}

static int
compare_endpoints(const void *a, const void *b)
{
	const struct view_endpoint *x = *(const struct view_endpoint *const *)a;
	const struct view_endpoint *y = *(const struct view_endpoint *const *)b;
	int order = strcmp(plain(x->node), plain(y->node));

	if (order == 0)
		order = strcmp(plain(x->pod), plain(y->pod));
	if (order == 0)
		order = strcmp(plain(x->pod_ip), plain(y->pod_ip));
	if (order == 0)
		order = strcmp(plain(x->given_ip), plain(y->given_ip));
	if (order == 0)
		order = strcmp(plain(x->host_ip), plain(y->host_ip));
	if (order == 0)
		order = (int)x->pod_port - (int)y->pod_port;
	if (order == 0)
		order = (int)x->given_port - (int)y->given_port;
	if (order == 0)
		order = (int)x->host_port - (int)y->host_port;
	if (order == 0)
		order = (int)x->flags - (int)y->flags;
	return order;
}

static int
compare_ports(const void *a, const void *b)
{
	const struct view_port *x = *(const struct view_port *const *)a;
	const struct view_port *y = *(const struct view_port *const *)b;

	return x->port != y->port ? (int)x->port - (int)y->port : (int)x->mode - (int)y->mode;
}

static void
text_member(struct buf *out, const char *name, const char *text)
{
	if (*plain(text) == '\0')
		return;
	buf_printf(out, ",\"%s\":", name);
	json_add_text(out, text);
}

static void
number_member(struct buf *out, const char *name, uint32_t value)
{
	if (value != 0)
		buf_printf(out, ",\"%s\":%u", name, value);
}

/* Members are written with a comma in front; the first one's is taken back by the bracket. */
static void
open_bracket(struct buf *out, size_t at, char bracket)
{
	out->data[out->start + at] = bracket;
}

static void
build_endpoint(struct buf *out, const struct view_endpoint *e)
{
	size_t at = buf_len(out);

	text_member(out, "node", e->node);
	text_member(out, "site", e->site);
	text_member(out, "zone", e->zone);
	if (e->node_public)
		buf_adds(out, ",\"public\":true");
	text_member(out, "pod", e->pod);
	text_member(out, "hostname", e->hostname);
	buf_printf(out, ",\"flags\":%u", e->flags);
	text_member(out, "podIP", e->pod_ip);
	number_member(out, "podPort", e->pod_port);
	text_member(out, "hostIP", e->host_ip);
	number_member(out, "hostPort", e->host_port);
	text_member(out, "publicIP", e->public_ip);
	text_member(out, "givenIP", e->given_ip);
	number_member(out, "givenPort", e->given_port);
	open_bracket(out, at, '{');
	buf_adds(out, "}");
}

static void
build_port(struct buf *out, const struct view_port *p)
{
	const struct view_endpoint **sorted = xcalloc(p->n_endpoints + 1, sizeof *sorted);
	size_t at = buf_len(out);

	for (size_t i = 0; i < p->n_endpoints; i++)
		sorted[i] = &p->endpoints[i];
	qsort(sorted, p->n_endpoints, sizeof *sorted, compare_endpoints);
	text_member(out, "name", p->name);
	buf_printf(out, ",\"port\":%u,\"mode\":\"%s\",\"endpoints\":[", p->port,
		port_mode_name(p->mode));
	open_bracket(out, at, '{');
	for (size_t i = 0; i < p->n_endpoints; i++) {
		if (i > 0)
			buf_adds(out, ",");
		build_endpoint(out, sorted[i]);
	}
	buf_adds(out, "]}");
	free(sorted);
}

uint64_t
view_build(struct buf *out, const struct view *v)
{
	const struct view_port **sorted = xcalloc(v->n_ports + 1, sizeof *sorted);
	size_t at = buf_len(out);

	text_member(out, "ns", v->ns);
	text_member(out, "name", v->name);
	text_member(out, "clusterIP", v->cluster_ip);
	text_member(out, "externalName", v->external_name);
	if (v->headless)
		buf_adds(out, ",\"headless\":true");
	text_member(out, "policy", lb_policy_name(v->lb.policy));
	number_member(out, "affinity", v->lb.affinity_s);
	buf_adds(out, ",\"ports\":[");
	open_bracket(out, at, '{');
	for (size_t i = 0; i < v->n_ports; i++)
		sorted[i] = &v->ports[i];
	qsort(sorted, v->n_ports, sizeof *sorted, compare_ports);
	for (size_t i = 0; i < v->n_ports; i++) {
		if (i > 0)
			buf_adds(out, ",");
		build_port(out, sorted[i]);
	}
	buf_adds(out, "]}");
	free(sorted);
	return view_digest(buf_at(out) + at, buf_len(out) - at);
}

/* --- reading ------------------------------------------------------------ */

static void
fill_empty(char **const texts[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (*texts[i] == NULL)
			*texts[i] = xstrdup("");
}

#define ENDPOINT_TEXT(name, member, check)                                                         \
	{                                                                                          \
		name, FIELD_TEXT, offsetof(struct view_endpoint, member), MESH_NODE_MAX, check,    \
			NULL                                                                       \
	}
#define ENDPOINT_PORT(name, member)                                                                \
	{                                                                                          \
		name, FIELD_UINT16, offsetof(struct view_endpoint, member), UINT16_MAX, NULL, NULL \
	}

static void
parse_endpoint(struct json *j, struct view_endpoint *e)
{
	static const struct field fields[] = {
		ENDPOINT_TEXT("node", node, check_subdomain_or_empty),
		ENDPOINT_TEXT("site", site, check_word),
		ENDPOINT_TEXT("zone", zone, check_word),
		{"public", FIELD_BOOL, offsetof(struct view_endpoint, node_public), 0, NULL, NULL},
		ENDPOINT_TEXT("pod", pod, check_subdomain_or_empty),
		ENDPOINT_TEXT("hostname", hostname, check_label_or_empty),
		{"flags", FIELD_UINT8, offsetof(struct view_endpoint, flags),
			ENDPOINT_READY | ENDPOINT_SERVING | ENDPOINT_TERMINATING, NULL, NULL},
		ENDPOINT_TEXT("podIP", pod_ip, check_ip_or_empty),
		ENDPOINT_PORT("podPort", pod_port),
		ENDPOINT_TEXT("hostIP", host_ip, check_ip_or_empty),
		ENDPOINT_PORT("hostPort", host_port),
		ENDPOINT_TEXT("publicIP", public_ip, check_ip_or_empty),
		ENDPOINT_TEXT("givenIP", given_ip, check_ip_or_empty),
		ENDPOINT_PORT("givenPort", given_port),
	};
	char **const texts[] = {&e->node, &e->site, &e->zone, &e->pod, &e->hostname, &e->pod_ip,
		&e->host_ip, &e->public_ip, &e->given_ip};

	json_fields(j, fields, ARRAY_LEN(fields), e);
	fill_empty(texts, ARRAY_LEN(texts));
}

/* Room for one more element, which is zeroed. */
static void *
grow(void *list, size_t n, size_t size)
{
	if (n == 0 || (n >= 4 && (n & (n - 1)) == 0))
		list = xrealloc(list, (n == 0 ? 4 : n * 2) * size);
	memset((char *)list + n * size, 0, size);
	return list;
}

static void
add_endpoint(struct json *j, void *to)
{
	struct view_port *p = to;

	if (p->n_endpoints == MESH_ENDPOINTS_MAX) {
		json_wrong(j, "more than %d endpoints", MESH_ENDPOINTS_MAX);
		return;
	}
	p->endpoints = grow(p->endpoints, p->n_endpoints, sizeof *p->endpoints);
	parse_endpoint(j, &p->endpoints[p->n_endpoints++]);
}

static void
parse_endpoints(struct json *j, void *to)
{
	json_list(j, add_endpoint, to);
}

static void
parse_mode(struct json *j, void *to)
{
	struct view_port *p = to;
	auto_free char *word = NULL;
	int mode;

	if (!json_text(j, &word, 16))
		return;
	if ((mode = port_mode_parse(word)) < 0)
		json_wrong(j, "mode '%s' is not http, tcp or udp", word);
	else
		p->mode = (uint8_t)mode;
}

static void
parse_port(struct json *j, struct view *v, struct view_port *p)
{
	static const struct field fields[] = {
		{"name", FIELD_TEXT, offsetof(struct view_port, name), MESH_NAME_MAX,
			check_label_or_empty, NULL},
		{"port", FIELD_UINT16, offsetof(struct view_port, port), UINT16_MAX, NULL, NULL},
		{"mode", FIELD_CUSTOM, 0, 0, NULL, parse_mode},
		{"endpoints", FIELD_CUSTOM, 0, 0, NULL, parse_endpoints},
	};
	char **const texts[] = {&p->name};

	p->mode = UINT8_MAX;
	json_fields(j, fields, ARRAY_LEN(fields), p);
	fill_empty(texts, ARRAY_LEN(texts));
	if (p->port == 0 || p->mode == UINT8_MAX)
		json_wrong(j, "port without number or mode");
	for (const struct view_port *o = v->ports; o != p && json_ok(j); o++)
		if (o->port == p->port && (o->mode == PORT_UDP) == (p->mode == PORT_UDP))
			json_wrong(j, "port %u twice", p->port);
}

static void
add_port(struct json *j, void *to)
{
	struct view *v = to;

	if (v->n_ports == MESH_PORTS_MAX) {
		json_wrong(j, "more than %d ports", MESH_PORTS_MAX);
		return;
	}
	v->ports = grow(v->ports, v->n_ports, sizeof *v->ports);
	v->n_ports++;
	parse_port(j, v, &v->ports[v->n_ports - 1]);
}

static void
parse_ports(struct json *j, void *to)
{
	json_list(j, add_port, to);
}

static void
parse_policy(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *word = NULL;
	int policy;

	if (!json_text(j, &word, 32))
		return;
	/* A policy of a later version: the node's own serves. */
	policy = lb_policy_parse(word);
	v->lb.policy = (uint8_t)(policy < 0 ? LB_DEFAULT : policy);
}

int
view_parse(struct view **out, const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"ns", FIELD_TEXT, offsetof(struct view, ns), MESH_NAME_MAX, check_label, NULL},
		{"name", FIELD_TEXT, offsetof(struct view, name), MESH_NAME_MAX, check_label, NULL},
		{"clusterIP", FIELD_TEXT, offsetof(struct view, cluster_ip), MESH_NODE_MAX,
			check_ip_or_empty, NULL},
		{"externalName", FIELD_TEXT, offsetof(struct view, external_name), MESH_NODE_MAX,
			check_subdomain_or_empty, NULL},
		{"headless", FIELD_BOOL, offsetof(struct view, headless), 0, NULL, NULL},
		{"policy", FIELD_CUSTOM, 0, 0, NULL, parse_policy},
		{"affinity", FIELD_UINT32, offsetof(struct view, lb.affinity_s), AFFINITY_MAX_S,
			NULL, NULL},
		{"ports", FIELD_CUSTOM, 0, 0, NULL, parse_ports},
	};
	struct view *v = xcalloc(1, sizeof *v);
	char **const texts[] = {&v->cluster_ip, &v->external_name};
	struct json j;
	int rc;

	*out = NULL;
	v->lb.retries = RETRIES_DEFAULT;
	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), v);
	rc = json_finish(&j, err);
	if (rc == 0 && (v->ns == NULL || v->name == NULL))
		rc = err_set(err, EBADMSG, "no ns or no name");
	if (rc < 0) {
		view_free(&v);
		return err_wrap(err, rc, "service view");
	}
	fill_empty(texts, ARRAY_LEN(texts));
	*out = v;
	return 0;
}
