/* The reflector against answers of a real API server, cut at every border and lost at every byte,
 * and its faults. */
#include "tests/unit/hub/kube/api_bed.h"
#include <errno.h>

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/kube/reflector_private.h"

#define SERVICE(name, version)                                                                     \
	"{\"metadata\":{\"name\":\"" name                                                          \
	"\",\"namespace\":\"default\",\"resourceVersion\":\"" version                              \
	"\"},\"spec\":{\"ports\":[{\"port\":80}]}}"
#define LIST(version, items)                                                                       \
	"{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"       \
	"\"" version "\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"

/* One service is there and another, and the watch has begun. */
static void
begin_with_two(struct api_bed *b, uint64_t silence_ms)
{
	api_say_json(b, 200, LIST("100", SERVICE("a", "90") "," SERVICE("b", "95")));
	api_begin(b, KUBE_SERVICE, silence_ms);
}

static size_t
count(const struct api_bed *b)
{
	return cluster_count(b->cluster, b->kind);
}

static const struct reflector_stats *
stats(const struct api_bed *b)
{
	return reflector_stats(b->reflector);
}

static bool
has(struct api_bed *b, const char *name)
{
	/* Keeping what is there changes nothing. */
	return cluster_keep(b->cluster, "", b->kind, "default", name);
}

static void
asked(const struct api_bed *b, size_t at, const char *part)
{
	assert_true(at < b->n_requests);
	if (strstr(b->requests[at], part) == NULL)
		fail_msg("request %zu: \"%s\" without \"%s\"", at, b->requests[at], part);
}

/* --- recordings ----------------------------------------------------------------------------- */

static void
lists_in_pages(void **state)
{
	struct api_bed *b = *state;

	for (size_t piece = 0; piece < 3; piece++) {
		char name[64];

		api_reset(b);
		for (unsigned page = 1; page <= 7; page++) {
			snprintf(name, sizeof name, "10-list-services-page%u", page);
			api_say_recorded(b, name, piece);
		}
		api_begin(b, KUBE_SERVICE, 0);
		api_until(b, b->n_requests == 8);
		assert_true(reflector_listed(b->reflector));
		assert_int_equal(count(b), 13);
		assert_true(has(b, "edge-nginx") && has(b, "life") == false);
		asked(b, 0, "GET /api/v1/services?limit=500 HTTP/1.1");
		asked(b, 1, "limit=500&continue=%65%79");
		asked(b, 7, "watch=true&allowWatchBookmarks=true&timeoutSeconds=");
		asked(b, 7, "&resourceVersion=358 ");
		assert_int_equal(stats(b)->lists, 1);
	}
}

/* What kubectl did in the recording, whatever the borders: create, change, delete, and a
 * bookmark. */
static void
watch_is_cut_at(struct api_bed *b, const char *recording, size_t len, size_t border)
{
	api_reset(b);
	api_say_recorded(b, "13-list-empty", 0);
	api_say(b, (struct said){.text = recording, .len = len, .border = border});
	api_begin(b, KUBE_SERVICE, 0);
	api_until(b, b->n_requests >= 3);
	assert_int_equal(stats(b)->events, 4);
	assert_int_equal(stats(b)->removed, 1);
	assert_int_equal(stats(b)->errors, 0);
	assert_int_equal(count(b), 0);
}

static void
watches_at_every_border(void **state)
{
	struct api_bed *b = *state;
	size_t len;
	auto_free char *text = api_recording("20-watch-services", &len);

	for (size_t i = 1; i < len; i++)
		watch_is_cut_at(b, text, len, i);
}

/* The connection ends at some byte; the next watch goes on from the last version that came
 * whole. */
