#include <errno.h>

#include "model/allow_from.h"
#include "model/check.h"
#include "model/http_route.h"
#include "model/json.h"
#include "model/mesh.h"
#include "model/view.h"

enum { WORD_MAX = 32 };

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
add_name(struct json *j, void *to)
{
	struct view_names *names = to;
	auto_free char *name = NULL;

	if (!json_text(j, &name, MESH_NODE_MAX))
		return;
	if (*name == '\0' || !check_word(name, strlen(name)))
		json_wrong(j, "'%s' is no name", name);
	else if (!view_names_add(names, name))
		json_wrong(j, "more than %d names", MESH_HINTS_MAX);
}

static void
parse_hint_zones(struct json *j, void *to)
{
	struct view_endpoint *e = to;

	json_list(j, add_name, &e->hint_zones);
}

static void
parse_hint_nodes(struct json *j, void *to)
{
	struct view_endpoint *e = to;

	json_list(j, add_name, &e->hint_nodes);
}

static void
parse_host_network(struct json *j, void *to)
{
	struct view_endpoint *e = to;
	bool host;

	if (json_bool(j, &host))
		e->network = host ? NETWORK_HOST : NETWORK_POD;
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
		ENDPOINT_TEXT("otherPodIP", other_pod_ip, check_ip_or_empty),
		ENDPOINT_PORT("podPort", pod_port),
		ENDPOINT_TEXT("hostIP", host_ip, check_ip_or_empty),
		ENDPOINT_TEXT("otherHostIP", other_host_ip, check_ip_or_empty),
		ENDPOINT_PORT("hostPort", host_port),
		ENDPOINT_TEXT("publicIP", public_ip, check_ip_or_empty),
		ENDPOINT_TEXT("otherPublicIP", other_public_ip, check_ip_or_empty),
		ENDPOINT_TEXT("givenIP", given_ip, check_ip_or_empty),
		ENDPOINT_TEXT("otherGivenIP", other_given_ip, check_ip_or_empty),
		ENDPOINT_PORT("givenPort", given_port),
		{"hostNetwork", FIELD_CUSTOM, 0, 0, NULL, parse_host_network},
		{"hintZones", FIELD_CUSTOM, 0, 0, NULL, parse_hint_zones},
		{"hintNodes", FIELD_CUSTOM, 0, 0, NULL, parse_hint_nodes},
		{"gate", FIELD_UINT8, offsetof(struct view_endpoint, gate), ALLOW_FROM_GATES_MAX,
			NULL, NULL},
	};
	char **const texts[] = {&e->node, &e->site, &e->zone, &e->pod, &e->hostname, &e->pod_ip,
		&e->host_ip, &e->public_ip, &e->given_ip};

	json_fields(j, fields, ARRAY_LEN(fields), e);
	fill_empty(texts, ARRAY_LEN(texts));
}

/* Room for one more element, which is zeroed. */
static void *
view_parse_grow(void *list, size_t n, size_t size)
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
	p->endpoints = view_parse_grow(p->endpoints, p->n_endpoints, sizeof *p->endpoints);
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

	if (!json_text(j, &word, WORD_MAX))
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
		{"extra", FIELD_BOOL, offsetof(struct view_port, extra), 0, NULL, NULL},
		{"nodePort", FIELD_UINT16, offsetof(struct view_port, node_port), UINT16_MAX, NULL,
			NULL},
		{"why", FIELD_TEXT, offsetof(struct view_port, why), VIEW_WHY_MAX, NULL, NULL},
		{"tls", FIELD_UINT8, offsetof(struct view_port, tls), BACKEND_TLS_MAX, NULL, NULL},
		{"endpoints", FIELD_CUSTOM, 0, 0, NULL, parse_endpoints},
		{"tlsEndpoints", FIELD_CUSTOM, 0, 0, NULL, parse_endpoints},
	};
	char **const texts[] = {&p->name, &p->why};

	p->mode = UINT8_MAX;
	json_fields(j, fields, ARRAY_LEN(fields), p);
	fill_empty(texts, ARRAY_LEN(texts));
	if (p->port == 0 || p->mode == UINT8_MAX)
		json_wrong(j, "port without number or mode");
	if (p->tls > 0 && strcmp(p->why, VIEW_WHY_TLS) == 0)
		p->why[0] = '\0';
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
	v->ports = view_parse_grow(v->ports, v->n_ports, sizeof *v->ports);
	v->n_ports++;
	parse_port(j, v, &v->ports[v->n_ports - 1]);
}

static void
parse_ports(struct json *j, void *to)
{
	json_list(j, add_port, to);
}

/* Unknown words from a later version leave the default: the node's own setting applies. */
static void
parse_policy(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *word = NULL;
	int policy;

	if (!json_text(j, &word, WORD_MAX))
		return;
	policy = lb_policy_parse(word);
	v->lb.policy = (uint8_t)(policy < 0 ? LB_DEFAULT : policy);
}

