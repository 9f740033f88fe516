/* Messages as a CloudHub sends them: whole v1 objects without kind, lists without tombstones. */
#include "meta/client/cloudhub_cache.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/core/buf.h"
#include "model/view.h"

#define META(name, version)                                                                        \
	"\"metadata\":{\"name\":\"" name "\",\"namespace\":\"default\",\"resourceVersion\":"       \
	"\"" version "\",\"labels\":{\"app\":\"web\"}}"
#define SERVICE(name, version, port)                                                               \
	"{" META(name, version) ",\"spec\":{\"selector\":{\"app\":\"web\"},\"ports\":[{\"name\":"  \
				"\"http\",\"protocol\":\"TCP\",\"port\":" port                     \
				",\"targetPort\":8080}],\"clusterIP\":\"10.96.0.10\"},"            \
				"\"status\":{\"loadBalancer\":{}}}"
#define POD(name, version, ip)                                                                     \
	"{" META(name, version) ",\"spec\":{\"nodeName\":\"edge-1\",\"containers\":[{\"name\":"    \
				"\"main\",\"ports\":[{\"containerPort\":8080,\"hostPort\":30080,"  \
				"\"protocol\":\"TCP\"}]}]},\"status\":{\"phase\":\"Running\","     \
				"\"hostIP\":\"192.0.2.11\",\"podIP\":\"" ip "\"}}"
#define ENDPOINTS(name, version, ip)                                                               \
	"{" META(name, version) ",\"subsets\":[{\"addresses\":[{\"ip\":\"" ip "\"}],\"ports\":"    \
				"[{\"name\":\"http\",\"port\":8080,\"protocol\":\"TCP\"}]}]}"

struct bed {
	struct cloudhub_cache *m;
	struct err err;
	char told[512]; /* what drain saw: "+ns/name -ns/name " */
	size_t n_told, n_bytes;
	char json[4096]; /* of the last one */
};

static int
set_up(void **state)
{
	struct bed *b = xcalloc(1, sizeof(*b));

	b->m = cloudhub_cache_new();
	cloudhub_cache_begin(b->m);
	*state = b;
	return 0;
}

static int
tear_down(void **state)
{
	struct bed *b = *state;

	cloudhub_cache_free(&b->m);
	assert_null(b->m);
	free(b);
	return 0;
}

static struct tree *
parse(const char *json)
{
	struct tree *t = NULL;
	struct err err = {0};

	if (json != NULL && tree_parse(&t, "test", json, strlen(json), &err) < 0)
		fail_msg("%s", err.text);
	return t;
}

static const struct tree_node *
top(const struct tree *t)
{
	return t != NULL ? tree_document(t, 0) : NULL;
}

static int
put(struct bed *b, enum kube_kind kind, const char *name, const char *json)
{
	struct tree *t = parse(json);
	const struct cloudhub_cache_object o = {
		.kind = kind, .ns = "default", .name = name, .content = top(t)};
	int rc = cloudhub_cache_put(b->m, &o, &b->err);

	tree_free(&t);
	return rc;
}

static int
drop(struct bed *b, enum kube_kind kind, const char *name, const char *json)
{
	struct tree *t = parse(json);
	const struct cloudhub_cache_object o = {
		.kind = kind, .ns = "default", .name = name, .content = top(t)};
	int rc = cloudhub_cache_delete(b->m, &o, &b->err);

	tree_free(&t);
	return rc;
}

static int
list(struct bed *b, enum kube_kind kind, const char *service, const char *json)
{
	struct tree *t = parse(json);
	const struct cloudhub_cache_list l = {
		.kind = kind, .ns = "default", .service = service, .content = top(t)};
	int rc = cloudhub_cache_listed(b->m, &l, &b->err);

	tree_free(&t);
	return rc;
}

static const char *
drain(struct bed *b)
{
	struct cloudhub_cache_change c;
	size_t len = 0;

	b->told[0] = '\0';
	b->n_told = 0;
	while (cloudhub_cache_next(b->m, &c)) {
		b->n_told++;
		b->n_bytes += c.len;
		len = strlen(b->told);
		snprintf(b->told + len, sizeof(b->told) - len, "%s%c%s", len > 0 ? " " : "",
			c.json != NULL ? '+' : '-', c.name);
		snprintf(b->json, sizeof(b->json), "%s", c.json != NULL ? c.json : "");
	}
	return b->told;
}