static void
connection_lost_at_every_byte(void **state)
{
	static const char *const versions[] = {"358", "381", "382", "383"};
	struct api_bed *b = *state;
	size_t len;
	auto_free char *text = api_recording("20-watch-services", &len);

	for (size_t i = 1; i < len; i += 3) {
		uint64_t events;
		char want[64];

		api_reset(b);
		api_say_recorded(b, "13-list-empty", 0);
		api_say(b, (struct said){.text = text, .len = i, .cut = true});
		api_begin(b, KUBE_SERVICE, 0);
		api_until(b, b->n_requests == 3);
		events = stats(b)->events;
		if (events == 4)
			continue;
		snprintf(want, sizeof want, "&resourceVersion=%s ", versions[events]);
		asked(b, 2, want);
		asked(b, 2, "watch=true");
		assert_int_equal(count(b), events == 1 || events == 2);
		/* Of a cut status line libcurl makes a second attempt of its own. */
		assert_true(i < 20 || reflector_problem(b->reflector)[0] != '\0');
		assert_int_equal(stats(b)->lists, 1);
	}
}

/* Without the last chunk, as a killed server leaves it. */
static void
server_killed(void **state)
{
	struct api_bed *b = *state;
	size_t len;
	auto_free char *text = api_recording("33-watch-server-kill9", &len);

	api_reset(b);
	begin_with_two(b, 0);
	api_say(b, (struct said){.text = text, .len = len, .cut = true});
	api_until(b, b->n_requests == 3);
	asked(b, 2, "resourceVersion=100 ");
	assert_int_equal(count(b), 2);
	assert_int_equal(stats(b)->errors, 1);
}

static char *
view_of(struct cluster *c, const char *name)
{
	struct cluster_change change;
	char *json = NULL;

	while (cluster_next_change(c, &change)) {
		if (strcmp(change.name, name) == 0) {
			free(json);
			json = change.json != NULL ? xstrdup(change.json) : NULL;
		}
		cluster_change_fini(&change);
	}
	return json;
}

/* Says one object in the name of another source, or of another reflector (""). */
static void
put_other(struct cluster *c, const char *source, const char *text)
{
	struct kube_object *o;
	struct err err = {0};
	struct tree *t;

	assert_int_equal(tree_parse(&t, "m", text, strlen(text), NULL), 0);
	assert_int_equal(kube_decode(&o, "m", tree_document(t, 0), NULL, &err), 0);
	cluster_put(c, source, &o);
	tree_free(&t);
}

/* The Service of the recorded slices, and their pods. */
static void
put_many(struct cluster *c)
{
	put_other(c, "m",
		"kind: Service\napiVersion: v1\nmetadata: {name: many}\n"
		"spec: {selector: {app: x}, ports: [{port: 80, name: http}]}\n");
	for (unsigned i = 0; i < 8; i++) {
		auto_free char *pod =
			xasprintf("kind: Pod\napiVersion: v1\nmetadata: {name: many-%u}\n", i);

		put_other(c, "m", pod);
	}
}

/* Slices that are re-packed over several events end as a list of them ends; nulls among them. */
static void
slices_are_repacked(void **state)
{
	struct api_bed *b = *state;
	auto_free char *watched = NULL, *listed = NULL;

	api_reset(b);
	put_many(b->cluster);
	api_say_recorded(b, "13-list-empty", 0);
	api_say_recorded(b, "26-many-slices-watch", 7);
	api_begin(b, KUBE_SLICE, 0);
	api_until(b, b->n_requests >= 3);
	asked(b, 0, "GET /apis/discovery.k8s.io/v1/endpointslices?limit=500");
	assert_int_equal(stats(b)->events, 11);
	watched = view_of(b->cluster, "many");
	api_reset(b);
	put_many(b->cluster);
	api_say_recorded(b, "26-many-slices-list-after", 0);
	api_begin(b, KUBE_SLICE, 0);
	api_until(b, b->n_requests >= 2);
	listed = view_of(b->cluster, "many");
	assert_non_null(listed);
	assert_non_null(strstr(listed, "10.244."));
	assert_string_equal(watched, listed);
}