static void
parse_hash_on(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *text = NULL;
	int on;

	if (!json_text(j, &text, MESH_NODE_MAX))
		return;
	on = hash_on_parse(text, &v->hash_key);
	v->lb.hash_on = (uint8_t)(on < 0 ? HASH_ON_SOURCE_IP : on);
}

/* A word that this version does not know asks for more, not for less. */
static void
parse_encrypt(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *word = NULL;
	int encrypt;

	if (!json_text(j, &word, WORD_MAX))
		return;
	encrypt = encrypt_parse(word);
	v->lb.encrypt = (uint8_t)(encrypt < 0 ? ENCRYPT_ALWAYS : encrypt);
}

static void
parse_datapath(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *word = NULL;
	int datapath;

	if (!json_text(j, &word, WORD_MAX))
		return;
	datapath = datapath_parse(word);
	v->lb.datapath = (uint8_t)(datapath < 0 ? DATAPATH_DEFAULT : datapath);
}

static void
parse_retry_on(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *text = NULL;
	int bits;

	if (!json_text(j, &text, MESH_NODE_MAX))
		return;
	bits = retry_on_parse(text);
	v->lb.retry_on = (uint8_t)MAX(bits, 0);
}

static void
parse_distribution(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *word = NULL;

	if (!json_text(j, &word, WORD_MAX))
		return;
	v->distribution = DISTRIBUTE_ALL;
	for (uint8_t i = DISTRIBUTE_ZONE; i <= DISTRIBUTE_NODE; i++)
		if (strcmp(word, view_distribution_name(i)) == 0)
			v->distribution = i;
}

static void
add_gate(struct json *j, void *to)
{
	struct view *v = to;
	char *text = NULL;

	if (v->n_gates == ALLOW_FROM_GATES_MAX) {
		json_wrong(j, "more than %d gates", (int)ALLOW_FROM_GATES_MAX);
		return;
	}
	if (!json_text(j, &text, ALLOW_FROM_TEXT_MAX))
		return;
	v->gates = view_parse_grow(v->gates, v->n_gates, sizeof *v->gates);
	v->gates[v->n_gates++] = text;
}

static void
parse_gates(struct json *j, void *to)
{
	json_list(j, add_gate, to);
}

/* The node decides which addresses it serves. */
static void
add_external_ip(struct json *j, void *to)
{
	struct view *v = to;
	auto_free char *ip = NULL;

	if (!json_text(j, &ip, MESH_NODE_MAX))
		return;
	if (!check_ip(ip, strlen(ip)))
		json_wrong(j, "externalIPs: '%s' is no address", ip);
	else if (!view_names_add(&v->external_ips, ip))
		json_wrong(j, "more than %d externalIPs", MESH_HINTS_MAX);
}

static void
parse_external_ips(struct json *j, void *to)
{
	json_list(j, add_external_ip, to);
}

static void
parse_routes(struct json *j, void *to)
{
	struct view *v = to;

	v->routes = http_routes_parse(j);
}

static void
add_tls(struct json *j, void *to)
{
	struct view *v = to;
	struct backend_tls *t;

	if (v->n_tls == BACKEND_TLS_MAX) {
		json_wrong(j, "more than %d", (int)BACKEND_TLS_MAX);
		return;
	}
	if ((t = backend_tls_parse(j)) == NULL)
		return;
	v->tls = view_parse_grow(v->tls, v->n_tls, sizeof(struct backend_tls *));
	v->tls[v->n_tls++] = t;
}

static void
parse_tls(struct json *j, void *to)
{
	json_list(j, add_tls, to);
}

/* Without this check, an endpoint would be called in clear. */
static bool
tls_is_there(const struct view *v)
{
	for (size_t i = 0; i < v->n_ports; i++)
		if (v->ports[i].tls > v->n_tls)
			return false;
	return true;
}

/* Without this check, an endpoint with an undefined gate would be open. */
static bool
gates_are_there(const struct view *v)
{
	for (size_t i = 0; i < v->n_ports; i++)
		for (size_t k = 0; k < v->ports[i].n_endpoints; k++)
			if (v->ports[i].endpoints[k].gate > v->n_gates)
				return false;
	return true;
}

#define LB_NUMBER(name, kind, member, max)                                                         \
	{                                                                                          \
		name, kind, offsetof(struct view, lb.member), max, NULL, NULL                      \
	}