static void
waits_for_pods(void **state)
{
	struct bed *b = *state;
	struct cloudhub_cache_question q;

	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "5", "80")), 0);
	assert_string_equal(drain(b), ""); /* whom it consists of is not known */
	assert_true(cloudhub_cache_ask(b->m, &q));
	assert_int_equal(q.kind, KUBE_POD);
	assert_string_equal(q.service, "web");
	assert_true(cloudhub_cache_ask(b->m, &q));
	assert_int_equal(q.kind, KUBE_ENDPOINTS);
	assert_false(cloudhub_cache_ask(b->m, &q));
	assert_int_equal(list(b, KUBE_POD, "web", "[" POD("web-0", "6", "172.17.0.2") "]"), 0);
	assert_string_equal(drain(b), "+web");
	assert_non_null(strstr(b->json, "\"hostPort\":30080"));
	assert_string_equal(drain(b), "");
}

static void
gives_up_asking(void **state)
{
	struct bed *b = *state;
	struct cloudhub_cache_question q;

	cloudhub_cache_stored(b->m, "default/old", 7);
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "5", "80")), 0);
	assert_int_equal(put(b, KUBE_SERVICE, "old", SERVICE("old", "5", "80")), 0);
	while (cloudhub_cache_ask(b->m, &q))
		cloudhub_cache_give_up(b->m, &q);
	assert_string_equal(drain(b), "+web"); /* of the stored one more is known than here */
}

/* An insert of what exists, a delete of what does not. */
static void
any_operation_goes(void **state)
{
	struct bed *b = *state;

	assert_int_equal(list(b, KUBE_POD, "web", "{\"items\":null}"), 0);
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "5", "80")), 0);
	assert_string_equal(drain(b), "+web");
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "6", "81")), 0);
	assert_string_equal(drain(b), "+web");
	assert_non_null(strstr(b->json, "\"port\":81"));
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "6", "81")), 0);
	assert_string_equal(drain(b), "");
	assert_int_equal(drop(b, KUBE_POD, "nobody", NULL), 0);
	assert_int_equal(drop(b, KUBE_SERVICE, "nobody", NULL), 0);
	assert_string_equal(drain(b), "");
	assert_int_equal(drop(b, KUBE_SERVICE, "web", NULL), 0);
	assert_string_equal(drain(b), "-web");
}

static void
older_ones_are_passed_over(void **state)
{
	struct bed *b = *state;

	list(b, KUBE_POD, "web", "[]");
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "10", "80")), 0);
	assert_string_equal(drain(b), "+web");
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "9", "81")), 1);
	assert_int_equal(drop(b, KUBE_SERVICE, "web", SERVICE("web", "8", "81")), 1);
	assert_string_equal(drain(b), "");
	assert_int_equal(drop(b, KUBE_SERVICE, "web", SERVICE("web", "12", "80")), 0);
	assert_string_equal(drain(b), "-web");
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "11", "80")), 1);
	assert_string_equal(drain(b), "");
	list(b, KUBE_POD, "web", "[]");
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "13", "80")), 0);
	assert_string_equal(drain(b), "+web");
}

/* A list is the whole truth, but for what is younger than it. */
static void
lists_delete(void **state)
{
	struct bed *b = *state;

	list(b, KUBE_POD, "a", "[]");
	list(b, KUBE_POD, "b", "[]");
	list(b, KUBE_POD, "c", "[]");
	assert_int_equal(list(b, KUBE_SERVICE, NULL,
				 "[" SERVICE("a", "1", "80") "," SERVICE("b", "2", "80") "]"),
		0);
	assert_string_equal(drain(b), "+a +b");
	assert_int_equal(put(b, KUBE_SERVICE, "c", SERVICE("c", "20", "80")), 0);
	assert_string_equal(drain(b), "+c");
	assert_int_equal(list(b, KUBE_SERVICE, NULL,
				 "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" SERVICE(
					 "b", "2", "80") "]}"),
		0);
	assert_string_equal(drain(b), "-a");
	assert_int_equal(list(b, KUBE_SERVICE, NULL, "[]"), 0);
	assert_int_equal(strlen(drain(b)), strlen("-b -c"));
	assert_int_equal(list(b, KUBE_SERVICE, NULL, "null"), -EINVAL);
	assert_int_equal(list(b, KUBE_SERVICE, NULL, "{}"), -EINVAL);
	assert_int_equal(list(b, KUBE_SERVICE, NULL, "\"x\""), -EINVAL);
	assert_int_equal(list(b, KUBE_POD, "b", "5"), -EINVAL);
}