static void
all_kinds(void **state)
{
	static const struct {
		enum kube_kind kind;
		const char *list, *watch;
		size_t n;
		uint64_t events;
	} kinds[] = {
		{KUBE_SLICE, "11-list-endpointslices-rv0", "25-life-slices", 19, 7},
		{KUBE_POD, "11-list-pods-rv0", "21-bookmark-pods", 7, 2},
		{KUBE_NODE, "11-list-nodes-rv0", "20-watch-rv0", 3, 4},
		{KUBE_ENDPOINTS, "10-list-endpoints-page1", "25-life-endpoints", 3, 5},
		{KUBE_SERVICE, "11-list-services-rv0", "20-watch-burst", 13, 20},
	};
	struct api_bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		api_reset(b);
		api_say_recorded(b, kinds[i].list, 100);
		if (kinds[i].kind == KUBE_ENDPOINTS) /* the page says that there are more */
			api_say_json(b, 200, LIST("358", ""));
		api_say_recorded(b, kinds[i].watch, 1);
		api_begin(b, kinds[i].kind, 0);
		api_until(b, stats(b)->events >= kinds[i].events);
		assert_int_equal(stats(b)->events, kinds[i].events);
		assert_int_equal(stats(b)->refused, 0);
		if (count(b) != kinds[i].n)
			fail_msg("%s: %zu", kinds[i].list, count(b));
	}
}

/* --- 410 and its kin ------------------------------------------------------------------------ */

/* As an event: the list is read again, what is gone goes, and there is no moment without the
 * rest. */
static void
history_is_over(void **state)
{
	struct api_bed *b = *state;

	api_reset(b);
	put_other(b->cluster, "", "kind: Node\napiVersion: v1\nmetadata: {name: n}\n");
	put_other(b->cluster, "m", "kind: Pod\napiVersion: v1\nmetadata: {name: p}\n");
	begin_with_two(b, 0);
	api_say_recorded(b, "32-410-watch", 1);
	api_say_json(b, 200, LIST("700", SERVICE("b", "95") "," SERVICE("c", "698")));
	api_until(b, b->n_requests == 3);
	b->least = count(b);
	api_until(b, b->n_requests == 4);
	asked(b, 2, "GET /api/v1/services?limit=500 ");
	asked(b, 3, "&resourceVersion=700 ");
	assert_true(!has(b, "a") && has(b, "b") && has(b, "c"));
	assert_int_equal(b->least, 2);
	assert_int_equal(stats(b)->removed, 1);
	/* Not what another reflector or another source said. */
	assert_int_equal(cluster_count(b->cluster, KUBE_NODE), 1);
	assert_int_equal(cluster_count(b->cluster, KUBE_POD), 1);
}

/* The server was away for long, and has forgotten the version meanwhile: the list follows at once,
 * not after the back-off of the outage. */
static void
history_is_over_after_an_outage(void **state)
{
	struct api_bed *b = *state;

	api_reset(b);
	begin_with_two(b, 0);
	for (int i = 0; i < 6; i++)
		api_say(b, (struct said){.text = "", .cut = true});
	api_say_recorded(b, "32-410-watch", 1);
	api_until(b, reflector_listed(b->reflector) && b->reflector->step == STEP_LIST);
	assert_int_equal(b->reflector->wait.failures, 1);
	api_say_json(b, 200, LIST("700", SERVICE("c", "698")));
	api_until(b, stats(b)->lists == 2);
	assert_true(!has(b, "b") && has(b, "c"));
}

static void
pages_expire(void **state)
{
	struct api_bed *b = *state;

	api_reset(b);
	api_say_recorded(b, "10-list-services-page1", 0);
	api_say_recorded(b, "32-410-continue", 0);
	api_say_json(b, 200, LIST("700", SERVICE("c", "698")));
	api_begin(b, KUBE_SERVICE, 0);
	api_until(b, b->n_requests == 4);
	asked(b, 2, "?limit=0 ");
	asked(b, 3, "&resourceVersion=700 ");
	assert_int_equal(count(b), 1);
	assert_true(has(b, "c"));
}

