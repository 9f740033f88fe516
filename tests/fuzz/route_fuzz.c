/*
 * Routes: the first bytes up to a NUL are routes as a hub sends them, the rest is a request. What
 * parses is written back the same, and the index finds the rule that a search of the whole list,
 * in order, finds.
 */
#include <assert.h>
#include <string.h>

#include "model/http_route.h"
#include "model/http_route_private.h"
#include "model/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct http_routes *
parse(const char *text, size_t len)
{
	struct http_routes *r;
	struct json j;

	json_init(&j, text, len);
	r = http_routes_parse(&j);
	assert((json_finish(&j, NULL) == 0) == (r != NULL));
	return r;
}

static void
is_stable(const struct http_routes *r)
{
	struct http_routes *back;
	auto_buf struct buf first, second;

	buf_init(&first, BUF_UNLIMITED);
	buf_init(&second, BUF_UNLIMITED);
	http_routes_build(&first, r);
	back = parse(buf_at(&first), buf_len(&first));
	assert(back != NULL);
	http_routes_build(&second, back);
	assert(buf_len(&first) == buf_len(&second));
	assert(memcmp(buf_at(&first), buf_at(&second), buf_len(&first)) == 0);
	http_routes_unref(&back);
}

static bool
has_port(const struct http_route_table *t, uint16_t port)
{
	for (size_t i = 0; i < t->n_ports; i++)
		if (t->ports[i] == port)
			return true;
	return false;
}

static const struct http_route_table *
table_of(const struct http_routes *r, uint16_t port, const char *ns)
{
	for (size_t i = 0; i < r->n_tables; i++)
		if (has_port(&r->tables[i], port) && strcmp(r->tables[i].ns, ns) == 0)
			return &r->tables[i];
	return NULL;
}

/* NULL: no table; *rule NULL: no rule. */
static bool
search(const struct http_routes *r, const struct http_route_query *q,
	const struct http_route_rule **rule)
{
	const struct http_route_table *t = table_of(r, q->port, q->ns);

	*rule = NULL;
	if (t == NULL)
		t = table_of(r, q->port, "");
	if (t == NULL)
		return false;
	for (size_t i = 0; i < t->n_matches && !(t->grpc && !q->grpc); i++) {
		if (!http_route_fits(&t->matches[i], q))
			continue;
		*rule = &r->rules[t->matches[i].rule];
		break;
	}
	return true;
}

static void
use(const struct http_route_rule *rule, struct http1_head *head, const struct http_route_query *q)
{
	const struct http_route_target t = {.path = q->path,
		.query = q->query,
		.host = head->host,
		.scheme = "http",
		.port = q->port};
	char to[HTTP1_TARGET_MAX];

	assert(http_route_rewrite(rule, &t, to, sizeof to) != 0);
	if (rule->redirect != NULL)
		assert(http_route_location(rule, &t, to, sizeof to) != 0);
	assert((http_route_pick(rule, UINT32_MAX) != NULL) == (rule->weight > 0));
	if (rule->request != NULL && http_route_edit(rule->request, head) == 0)
		assert(head->n_fields <= HTTP1_FIELDS_MAX);
}

static void
compare(const struct http_routes *r, struct http1_head *head, struct http_route_query *q)
{
	const struct http_route_rule *rule, *wanted;

	if (!search(r, q, &wanted)) {
		assert(http_routes_match(r, q) == NULL);
		return;
	}
	rule = http_routes_match(r, q);
	assert(rule != NULL);
	assert(wanted != NULL ? rule == wanted : rule->status == 404 && *rule->route == '\0');
	use(rule, head, q);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data, *end = len > 0 ? memchr(text, '\0', len) : NULL;
	struct http_routes *r;
	static struct http1_head head;
	const char *request, *mark;
	struct http_route_query q = {.port = 80, .ns = "", .head = &head};
	size_t n;

	r = parse(text, end != NULL ? (size_t)(end - text) : len);
	if (r == NULL)
		return 0;
	is_stable(r);
	request = end != NULL ? end + 1 : text + len;
	n = len - (size_t)(request - text);
	memset(&head, 0, sizeof head);
	if (n == 0 || n > HTTP1_HEAD_MAX || http1_parse_request(&head, request, n) != 0) {
		http_routes_unref(&r);
		return 0;
	}
	q.path = head.target;
	if ((mark = memchr(head.target.at, '?', head.target.len)) != NULL) {
		q.path.len = (size_t)(mark - head.target.at);
		q.query = (struct http1_str){mark + 1, head.target.len - q.path.len - 1};
	}
	q.scratch = route_regex_scratch_new();
	compare(r, &head, &q);
	q.grpc = true;
	compare(r, &head, &q);
	q.ns = "c";
	compare(r, &head, &q);
	route_regex_scratch_free(&q.scratch);
	http_routes_unref(&r);
	return 0;
}