static void
pods_of_two_lists(void **state)
{
	struct bed *b = *state;

	put(b, KUBE_SERVICE, "a", SERVICE("a", "1", "80"));
	put(b, KUBE_SERVICE, "b", SERVICE("b", "2", "80"));
	list(b, KUBE_POD, "a", "[" POD("p", "3", "172.17.0.2") "," POD("q", "4", "172.17.0.3") "]");
	list(b, KUBE_POD, "b", "[" POD("p", "3", "172.17.0.2") "]");
	drain(b);
	list(b, KUBE_POD, "a", "[" POD("q", "4", "172.17.0.3") "]");
	assert_string_equal(drain(b), ""); /* the other list has it */
	list(b, KUBE_POD, "b", "[]");
	assert_int_equal(strlen(drain(b)), strlen("+a +b"));
	assert_null(strstr(b->json, "172.17.0.2"));
	assert_non_null(strstr(b->json, "172.17.0.3"));
	list(b, KUBE_POD, "a", "{\"items\":null}");
	drain(b);
	assert_null(strstr(b->json, "172.17"));
}

static void
stored_ones_stay_until_the_list(void **state)
{
	struct bed *b = *state;
	struct cloudhub_cache_question q;

	cloudhub_cache_stored(b->m, "default/web", 1);
	cloudhub_cache_stored(b->m, "default/old", 2);
	cloudhub_cache_stored(b->m, "default/web-0.web", 3);
	assert_string_equal(drain(b), "");
	assert_false(cloudhub_cache_has_list(b->m));
	assert_int_equal(drop(b, KUBE_POD, "old", NULL), 0);
	assert_string_equal(drain(b), "");
	assert_int_equal(list(b, KUBE_SERVICE, NULL, "[" SERVICE("web", "5", "80") "]"), 0);
	assert_true(cloudhub_cache_has_list(b->m));
	assert_string_equal(drain(b), "-old"); /* web's pods are not known */
	assert_true(cloudhub_cache_ask(b->m, &q));
	list(b, KUBE_POD, "web", "[" POD("web-0", "6", "172.17.0.2") "]");
	drain(b);
	assert_int_equal(b->n_told, 2);
	assert_non_null(strstr(b->told, "+web"));
	assert_non_null(strstr(b->told, "-web-0.web"));

	cloudhub_cache_begin(
		b->m); /* a new connection: asked and listed anew, nothing is deleted meanwhile */
	cloudhub_cache_stored(b->m, "default/new", 2);
	assert_false(cloudhub_cache_has_list(b->m));
	assert_string_equal(drain(b), "");
	list(b, KUBE_SERVICE, NULL, "[" SERVICE("web", "5", "80") "]");
	assert_string_equal(drain(b), "-new");
	assert_true(cloudhub_cache_ask(b->m, &q));
}

/* The cluster was restored from an older etcd, whose versions count on from there. */
static void
a_new_connection_may_know_lower_versions(void **state)
{
	struct bed *b = *state;

	put(b, KUBE_SERVICE, "old", SERVICE("old", "90", "80"));
	put(b, KUBE_SERVICE, "web", SERVICE("web", "100", "80"));
	list(b, KUBE_POD, "old", "[]");
	list(b, KUBE_POD, "web", "[" POD("web-0", "100", "172.17.0.2") "]");
	drain(b);
	assert_int_equal(b->n_told, 2);

	cloudhub_cache_begin(b->m);
	list(b, KUBE_SERVICE, NULL,
		"{\"metadata\":{\"resourceVersion\":\"60\"},\"items\":[" SERVICE(
			"web", "50", "81") "]}");
	drain(b);
	assert_non_null(strstr(b->told, "-old"));
	assert_non_null(strstr(b->told, "+web"));
	list(b, KUBE_POD, "web", "[" POD("web-0", "51", "172.17.0.3") "]");
	assert_string_equal(drain(b), "+web");
	assert_non_null(strstr(b->json, "\"port\":81"));
	assert_non_null(strstr(b->json, "172.17.0.3"));
	/* What comes later on the same connection is compared again. */
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "49", "82")), 1);
}

static void
a_delete_takes_the_stored_one(void **state)
{
	struct bed *b = *state;

	cloudhub_cache_stored(b->m, "default/web", 1);
	cloudhub_cache_stored(b->m, "default/web-0.web", 3);
	assert_int_equal(drop(b, KUBE_SERVICE, "web", NULL), 0);
	drain(b);
	assert_int_equal(b->n_told, 2);
}

static void
the_store_lost_everything(void **state)
{
	struct bed *b = *state;

	list(b, KUBE_POD, "web", "[]");
	put(b, KUBE_SERVICE, "web", SERVICE("web", "5", "80"));
	assert_string_equal(drain(b), "+web");
	cloudhub_cache_forget_stored(b->m);
	list(b, KUBE_SERVICE, NULL, "[" SERVICE("web", "5", "80") "]");
	assert_string_equal(drain(b), "+web");
	cloudhub_cache_forget_stored(b->m);
	cloudhub_cache_stored(b->m, "default/web", 0);
	list(b, KUBE_SERVICE, NULL, "[" SERVICE("web", "5", "80") "]");
	assert_string_equal(drain(b), "+web");
}