/* A page is lost: it is asked for again, not the whole list. */
static void
page_is_lost(void **state)
{
	struct api_bed *b = *state;
	size_t len;
	auto_free char *text = api_recording("10-list-services-page2", &len);

	for (size_t i = 1; i < len; i += 97) {
		api_reset(b);
		api_say_recorded(b, "10-list-services-page1", 0);
		api_say(b, (struct said){.text = text, .len = i, .cut = true});
		api_say_recorded(b, "10-list-services-page7", 0);
		api_begin(b, KUBE_SERVICE, 0);
		api_until(b, reflector_listed(b->reflector));
		assert_string_equal(b->requests[1], b->requests[2]);
		assert_true(has(b, "agent") && has(b, "sticky"));
	}
}

static void
error_events(void **state)
{
	static const char text[] = EVENT("ERROR",
		"{\"kind\":\"Status\",\"message\":\"etcd event received with "
		"PrevKv=nil\",\"code\":500}");
	struct api_bed *b = *state;

	api_reset(b);
	begin_with_two(b, 0);
	for (int i = 0; i < 3; i++)
		api_say_json(b, 200, text);
	api_say_json(b, 200, LIST("120", SERVICE("a", "90")));
	api_until(b, b->n_requests == 6);
	asked(b, 2, "watch=true");
	asked(b, 3, "watch=true");
	asked(b, 4, "?limit=500 ");
	assert_int_equal(count(b), 1);
	assert_int_equal(stats(b)->lists, 2);
}

/* --- a server that starts, that is busy, that does not know us ------------------------------ */

static void
refusals(void **state)
{
	static const struct {
		const char *answer, *problem;
	} cases[] = {
		{"30-403-nobody", "verbs list and watch on services"},
		{"30-401-bad-token", "does not know us"},
		{"30-504-rv-too-large", "504: Timeout: Too large resource version"},
	};
	struct api_bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		api_reset(b);
		api_say_recorded(b, cases[i].answer, 3);
		api_begin(b, KUBE_SERVICE, 0);
		api_until(b, stats(b)->errors == 1);
		if (strstr(reflector_problem(b->reflector), cases[i].problem) == NULL)
			fail_msg("%s", reflector_problem(b->reflector));
		api_say_json(b, 200, LIST("100", SERVICE("a", "90")));
		api_until(b, b->n_requests == 3);
		assert_string_equal(reflector_problem(b->reflector), "");
	}
}

/* A right that is missing is not the same as an API that is missing: policies count on. */
static void
refused_policies_stay(void **state)
{
	static const char policy[] =
		"{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: "
		"{name: a, "
		"namespace: default}, spec: {targetRefs: [{group: '', kind: Service, name: a}], "
		"validation: {hostname: a.example, wellKnownCACertificates: System}}}";
	struct api_bed *b = *state;
	struct kube_object *o = NULL;
	struct tree *tree = NULL;

	api_reset(b);
	assert_int_equal(tree_parse(&tree, "policy", policy, sizeof policy - 1, NULL), 0);
	assert_int_equal(kube_decode(&o, "policy", tree_document(tree, 0), NULL, NULL), 0);
	cluster_put(b->cluster, "", &o);
	tree_free(&tree);
	api_say_recorded(b, "30-403-nobody", 3);
	api_begin(b, KUBE_TLS_POLICY, 0);
	api_until(b, stats(b)->errors == 1);
	assert_int_equal(count(b), 1);
	assert_non_null(strstr(reflector_problem(b->reflector), "list and watch on backendtlsp"));
	assert_false(reflector_absent(b->reflector));
}

