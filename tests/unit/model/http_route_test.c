/* Routes of a service: which rule a request gets, and what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/http_route.h"
#include "model/json.h"
#include "model/view.h"

static struct route_regex_scratch *scratch;

#define B "\"backends\":[{\"ns\":\"n\",\"name\":\"w\",\"port\":80}]"
#define RULE(route) "{\"route\":\"n/" route "\"," B "}"
#define T80 "\"ports\":[80],"
#define ROUTES(rules, tables) "{\"rules\":[" rules "],\"tables\":[" tables "]}"

static struct http_routes *
parse(const char *text)
{
	struct http_routes *r;
	struct json j;
	struct err err = {0};

	json_init(&j, text, strlen(text));
	r = http_routes_parse(&j);
	if (json_finish(&j, &err) < 0)
		fail_msg("%s\n%s", err.text, text);
	return r;
}

/* The rule's route for the request "METHOD TARGET" with these fields; "" for the service's own
 * endpoints, "404" for no rule. */
static const char *
ask(const struct http_routes *r, uint16_t port, const char *ns, bool grpc, const char *request)
{
	static struct http1_head head;
	auto_free char *text = xasprintf("%s\r\n\r\n", request);
	struct http_route_query q = {
		.port = port, .ns = ns, .grpc = grpc, .head = &head, .scratch = scratch};
	const struct http_route_rule *rule;
	const char *mark;

	memset(&head, 0, sizeof head);
	assert_int_equal(http1_parse_request(&head, text, strlen(text)), 0);
	mark = memchr(head.target.at, '?', head.target.len);
	q.path = head.target;
	if (mark != NULL) {
		q.path.len = (size_t)(mark - head.target.at);
		q.query.at = mark + 1;
		q.query.len = head.target.len - q.path.len - 1;
	}
	rule = http_routes_match(r, &q);
	return rule == NULL ? "" : rule->status == 404 ? "404" : rule->route;
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: w"

static void
paths(void **state)
{
	struct http_routes *r = parse(ROUTES(
		RULE("exact") "," RULE("regex") "," RULE("deep") "," RULE("foo") "," RULE("all"),
		"{" T80 "\"matches\":[{\"rule\":0,\"exact\":\"/foo/bar\"},"
		"{\"rule\":1,\"regex\":\"/v[0-9]+(/.*)?\"},{\"rule\":2,\"prefix\":\"/foo/a/b\"},"
		"{\"rule\":3,\"prefix\":\"/foo\"},{\"rule\":4,\"prefix\":\"\"}]}"));
	static const struct {
		const char *request, *route;
	} rows[] = {
		{GET("/foo/bar"), "n/exact"},
		{GET("/foo/bar?x=1"), "n/exact"},
		{GET("/foo/bar/"), "n/foo"},
		{GET("/foo/barx"), "n/foo"},
		{GET("/foo"), "n/foo"},
		{GET("/foo/"), "n/foo"},
		{GET("/foobar"), "n/all"},
		{GET("/foo/a/b"), "n/deep"},
		{GET("/foo/a/b/c/d/e"), "n/deep"},
		{GET("/foo/a/bc"), "n/foo"},
		{GET("/foo//a/b"), "n/foo"},
		{GET("/v1"), "n/regex"},
		{GET("/v12/x"), "n/regex"},
		{GET("/v1x"), "n/all"},
		{GET("/xv1"), "n/all"},
		{GET("/"), "n/all"},
		{"OPTIONS * HTTP/1.1\r\nHost: w", "404"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(ask(r, 80, "", false, rows[i].request), rows[i].route) != 0)
			fail_msg("%s: %s", rows[i].request, ask(r, 80, "", false, rows[i].request));
	http_routes_unref(&r);
}

static void
conditions(void **state)
{
	struct http_routes *r = parse(ROUTES(
		RULE("put") "," RULE("two") "," RULE("one") "," RULE("like") "," RULE(
			"param") "," RULE("host") "," RULE("all"),
		"{" T80 "\"matches\":[{\"rule\":0,\"prefix\":\"\",\"method\":\"PUT\"},"
		"{\"rule\":1,\"prefix\":\"\",\"headers\":[{\"name\":\"Version\",\"value\":\"two\"},"
		"{\"name\":\"color\",\"value\":\"a,b\"}]},"
		"{\"rule\":2,\"prefix\":\"\",\"headers\":[{\"name\":\"version\",\"value\":\"one\"}]"
		"},"
		"{\"rule\":3,\"prefix\":\"\",\"headers\":[{\"name\":\"version\",\"regex\":\"x[0-9]"
		"\"}"
		"]},"
		"{\"rule\":4,\"prefix\":\"\",\"params\":[{\"name\":\"a!b\",\"value\":\"1&2\"}]},"
		"{\"rule\":5,\"prefix\":\"\",\"headers\":[{\"name\":\"host\",\"value\":\"other\"}]}"
		","
		"{\"rule\":6,\"prefix\":\"\"}]}"));
	static const struct {
		const char *request, *route;
	} rows[] = {
		{"PUT / HTTP/1.1\r\nHost: w\r\nversion: one", "n/put"},
		{"put / HTTP/1.1\r\nHost: w", "n/all"},
		{GET("/") "\r\nVERSION: one", "n/one"},
		{GET("/") "\r\nversion: One", "n/all"},
		{GET("/") "\r\nversion: two", "n/all"},
		{GET("/") "\r\nversion: two\r\nColor: a,b", "n/two"},
		{GET("/") "\r\nversion: two\r\nColor: a\r\nx: y\r\nCOLOR: b", "n/two"},
		{GET("/") "\r\nversion: two\r\nColor: b\r\nColor: a", "n/all"},
		{GET("/") "\r\nversion: x7", "n/like"},
		{GET("/") "\r\nversion: x77", "n/all"},
		{GET("/?a%21b=1%262"), "n/param"},
		{GET("/?z&a%21b=1%262&a%21b=3"), "n/param"},
		{GET("/?a%21b=3&a%21b=1%262"), "n/all"},
		{GET("/?a%21b"), "n/all"},
		{GET("/?a!b=1%262"), "n/param"},
		{"GET / HTTP/1.1\r\nHost: other", "n/host"},
		{"GET http://other/ HTTP/1.1\r\nHost: w", "n/host"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(ask(r, 80, "", false, rows[i].request), rows[i].route) != 0)
			fail_msg("%s: %s", rows[i].request, ask(r, 80, "", false, rows[i].request));
	http_routes_unref(&r);
}

/* Which table counts: by port, caller and protocol. */
static void
tables(void **state)
{
	struct http_routes *r = parse(ROUTES(RULE("producer") "," RULE("consumer") "," RULE("grpc"),
		"{" T80 "\"matches\":[{\"rule\":0,\"prefix\":\"/p\"}]},"
		"{\"ns\":\"shop\",\"ports\":[80,81],\"matches\":[{\"rule\":1,\"prefix\":\"/c\"}]},"
		"{\"grpc\":true,\"ports\":[90],\"matches\":[{\"rule\":2,\"exact\":\"/s/m\"}]}"));

	(void)state;
	assert_string_equal(ask(r, 80, "", false, GET("/p")), "n/producer");
	assert_string_equal(ask(r, 80, "other", false, GET("/p")), "n/producer");
	assert_string_equal(ask(r, 80, "other", false, GET("/c")), "404");
	assert_string_equal(ask(r, 80, "shop", false, GET("/c")), "n/consumer");
	assert_string_equal(ask(r, 80, "shop", false, GET("/p")), "404");
	assert_string_equal(ask(r, 81, "shop", false, GET("/c")), "n/consumer");
	assert_string_equal(ask(r, 81, "other", false, GET("/c")), "");
	assert_string_equal(ask(r, 82, "shop", false, GET("/c")), "");
	assert_string_equal(ask(r, 90, "", true, GET("/s/m")), "n/grpc");
	assert_string_equal(ask(r, 90, "", true, GET("/s/n")), "404");
	assert_string_equal(ask(r, 90, "", false, GET("/s/m")), "404");
	assert_string_equal(ask(NULL, 80, "", false, GET("/p")), "");
	http_routes_unref(&r);
}

/* The order of the list decides, even where the hub would never send it so. */
static void
any_order_is_kept(void **state)
{
	struct http_routes *r = parse(ROUTES(RULE("all") "," RULE("exact"),
		"{" T80 "\"matches\":[{\"rule\":0,\"prefix\":\"\",\"headers\":[{\"name\":\"a\","
		"\"value\":\"b\"}]},"
		"{\"rule\":1,\"exact\":\"/x\"},{\"rule\":0}]}"));

	(void)state;
	assert_string_equal(ask(r, 80, "", false, GET("/x")), "n/exact");
	assert_string_equal(ask(r, 80, "", false, GET("/x") "\r\na: b"), "n/all");
	assert_string_equal(ask(r, 80, "", false, GET("/y")), "n/all");
	http_routes_unref(&r);
}

/* 1 000 routes of 16 rules, told apart by path and by a header's value. */
static void
many_rules(void **state)
{
	enum { N = 16000 };
	auto_buf struct buf text;
	struct http_routes *r;

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	buf_adds(&text, "{\"rules\":[");
	for (int i = 0; i < N; i++)
		buf_printf(&text, "%s{\"route\":\"n/r%d\"," B "}", i > 0 ? "," : "", i);
	buf_adds(&text, "],\"tables\":[{" T80 "\"matches\":[");
	for (int i = 0; i < N; i++)
		if (i % 2 == 0)
			buf_printf(&text, "%s{\"rule\":%d,\"prefix\":\"/r/%d\"}", i > 0 ? "," : "",
				i, i);
		else
			buf_printf(&text,
				",{\"rule\":%d,\"prefix\":\"\",\"headers\":[{\"name\":\"user\","
				"\"value\":\"u%d\"}]}",
				i, i);
	buf_adds(&text, "]}]}");
	r = parse(buf_str(&text));
	for (int i = 0; i < N; i += 777) {
		auto_free char *request = i % 2 == 0
			? xasprintf(GET("/r/%d/x"), i)
			: xasprintf(GET("/elsewhere") "\r\nUser: u%d", i);
		auto_free char *route = xasprintf("n/r%d", i);

		assert_string_equal(ask(r, 80, "", false, request), route);
	}
	http_routes_unref(&r);
}

/* --- what becomes of a request -------------------------------------------------------------- */

static struct http_route_target
target(const char *path, const char *query)
{
	return (struct http_route_target){.path = {path, strlen(path)},
		.query = {query, query != NULL ? strlen(query) : 0},
		.host = {"web", 3},
		.scheme = "http",
		.port = 80};
}

/* The table of the API's documentation, and whole paths. */
static void
rewrites(void **state)
{
	static const struct {
		const char *path, *query;
		unsigned prefix_len;
		struct http_route_modifier to;
		const char *is;
	} rows[] = {
		{"/foo/bar", NULL, 4, {"", "/xyz", HTTP_ROUTE_PATH_PREFIX}, "/xyz/bar"},
		{"/foo/bar", NULL, 4, {"", "/xyz/", HTTP_ROUTE_PATH_PREFIX}, "/xyz/bar"},
		{"/foo", NULL, 4, {"", "/xyz", HTTP_ROUTE_PATH_PREFIX}, "/xyz"},
		{"/foo/", NULL, 4, {"", "/xyz", HTTP_ROUTE_PATH_PREFIX}, "/xyz/"},
		{"/foo/bar", NULL, 4, {"", "", HTTP_ROUTE_PATH_PREFIX}, "/bar"},
		{"/foo/", NULL, 4, {"", "", HTTP_ROUTE_PATH_PREFIX}, "/"},
		{"/foo", NULL, 4, {"", "", HTTP_ROUTE_PATH_PREFIX}, "/"},
		{"/foo/", NULL, 4, {"", "/", HTTP_ROUTE_PATH_PREFIX}, "/"},
		{"/foo", NULL, 4, {"", "/", HTTP_ROUTE_PATH_PREFIX}, "/"},
		{"/a", "q=1", 0, {"", "/xyz", HTTP_ROUTE_PATH_PREFIX}, "/xyz/a?q=1"},
		{"/a", "q=1", 0, {"", "/z", HTTP_ROUTE_PATH_FULL}, "/z?q=1"},
		{"/a", "", 0, {"h", "", HTTP_ROUTE_PATH_KEPT}, "/a?"},
	};
	char to[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_route_rule rule = {
			.prefix_len = (uint16_t)rows[i].prefix_len, .rewrite = &rows[i].to};
		struct http_route_target t = target(rows[i].path, rows[i].query);
		ssize_t n = http_route_rewrite(&rule, &t, to, sizeof to - 1);

		assert_true(n > 0);
		to[n] = '\0';
		assert_string_equal(to, rows[i].is);
	}
}

static void
locations(void **state)
{
	static const struct {
		struct http_route_redirect r;
		uint16_t port;
		const char *is;
	} rows[] = {
		{{{"", "", 0}, "", 0, 302}, 80, "http://web/a?q"},
		{{{"", "", 0}, "", 0, 302}, 8080, "http://web:8080/a?q"},
		{{{"other", "", 0}, "", 0, 301}, 80, "http://other/a?q"},
		{{{"", "", 0}, "https", 0, 302}, 8080, "https://web/a?q"},
		{{{"", "", 0}, "http", 0, 302}, 8080, "http://web/a?q"},
		{{{"", "", 0}, "https", 443, 302}, 80, "https://web/a?q"},
		{{{"", "", 0}, "https", 8443, 302}, 80, "https://web:8443/a?q"},
		{{{"", "", 0}, "", 8083, 302}, 80, "http://web:8083/a?q"},
		{{{"", "/b", HTTP_ROUTE_PATH_FULL}, "", 80, 302}, 8080, "http://web/b?q"},
		{{{"", "/b", HTTP_ROUTE_PATH_PREFIX}, "", 0, 302}, 80, "http://web/b?q"},
	};
	char to[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_route_rule rule = {.prefix_len = 2, .redirect = &rows[i].r};
		struct http_route_target t = target("/a", "q");
		ssize_t n;

		t.port = rows[i].port;
		n = http_route_location(&rule, &t, to, sizeof to - 1);
		assert_true(n > 0);
		to[n] = '\0';
		assert_string_equal(to, rows[i].is);
		assert_int_equal(http_route_location(&rule, &t, to, (size_t)n - 1), -ENOBUFS);
		t.path = (struct http1_str){"*", 1}; /* OPTIONS * */
		assert_true(http_route_location(&rule, &t, to, sizeof to) > 0);
		assert_null(memchr(to, '*', (size_t)http_route_location(&rule, &t, to, sizeof to)));
	}
}

static void
edits(void **state)
{
	static const char text[] =
		"GET / HTTP/1.1\r\nHost: w\r\nA: 1\r\nB: 2\r\na: 3\r\nC: 4\r\n\r\n";
	static const struct http_route_pair set[] = {{"a", "new"}, {"X-Request-Id", "id"}},
					    add[] = {{"B", "more"}};
	static const char *const removed[] = {"c"};
	const struct http_header_edits e = {2, 1, 1, set, add, removed};
	struct http1_head h = {0};
	auto_buf struct buf seen;

	(void)state;
	buf_init(&seen, BUF_UNLIMITED);
	assert_int_equal(http1_parse_request(&h, text, strlen(text)), 0);
	assert_int_equal(http_route_edit(&e, &h), 0);
	for (size_t i = 0; i < h.n_fields; i++)
		buf_printf(&seen, "%.*s=%.*s ", (int)h.fields[i].name.len, h.fields[i].name.at,
			(int)h.fields[i].value.len, h.fields[i].value.at);
	assert_string_equal(buf_str(&seen), "Host=w a=new B=2 X-Request-Id=id B=more ");
	assert_non_null(http1_find(&h, HTTP1_X_REQUEST_ID));
	h.n_fields = HTTP1_FIELDS_MAX;
	assert_int_equal(http_route_edit(&e, &h), -E2BIG);
	assert_true(http_route_may_edit("X-Own") && http_route_may_edit("traceparent"));
	assert_false(http_route_may_edit("HOST") || http_route_may_edit("Transfer-Encoding") ||
		http_route_may_edit("connection") || http_route_may_edit("content-length"));
}

static void
weights(void **state)
{
	const struct http_route_backend b[] = {
		{.name = "a", .weight = 1}, {.name = "none"}, {.name = "b", .weight = 3}};
	const struct http_route_rule rule = {.n_backends = 3, .weight = 4, .backends = b};
	const struct http_route_rule zero = {.n_backends = 1, .backends = &b[1]}, none = {0};
	const struct http_route_mirror half = {.numerator = 1, .denominator = 2};
	const struct http_route_mirror never = {.denominator = 100}, always = {"", "", 0, 1, 1};
	const uint16_t codes[] = {500, 503};
	const struct http_route_retry retry = {.n_codes = 2, .codes = codes};

	(void)state;
	assert_string_equal(http_route_pick(&rule, 0)->name, "a");
	assert_string_equal(http_route_pick(&rule, UINT32_C(0x3fffffff))->name, "a");
	assert_string_equal(http_route_pick(&rule, UINT32_C(0x40000000))->name, "b");
	assert_string_equal(http_route_pick(&rule, UINT32_MAX)->name, "b");
	assert_null(http_route_pick(&zero, 7));
	assert_null(http_route_pick(&none, 7));
	assert_true(http_route_mirrors(&half, UINT32_C(0x7fffffff)));
	assert_false(http_route_mirrors(&half, UINT32_C(0x80000000)));
	assert_false(http_route_mirrors(&never, 0));
	assert_true(http_route_mirrors(&always, UINT32_MAX));
	assert_true(http_route_retries(&retry, 503) && !http_route_retries(&retry, 502));
}

/* --- the view ------------------------------------------------------------------------------- */

#define VIEW(routes) "{\"ns\":\"n\",\"name\":\"w\",\"routes\":" routes ",\"ports\":[]}"

/* Everything that a rule may say comes out as it went in, and into the service. */
static void
routes_survive(void **state)
{
	static const char json[] = VIEW(ROUTES(
		"{\"route\":\"n/r\",\"name\":\"first\",\"index\":3,\"prefixLen\":2,\"requestMs\":0,"
		"\"backendMs\":250,\"backends\":[{\"ns\":\"n\",\"name\":\"w\",\"port\":80,"
		"\"weight\":9,\"request\":{\"set\":[{\"name\":\"a\",\"value\":\"1\"}]},"
		"\"response\":{"
		"\"remove\":[\"b\"]}},{\"ns\":\"n\",\"name\":\"gone\",\"invalid\":true,\"weight\":"
		"0}],"
		"\"mirrors\":[{\"ns\":\"n\",\"name\":\"m\",\"port\":1,\"numerator\":1,"
		"\"denominator\":100}],\"request\":{\"add\":[{\"name\":\"a\",\"value\":\"2\"}]},"
		"\"rewrite\":{\"host\":\"h\",\"prefix\":\"\"},\"retry\":{\"codes\":[500,503],"
		"\"attempts\":2,\"backoffMs\":100},\"session\":{\"header\":true,\"name\":\"S\","
		"\"absoluteMs\":60000,\"idleMs\":5}},"
		"{\"route\":\"n/r\",\"redirect\":{\"full\":\"/"
		"x\",\"scheme\":\"https\",\"port\":8443,"
		"\"status\":301}},"
		"{\"route\":\"n/r\",\"status\":500}",
		"{\"ns\":\"c\",\"grpc\":true,\"ports\":[80,81],\"matches\":[{\"rule\":2,\"exact\":"
		"\"/x\",\"method\":\"GET\",\"headers\":[{\"name\":\"a\",\"value\":\"b\"},{\"name\":"
		"\"c\",\"regex\":\"d+\"}],\"params\":[{\"name\":\"e\",\"value\":\"f\"}]},"
		"{\"rule\":0,\"prefix\":\"\"},{\"rule\":1,\"regex\":\"/.*\"},{\"rule\":1}]}"));
	struct self self = {.node = "edge-1"};
	struct service *s, *again;
	struct err err = {0};
	auto_buf struct buf out;
	struct view *v;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	if (view_parse(&v, json, strlen(json), &err) < 0)
		fail_msg("%s", err.text);
	assert_true(view_build(&out, v) == view_digest(json, strlen(json)));
	assert_string_equal(buf_str(&out), json);
	s = service_build(v, &self, 1, 2);
	view_free(&v);
	again = service_ref(s);
	service_unref(&s);
	assert_int_equal(again->routes->n_rules, 3);
	assert_int_equal(again->routes->rules[0].weight, 9);
	assert_string_equal(again->routes->rules[0].backends[0].request->set[0].value, "1");
	assert_int_equal(again->routes->rules[2].status, 500);
	service_unref(&again);
}

static void
wrong_routes_are_refused(void **state)
{
	static const struct {
		const char *json, *why;
	} rows[] = {
		{ROUTES("{\"route\":\"r\"}", ""), "'r' is not allowed"},
		{ROUTES("{}", ""), "of no route"},
		{ROUTES("{\"route\":\"n/r\",\"status\":200}", ""), "answers 200"},
		{ROUTES(RULE("r"), "{\"ports\":[80],\"matches\":[{\"rule\":1}]}"), "not there"},
		{ROUTES(RULE("r"), "{\"ports\":[80],\"matches\":[{}]}"), "not there"},
		{"{\"tables\":[{\"ports\":[80],\"matches\":[{\"rule\":0}]}],\"rules\":[" RULE(
			 "r") "]}",
			"not there"},
		{ROUTES("", "{\"ports\":[0]}"), "a port from 1"},
		{ROUTES("", "{\"ns\":\"A\",\"ports\":[1]}"), "'A' is not allowed"},
#define MATCH(m) ROUTES(RULE("r"), "{\"ports\":[80],\"matches\":[{\"rule\":0," m "}]}")
		{MATCH("\"exact\":\"x\""), "no path"},
		{MATCH("\"exact\":\"/x?y\""), "no path"},
		{MATCH("\"exact\":\"/x\",\"prefix\":\"/x\""), "more than one path"},
		{MATCH("\"prefix\":\"/x/\""), "no prefix"},
		{MATCH("\"method\":\"G T\""), "no method"},
		{MATCH("\"headers\":[{\"name\":\"a b\",\"value\":\"\"}]"), "no name"},
		{MATCH("\"headers\":[{\"name\":\"a\"}]"), "either value or regex"},
		{MATCH("\"headers\":[{\"name\":\"a\",\"value\":\"\",\"regex\":\"b\"}]"),
			"either value or regex"},
#define PART(p) ROUTES("{\"route\":\"n/r\"," p "}", "")
		{PART("\"backends\":[{\"ns\":\"n\",\"name\":\"w\"}]"), "without namespace"},
		{PART("\"backends\":[{\"ns\":\"n\",\"name\":\"w\",\"port\":1,\"weight\":1000001}]"),
			"greater than"},
		{PART("\"mirrors\":[{\"ns\":\"n\",\"name\":\"w\",\"port\":1,\"denominator\":0}]"),
			"gets nothing"},
		{PART("\"request\":{\"set\":[{\"name\":\"Host\",\"value\":\"x\"}]}"),
			"may not be edited"},
		{PART("\"request\":{\"remove\":[\"Connection\"]}"), "may not be edited"},
		{PART("\"request\":{\"set\":[{\"name\":\"a\",\"value\":\"\"}]}"), "no value"},
		{PART("\"request\":{\"set\":[{\"name\":\"a\",\"value\":\"x\\ny\"}]}"), "no value"},
		{PART("\"rewrite\":{\"full\":\"/x\",\"prefix\":\"/y\"}"), "and of its prefix"},
		{PART("\"rewrite\":{\"full\":\"x\"}"), "no path"},
		{PART("\"redirect\":{\"scheme\":\"ftp\"}"), "not http or https"},
		{PART("\"redirect\":{\"status\":304}"), "with status 304"},
		{PART("\"retry\":{\"codes\":[200]}"), "from 400 to 599"},
		{PART("\"session\":{\"name\":\"s\",\"path\":\"/;x\"}"), "no path"},
		{PART("\"session\":{\"name\":\"a b\"}"), "no name"},
		{PART("\"session\":{}"), "no name"},
		{PART("\"requestMs\":86400001"), "greater than"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_routes *r;
		struct err err = {0};
		struct json j;

		json_init(&j, rows[i].json, strlen(rows[i].json));
		r = http_routes_parse(&j);
		if (r != NULL)
			fail_msg("accepted: %s", rows[i].json);
		assert_true(json_finish(&j, &err) < 0);
		if (strstr(err.text, rows[i].why) == NULL)
			fail_msg("%s\n%s", rows[i].json, err.text);
	}
}

/* What the hub's library knows and ours does not matches nothing, and takes nothing else away. */
static void
unknown_expressions_match_nothing(void **state)
{
	struct http_routes *r = parse(ROUTES(RULE("one") "," RULE("two"),
		"{" T80 "\"matches\":[{\"rule\":0,\"regex\":\"(\"},{\"rule\":0,\"regex\":"
		"\"((ab){100}){100}\"},{\"rule\":0,\"headers\":[{\"name\":\"a\",\"regex\":\"(*UTF)."
		"\""
		"}]},{\"rule\":1,\"prefix\":\"\"}]}"));

	(void)state;
	assert_int_equal(r->n_unknown, 3);
	assert_string_equal(ask(r, 80, "", false, GET("/(") "\r\na: b"), "n/two");
	http_routes_unref(&r);
}

/* Lists are bounded one by one and together. */
static void
bounds_are_kept(void **state)
{
	static const struct {
		int tables, matches;
		const char *match, *why;
	} rows[] = {
		{1, ROUTES_MATCHES_MAX + 1, "{\"rule\":0}", "at most 65536"},
		{2, ROUTES_MATCHES_MAX / 2 + 1, "{\"rule\":0}", "at most 65536"},
		{1, ROUTES_REGEX_MAX + 1, "{\"rule\":0,\"regex\":\"a\"}", "regular expressions"},
		{ROUTES_TABLES_MAX + 1, 0, "", "at most 1024"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};
		auto_buf struct buf text;
		struct json j;

		buf_init(&text, BUF_UNLIMITED);
		buf_adds(&text, "{\"rules\":[" RULE("r") "],\"tables\":[");
		for (int t = 0; t < rows[i].tables; t++) {
			buf_printf(&text, "%s{" T80 "\"matches\":[", t > 0 ? "," : "");
			for (int k = 0; k < rows[i].matches; k++)
				buf_printf(&text, "%s%s", k > 0 ? "," : "", rows[i].match);
			buf_adds(&text, "]}");
		}
		buf_adds(&text, "]}");
		json_init(&j, buf_at(&text), buf_len(&text));
		assert_null(http_routes_parse(&j));
		assert_true(json_finish(&j, &err) < 0);
		if (strstr(err.text, rows[i].why) == NULL)
			fail_msg("%zu: %s", i, err.text);
	}
}

/* An expression that would need ages is no match, soon. */
/* Without a way back there is no bound: RE2, too, has none of these. */
static void
regexes_are_re2s(void)
{
	static const char *const refused[] = {"(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a*)",
		"a*+", "a?+", "a{2}+", "a+?+", "(?(1)a)", "(?R)", "(?1)", "(?<n>a)\\k<n>", "(a)\\1",
		"(*COMMIT)a", "\\Qa\\E", "\\c[(?=a)]", "[a[:b](?=x)[c:]]", "[\\Q]\\E(?=a)]",
		"(?#a)", "(?x)a", "a\\", "[]a](?=b)"};
	static const char *const taken[] = {"(a|b)+c", "(?:a)", "(?i)a", "(?i:a)", "(?P<n>a)",
		"(?<n>a)", "[+*(?=]+", "[]+(?=]", "[[:alpha:]+(?=]+", "\\(?\\+a", "a{2,3}?",
		"a{x}+", "[^\\]]+", "\\d+\\.\\x41"};
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (route_regex_new(refused[i], &err) != NULL)
			fail_msg("%s", refused[i]);
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		struct route_regex *r = route_regex_new(taken[i], &err);

		if (r == NULL)
			fail_msg("%s: %s", taken[i], err.text);
		route_regex_free(&r);
	}
}

/* An expression that looks at much in each step has few of them, and so have many together. */
static void
regexes_cost_little(void)
{
	static char text[1000];
	struct route_regex *far = route_regex_new("(?:(?:a?){30}a{4000}b|a)*", NULL);
	struct route_regex *near = route_regex_new(".*", NULL),
			   *lazy = route_regex_new(".*?", NULL);

	memset(text, 'a', sizeof text);
	assert_false(route_regex_matches(far, scratch, text, 999));
	assert_true(route_regex_matches(near, scratch, text, 999));
	assert_true(route_regex_matches(lazy, scratch, text, 999));
	route_regex_share(lazy, 256);
	assert_false(route_regex_matches(lazy, scratch, text, 999)); /* a step for each byte */
	assert_true(route_regex_matches(lazy, scratch, text, 100));
	route_regex_free(&far);
	route_regex_free(&near);
	route_regex_free(&lazy);
}

static void
expressions_are_bounded(void **state)
{
	static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
	struct route_regex *r = route_regex_new("(a|aa|a?)+c", NULL);
	struct route_regex *well = route_regex_new("(a|aa|a?)+b", NULL);
	struct err err = {0};

	(void)state;
	assert_false(route_regex_matches(r, scratch, text, strlen(text)));
	assert_true(route_regex_matches(well, scratch, text, strlen(text)));
	assert_false(route_regex_matches(well, scratch, text, strlen(text) - 1));
	route_regex_free(&r);
	route_regex_free(&well);
	regexes_are_re2s();
	regexes_cost_little();
	assert_null(route_regex_new("", &err));
	assert_null(route_regex_new("[a-", &err));
	assert_non_null(strstr(err.text, "at byte 3"));
}

static int
set_up(void **state)
{
	(void)state;
	scratch = route_regex_scratch_new();
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	route_regex_scratch_free(&scratch);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(conditions),
		cmocka_unit_test(tables),
		cmocka_unit_test(any_order_is_kept),
		cmocka_unit_test(many_rules),
		cmocka_unit_test(rewrites),
		cmocka_unit_test(locations),
		cmocka_unit_test(edits),
		cmocka_unit_test(weights),
		cmocka_unit_test(routes_survive),
		cmocka_unit_test(wrong_routes_are_refused),
		cmocka_unit_test(unknown_expressions_match_nothing),
		cmocka_unit_test(bounds_are_kept),
		cmocka_unit_test(expressions_are_bounded),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