int
view_parse(struct view **out, const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"ns", FIELD_TEXT, offsetof(struct view, ns), MESH_NAME_MAX, check_label, NULL},
		{"name", FIELD_TEXT, offsetof(struct view, name), MESH_SERVICE_MAX, check_service,
			NULL},
		{"clusterIP", FIELD_TEXT, offsetof(struct view, cluster_ip), MESH_NODE_MAX,
			check_ip_or_empty, NULL},
		{"clusterIP6", FIELD_TEXT, offsetof(struct view, cluster_ip6), MESH_NODE_MAX,
			check_ip_or_empty, NULL},
		{"externalName", FIELD_TEXT, offsetof(struct view, external_name), MESH_NODE_MAX,
			check_subdomain_or_empty, NULL},
		{"headless", FIELD_BOOL, offsetof(struct view, headless), 0, NULL, NULL},
		{"externalIPs", FIELD_CUSTOM, 0, 0, NULL, parse_external_ips},
		{"externalLocal", FIELD_BOOL, offsetof(struct view, external_local), 0, NULL, NULL},
		{"healthPort", FIELD_UINT16, offsetof(struct view, health_port), UINT16_MAX, NULL,
			NULL},
		{"gateway", FIELD_BOOL, offsetof(struct view, gateway), 0, NULL, NULL},
		{"cloud", FIELD_BOOL, offsetof(struct view, cloud), 0, NULL, NULL},
		{"policy", FIELD_CUSTOM, 0, 0, NULL, parse_policy},
		LB_NUMBER("affinity", FIELD_UINT32, affinity_s, MESH_AFFINITY_MAX_S),
		{"hashOn", FIELD_CUSTOM, 0, 0, NULL, parse_hash_on},
		LB_NUMBER("retries", FIELD_UINT8, retries, MESH_RETRIES_MAX),
		LB_NUMBER("connectMs", FIELD_UINT32, connect_ms, MESH_TIMEOUT_MAX_MS),
		LB_NUMBER("requestMs", FIELD_UINT32, request_ms, MESH_TIMEOUT_MAX_MS),
		LB_NUMBER("idleMs", FIELD_UINT32, idle_ms, MESH_TIMEOUT_MAX_MS),
		LB_NUMBER("maxConnections", FIELD_UINT32, max_connections, MESH_CONNECTIONS_MAX),
		{"healthPath", FIELD_TEXT, offsetof(struct view, health_path), MESH_NODE_MAX,
			check_path_or_empty, NULL},
		LB_NUMBER("healthMs", FIELD_UINT32, health_interval_ms, MESH_TIMEOUT_MAX_MS),
		LB_NUMBER("slowStartMs", FIELD_UINT32, slow_start_ms, MESH_SLOW_START_MAX_MS),
		LB_NUMBER("hashBalance", FIELD_UINT16, hash_balance, MESH_HASH_BALANCE_MAX),
		LB_NUMBER("outlier5xx", FIELD_UINT16, outlier_5xx, MESH_OUTLIER_MAX),
		LB_NUMBER("outlierMs", FIELD_UINT32, outlier_ms, MESH_TIMEOUT_MAX_MS),
		{"retryOn", FIELD_CUSTOM, 0, 0, NULL, parse_retry_on},
		{"datapath", FIELD_CUSTOM, 0, 0, NULL, parse_datapath},
		{"encrypt", FIELD_CUSTOM, 0, 0, NULL, parse_encrypt},
		{"localOnly", FIELD_BOOL, offsetof(struct view, local_only), 0, NULL, NULL},
		{"distribution", FIELD_CUSTOM, 0, 0, NULL, parse_distribution},
		{"allowFrom", FIELD_TEXT, offsetof(struct view, allow_from), ALLOW_FROM_TEXT_MAX,
			NULL, NULL},
		{"gates", FIELD_CUSTOM, 0, 0, NULL, parse_gates},
		{"routes", FIELD_CUSTOM, 0, 0, NULL, parse_routes},
		{"tls", FIELD_CUSTOM, 0, 0, NULL, parse_tls},
		{"ports", FIELD_CUSTOM, 0, 0, NULL, parse_ports},
	};
	struct view *v = xcalloc(1, sizeof *v);
	char **const texts[] = {
		&v->cluster_ip, &v->external_name, &v->hash_key, &v->health_path, &v->allow_from};
	struct json j;
	int rc;

	*out = NULL;
	v->lb.retries = RETRIES_DEFAULT;
	v->lb.request_ms = REQUEST_MS_DEFAULT;
	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), v);
	rc = json_finish(&j, err);
	if (rc == 0 && (v->ns == NULL || v->name == NULL))
		rc = err_set(err, EBADMSG, "no ns or no name");
	if (rc == 0 && !gates_are_there(v))
		rc = err_set(err, EBADMSG, "a gate that is not there");
	if (rc == 0 && !tls_is_there(v))
		rc = err_set(err, EBADMSG, "TLS that is not there");
	if (rc < 0) {
		view_free(&v);
		return err_wrap(err, rc, "service view");
	}
	fill_empty(texts, ARRAY_LEN(texts));
	*out = v;
	return 0;
}