/* What was granted a moment ago is refused while the server starts: no rights are missing. */
static void
refusals_while_it_starts(void **state)
{
	static const char *const answers[] = {"30-403-nobody", "30-404-path-admin"};
	struct api_bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		api_reset(b);
		begin_with_two(b, 0);
		api_say_recorded(b, answers[i], 0);
		api_until(b, stats(b)->errors == 1);
		assert_non_null(strstr(reflector_problem(b->reflector), "it may be starting"));
		assert_false(reflector_refused(b->reflector));
		assert_false(reflector_absent(b->reflector));
		api_until(b, b->n_requests == 3);
	}
}

static void
waits(void **state)
{
	static const struct https_answer none = {.code = -ECONNREFUSED},
					 forbidden = {.status = 403},
					 over = {.status = 200, .code = -ESTALE},
					 busy = {.status = 429, .retry_after_s = 3};
	struct kube_wait w = {0};
	uint64_t ms;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		ms = kube_wait_ms(&w, &none);
		assert_in_range(ms, i < 4 ? KUBE_WAIT_FIRST_MS / 2 : KUBE_WAIT_MOST_MS / 2,
			KUBE_WAIT_MOST_MS);
	}
	assert_in_range(kube_wait_ms(&w, &forbidden), KUBE_WAIT_FIRST_MS / 2, KUBE_WAIT_FIRST_MS);
	for (int i = 1; i < KUBE_WAIT_REFUSALS; i++)
		assert_in_range(kube_wait_ms(&w, &forbidden), 1, KUBE_WAIT_MOST_MS);
	assert_in_range(
		kube_wait_ms(&w, &forbidden), KUBE_WAIT_REFUSED_MS / 2, KUBE_WAIT_REFUSED_MS);
	assert_in_range(kube_wait_ms(&w, &none), KUBE_WAIT_FIRST_MS / 2, KUBE_WAIT_FIRST_MS);
	for (int i = 0; i < 10; i++)
		kube_wait_ms(&w, &none);
	assert_in_range(kube_wait_ms(&w, &over), KUBE_WAIT_FIRST_MS / 2, KUBE_WAIT_FIRST_MS);
	for (int i = 0; i < 10; i++)
		kube_wait_ms(&w, &over);
	assert_in_range(kube_wait_ms(&w, &over), KUBE_WAIT_MOST_MS / 2, KUBE_WAIT_MOST_MS);
	kube_wait_reset(&w);
	for (int i = 0; i < 100; i++)
		assert_in_range(kube_wait_ms(&w, &busy), 3000, 3000 + KUBE_WAIT_SPREAD_MS);
	assert_true(kube_wait_doubts(&w, &forbidden, 5000));
	assert_true(kube_wait_doubts(&w, &forbidden, 4999 + KUBE_WAIT_DOUBT_MS));
	assert_false(kube_wait_doubts(&w, &forbidden, 5000 + KUBE_WAIT_DOUBT_MS));
	assert_false(kube_wait_doubts(&w, &none, 40000));
	assert_true(kube_wait_doubts(&w, &forbidden, 40000));
}

static void
waits_as_it_is_told(void **state)
{
	struct api_bed *b = *state;
	uint64_t before;

	api_reset(b);
	begin_with_two(b, 0);
	api_say_recorded(b, "31-429-list", 0);
	api_until(b, stats(b)->errors == 1);
	before = mono_ms();
	api_until(b, b->n_requests == 3);
	assert_true(mono_ms() - before >= 990);
	asked(b, 2, "&resourceVersion=100 ");
	assert_int_equal(count(b), 2);
}

static void
forbidden_watch(void **state)
{
	struct api_bed *b = *state;

	api_reset(b);
	begin_with_two(b, 0);
	api_say_recorded(b, "30-403-nobody-watch", 0);
	api_until(b, b->n_requests == 3);
	asked(b, 2, "&resourceVersion=100 ");
	assert_int_equal(count(b), 2);
}

static void
unknown_resource(void **state)
{
	struct api_bed *b = *state;

	api_reset(b);
	api_say_recorded(b, "30-404-path-admin", 0);
	api_begin(b, KUBE_SLICE, 0);
	api_until(b, reflector_absent(b->reflector));
	assert_false(reflector_listed(b->reflector));
}