static void
not_now(void **state)
{
	struct bed *b = *state;
	struct cloudhub_cache_change c;

	list(b, KUBE_POD, "web", "[]");
	put(b, KUBE_SERVICE, "web", SERVICE("web", "5", "80"));
	assert_true(cloudhub_cache_next(b->m, &c));
	cloudhub_cache_again(b->m);
	assert_string_equal(drain(b), "+web");
	drop(b, KUBE_SERVICE, "web", NULL);
	assert_true(cloudhub_cache_next(b->m, &c));
	cloudhub_cache_again(b->m);
	assert_string_equal(drain(b), "-web");
	assert_string_equal(drain(b), "");
}

static void
without_selector(void **state)
{
	static const char service[] =
		"{\"metadata\":{\"name\":\"db\",\"namespace\":\"default\"},\"spec\":{\"ports\":[{"
		"\"name\":\"http\",\"port\":80,\"protocol\":\"TCP\"}]}}";
	struct bed *b = *state;
	struct cloudhub_cache_question q;

	put(b, KUBE_SERVICE, "db", service);
	assert_string_equal(drain(b), "");
	assert_true(cloudhub_cache_ask(b->m, &q));
	assert_int_equal(q.kind, KUBE_ENDPOINTS);
	put(b, KUBE_ENDPOINTS, "db", ENDPOINTS("db", "6", "198.51.100.9"));
	assert_string_equal(drain(b), "+db");
	assert_non_null(strstr(b->json, "198.51.100.9"));
	drop(b, KUBE_ENDPOINTS, "db", NULL);
	assert_string_equal(drain(b), "+db");
	assert_null(strstr(b->json, "198.51.100.9"));
}

static void
bad_objects(void **state)
{
	struct bed *b = *state;

	list(b, KUBE_POD, "web", "[]");
	put(b, KUBE_SERVICE, "web", SERVICE("web", "5", "80"));
	assert_string_equal(drain(b), "+web");
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("web", "6", "\"x\"")), -EINVAL);
	assert_int_equal(put(b, KUBE_SERVICE, "web", SERVICE("api", "6", "80")), -EINVAL);
	assert_int_equal(put(b, KUBE_SERVICE, "web", "null"), -EINVAL);
	assert_int_equal(put(b, KUBE_SERVICE, "web", "[]"), -EINVAL);
	assert_int_equal(put(b, KUBE_SERVICE, "web", NULL), -EINVAL);
	/* in a list: its last good form counts on */
	assert_int_equal(
		list(b, KUBE_SERVICE, NULL,
			"[7,{}," SERVICE("web", "6", "99999") "," SERVICE("api", "7", "80") "]"),
		3);
	list(b, KUBE_POD, "api", "[]");
	assert_string_equal(drain(b), "+api");
}

static void
ten_thousand(void **state)
{
	struct bed *b = *state;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "[");
	for (int i = 0; i < 10000; i++) {
		buf_printf(&out,
			"%s{\"metadata\":{\"name\":\"s-%d\",\"namespace\":\"default\","
			"\"resourceVersion\":\"%d\"},\"spec\":{\"type\":\"ExternalName\","
			"\"externalName\":\"a.example\"}}",
			i > 0 ? "," : "", i, i + 1);
		cloudhub_cache_stored(b->m, "default/gone", 1);
	}
	buf_adds(&out, "]");
	assert_int_equal(list(b, KUBE_SERVICE, NULL, buf_str(&out)), 0);
	drain(b);
	assert_int_equal(b->n_told, 10001);
	assert_int_equal(cloudhub_cache_objects(b->m), 10000);
	assert_int_equal(list(b, KUBE_SERVICE, NULL, buf_str(&out)), 0);
	drain(b);
	assert_int_equal(b->n_told, 0);
	assert_int_equal(list(b, KUBE_SERVICE, NULL, "[]"), 0);
	drain(b);
	assert_int_equal(b->n_told, 10000);
	assert_int_equal(cloudhub_cache_objects(b->m), 0);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(waits_for_pods),
		CASE(gives_up_asking),
		CASE(any_operation_goes),
		CASE(older_ones_are_passed_over),
		CASE(lists_delete),
		CASE(pods_of_two_lists),
		CASE(stored_ones_stay_until_the_list),
		CASE(a_new_connection_may_know_lower_versions),
		CASE(a_delete_takes_the_stored_one),
		CASE(the_store_lost_everything),
		CASE(not_now),
		CASE(without_selector),
		CASE(bad_objects),
		CASE(ten_thousand),
	};

	return cmocka_run_group_tests_name("mirror", tests, NULL, NULL);
}