/* --- silence -------------------------------------------------------------------------------- */

/* A watch that says nothing is asked anew: first whether the server has gone back in time, then
 * from the same version. */
static void
silent_watch(void **state)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	struct api_bed *b = *state;

	api_reset(b);
	begin_with_two(b, 50);
	api_say(b, (struct said){.text = head, .len = strlen(head), .hold = true});
	api_until(b, b->n_requests == 3);
	asked(b, 2, "?limit=1 ");
	api_say_json(b, 200, LIST("101", SERVICE("a", "90")));
	api_until(b, b->n_requests == 4);
	asked(b, 3, "&resourceVersion=100 ");
	assert_int_equal(count(b), 2);
	assert_int_equal(stats(b)->lists, 1);
}

static void
server_went_back(void **state)
{
	struct api_bed *b = *state;

	api_reset(b);
	begin_with_two(b, 0);
	api_say_json(b, 200, "");
	api_say_json(b, 200, LIST("99", SERVICE("a", "90")));
	api_say_json(b, 200, LIST("99", SERVICE("a", "90")));
	api_until(b, b->n_requests == 5);
	asked(b, 2, "?limit=1 ");
	asked(b, 3, "?limit=500 ");
	asked(b, 4, "&resourceVersion=99 ");
	assert_int_equal(count(b), 1);
}

/* --- what is not understood ----------------------------------------------------------------- */

static void
garbage(void **state)
{
	static const char *const texts[] = {
		"not JSON",
		"{\"type\":\"ADDED\"}",
		"{\"type\":\"NEWS\",\"object\":" SERVICE("x", "7") "}",
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1&x\"}}}",
		"{\"a\" 1}",
		"}",
	};
	struct api_bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		api_reset(b);
		begin_with_two(b, 0);
		api_say_json(b, 200, texts[i]);
		api_say_json(b, 200, LIST("110", SERVICE("a", "90")));
		api_until(b, b->n_requests == 4);
		asked(b, 2, "?limit=500 ");
		assert_int_equal(count(b), 1);
		assert_int_equal(stats(b)->lists, 2);
	}
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		api_reset(b);
		api_say_json(b, 200, texts[i]);
		api_say_json(b, 200, LIST("110", SERVICE("a", "90")));
		api_begin(b, KUBE_SERVICE, 0);
		api_until(b, b->n_requests == 3);
		assert_int_equal(count(b), 1);
	}
}

/* An object that we do not understand goes on as it was; the others are taken. */
static void
wrong_object(void **state)
{
	static const char wrong[] = "{\"metadata\":{\"name\":\"a\",\"namespace\":\"default\","
				    "\"resourceVersion\":\"101\"},\"spec\":{\"type\":\"New\"}}";
	struct api_bed *b = *state;
	auto_free char *event = xasprintf("{\"type\":\"MODIFIED\",\"object\":%s}", wrong);
	auto_free char *list =
		xasprintf("{\"metadata\":{\"resourceVersion\":\"110\"},\"items\":[%s," SERVICE(
				  "c", "105") "]}",
			wrong);

	api_reset(b);
	begin_with_two(b, 0);
	api_say_json(b, 200, event);
	api_say_recorded(b, "32-410-watch", 0);
	api_say_json(b, 200, list);
	api_until(b, b->n_requests == 5);
	assert_int_equal(stats(b)->refused, 2);
	assert_true(has(b, "a") && !has(b, "b") && has(b, "c"));
}

/* An event of 1 MB is taken; more than JSON_STREAM_VALUE_MAX is not, and then nothing is
 * removed. */
static void
large_objects(void **state)
{
	struct api_bed *b = *state;
	auto_free char *fill = xmalloc(5000001), *event = NULL, *list = NULL;

	memset(fill, 'x', 5000000);
	fill[5000000] = '\0';
	event = xasprintf("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"big\","
			  "\"namespace\":\"default\","
			  "\"annotations\":{\"a\":\"%.1000000s\"},\"resourceVersion\":\"101\"}}}\n",
		fill);
	list = xasprintf(
		"{\"metadata\":{\"resourceVersion\":\"110\"},\"items\":[{\"metadata\":{\"name\":"
		"\"a\",\"annotations\":{\"a\":\"%s\"}}}," SERVICE("c", "105") "]}",
		fill);
	api_reset(b);
	begin_with_two(b, 0);
	api_say_json(b, 200, event);
	api_say_recorded(b, "32-410-watch", 0);
	api_say_json(b, 200, list);
	api_until(b, b->n_requests == 5);
	assert_true(has(b, "a") && has(b, "b") && has(b, "c") && has(b, "big"));
	assert_int_equal(stats(b)->refused, 1);
}

/* NUL in an annotation, and fields nested deeper than a parser takes, are a tenant's to write: they
 * cost nobody the others. */
static void
odd_objects(void **state)
{
	struct api_bed *b = *state;
	auto_free char *event = NULL, *list = NULL, *open = xmalloc(5 * 3000 + 1),
		       *close = xmalloc(3001);

	for (int i = 0; i < 3000; i++)
		memcpy(open + 5 * i, "{\"f\":", 5);
	open[5 * 3000] = '\0';
	memset(close, '}', 3000);
	close[3000] = '\0';
	list = xasprintf("{\"metadata\":{\"resourceVersion\":\"100\"},\"items\":[{\"metadata\":{"
			 "\"name\":\"nul\","
			 "\"namespace\":\"default\",\"annotations\":{\"a\\u0000\":\"\\u0000\"}}},"
			 "{\"metadata\":{\"name\":\"deep\",\"namespace\":\"default\","
			 "\"managedFields\":[{\"fieldsV1\":"
			 "%s1%s}]}}," SERVICE("a", "90") "]}",
		open, close);
	event = xasprintf(
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"later\",\"namespace\":"
		"\"default\","
		"\"managedFields\":[{\"fieldsV1\":%s1%s}],\"annotations\":{\"a\":\"\\u0000\"},"
		"\"resourceVersion\":\"101\"},\"spec\":{\"ports\":[{\"port\":80}]}}}\n" EVENT(
			"ADDED", SERVICE("b", "102")),
		open, close);
	api_reset(b);
	api_say_json(b, 200, list);
	api_say_json(b, 200, event);
	api_begin(b, KUBE_SERVICE, 0);
	api_until(b, has(b, "b"));
	assert_true(has(b, "nul"));
	assert_true(has(b, "deep"));
	assert_true(has(b, "a"));
	assert_true(has(b, "later"));
	assert_int_equal(stats(b)->refused, 0);
	assert_int_equal(stats(b)->lists, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_in_pages),
		cmocka_unit_test(watches_at_every_border),
		cmocka_unit_test(connection_lost_at_every_byte),
		cmocka_unit_test(server_killed),
		cmocka_unit_test(slices_are_repacked),
		cmocka_unit_test(all_kinds),
		cmocka_unit_test(history_is_over),
		cmocka_unit_test(history_is_over_after_an_outage),
		cmocka_unit_test(pages_expire),
		cmocka_unit_test(page_is_lost),
		cmocka_unit_test(error_events),
		cmocka_unit_test(refusals),
		cmocka_unit_test(refused_policies_stay),
		cmocka_unit_test(refusals_while_it_starts),
		cmocka_unit_test(waits),
		cmocka_unit_test(waits_as_it_is_told),
		cmocka_unit_test(forbidden_watch),
		cmocka_unit_test(unknown_resource),
		cmocka_unit_test(silent_watch),
		cmocka_unit_test(server_went_back),
		cmocka_unit_test(garbage),
		cmocka_unit_test(wrong_object),
		cmocka_unit_test(large_objects),
		cmocka_unit_test(odd_objects),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
