#include "model/snapshot.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "model/check.h"
#include "model/view.h"

static struct service *
make(const char *ns, const char *name, uint32_t fake_ip, const char *cluster_ip)
{
	struct self self = {.node = "a", .site = "", .zone = ""};
	auto_free char *json = xasprintf(
		"{\"ns\":\"%s\",\"name\":\"%s\",\"clusterIP\":\"%s\"}", ns, name, cluster_ip);
	struct view *v;
	struct service *s;

	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, &self, fake_ip, 1);
	view_free(&v);
	return s;
}

/* Replaces *s by the next one. */
static void
step(struct snapshot **s, const char *ns, const char *name, struct service *service)
{
	struct change c = {ns, name, service};
	struct snapshot *next = snapshot_next(*s, &c, 1);

	snapshot_unref(s);
	*s = next;
}

static const struct service *
find(const struct snapshot *s, const char *ns, const char *name)
{
	return snapshot_find(s, ns, strlen(ns), name, strlen(name));
}

static struct service *
make_external(const char *name, uint32_t fake_ip, const char *more)
{
	struct self self = {.node = "a", .site = "", .zone = ""};
	auto_free char *json = xasprintf("{\"ns\":\"n\",\"name\":\"%s\",%s}", name, more);
	struct view *v;
	struct service *s;

	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, &self, fake_ip, 1);
	view_free(&v);
	return s;
}

/* The name of the service and its port; "" none. */
static const char *
outside(const struct snapshot *s, const char *ip, uint16_t port, uint16_t *its)
{
	const struct service_port *p = NULL;
	const struct service *found;
	struct in6_addr at;

	assert_true(ip_parse(ip, &at));
	found = snapshot_find_external(s, &at, port, false, &p);
	*its = p != NULL ? p->port : 0;
	return found != NULL ? found->name : "";
}

#define PORT(node) "\"ports\":[{\"port\":80,\"mode\":\"tcp\",\"nodePort\":" node "}]"

static void
finds_who_is_called_from_outside(void **state)
{
	struct snapshot *s = snapshot_new(true);
	uint16_t port;

	(void)state;
	step(&s, "n", "b", make_external("b", 2, PORT("30080")));
	step(&s, "n", "c", make_external("c", 3, "\"gateway\":true," PORT("0")));
	step(&s, "n", "d",
		make_external(
			"d", 4, "\"externalIPs\":[\"198.51.100.7\",\"127.0.0.1\"]," PORT("0")));
	assert_int_equal(snapshot_counts(s)->external, 3);
	assert_string_equal(outside(s, "192.0.2.1", 30080, &port), "b");
	assert_int_equal(port, 80);
	assert_string_equal(outside(s, "192.0.2.1", 80, &port), "c");
	assert_string_equal(outside(s, "198.51.100.7", 80, &port), "d");
	assert_string_equal(outside(s, "127.0.0.1", 80, &port), "c"); /* never an external IP */
	assert_string_equal(outside(s, "192.0.2.1", 30081, &port), "");
	/* of two the first by name */
	step(&s, "n", "a", make_external("a", 1, PORT("30080")));
	assert_string_equal(outside(s, "192.0.2.1", 30080, &port), "a");
	step(&s, "n", "a", NULL);
	assert_string_equal(outside(s, "192.0.2.1", 30080, &port), "b");
	/* a NodePort before a gateway's port */
	step(&s, "n", "a",
		make_external(
			"a", 1, "\"gateway\":true,\"ports\":[{\"port\":30080,\"mode\":\"tcp\"}]"));
	assert_string_equal(outside(s, "192.0.2.1", 30080, &port), "b");
	step(&s, "n", "a", NULL);
	step(&s, "n", "b", make("n", "b", 2, ""));
	assert_string_equal(outside(s, "192.0.2.1", 30080, &port), "");
	assert_int_equal(snapshot_counts(s)->external, 2);
	snapshot_unref(&s);
}

/* Sums follow each change: a service that comes, is replaced by another of its name, and goes. */
static void
sums_follow_the_changes(void **state)
{
	struct snapshot *s = snapshot_new(true), *none = snapshot_new(true);

	(void)state;
	step(&s, "n", "a", make("n", "a", 0, ""));
	step(&s, "n", "b", make_external("b", 0, "\"healthPort\":30999," PORT("30080")));
	step(&s, "n", "c",
		make_external("c", 3,
			"\"ports\":[{\"port\":80,\"mode\":\"tcp\",\"endpoints\":["
			"{\"flags\":3,\"givenIP\":\"169.254.169.254\",\"givenPort\":80},"
			"{\"flags\":3,\"givenIP\":\"169.254.169.254\",\"givenPort\":81}]}]"));
	assert_int_equal(snapshot_counts(s)->without_address, 2);
	assert_int_equal(snapshot_counts(s)->external, 1);
	assert_int_equal(snapshot_counts(s)->health_ports, 1);
	assert_int_equal(snapshot_counts(s)->refused[SPECIAL_METADATA], 2);
	step(&s, "n", "b", make("n", "b", 2, ""));
	assert_int_equal(snapshot_counts(s)->without_address, 1);
	assert_int_equal(snapshot_counts(s)->external, 0);
	assert_int_equal(snapshot_counts(s)->health_ports, 0);
	step(&s, "n", "a", NULL);
	step(&s, "n", "b", NULL);
	step(&s, "n", "b", NULL); /* it is gone already */
	step(&s, "n", "c", NULL);
	assert_memory_equal(snapshot_counts(s), snapshot_counts(none), sizeof *snapshot_counts(s));
	snapshot_unref(&s);
	snapshot_unref(&none);
}

struct told {
	unsigned n;
	const struct service *old, *now; /* of the last call */
};

static void
on_difference(void *arg, const struct service *old, const struct service *now)
{
	struct told *t = arg;

	t->n++;
	t->old = old;
	t->now = now;
}

static struct told
differences(const struct snapshot *base, const struct snapshot *s)
{
	struct told t = {0};

	snapshot_diff(base, s, on_difference, &t);
	return t;
}

static void
tells_what_differs(void **state)
{
	struct snapshot *first = snapshot_new(true), *s;
	const struct service *web;
	struct told t;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		auto_free char *name = xasprintf("s%u", i);

		step(&first, "default", name, make("default", name, 2000 + i, ""));
	}
	assert_int_equal(differences(NULL, first).n, 1000);
	assert_int_equal(differences(first, first).n, 0);
	s = snapshot_ref(first);
	step(&s, "default", "web", make("default", "web", 1001, ""));
	web = find(s, "default", "web");
	t = differences(first, s);
	assert_true(t.n == 1 && t.old == NULL && t.now == web);
	t = differences(s, first);
	assert_true(t.n == 1 && t.old == web && t.now == NULL);
	step(&s, "default", "web", NULL);
	step(&s, "default", "s7", make("default", "s7", 2007, "10.0.0.7"));
	t = differences(first, s);
	assert_true(t.n == 1 && t.old == find(first, "default", "s7") &&
		t.now == find(s, "default", "s7"));
	snapshot_unref(&first);
	snapshot_unref(&s);
}

static void
finds_by_name_and_address(void **state)
{
	struct snapshot *s = snapshot_new(false);

	(void)state;
	assert_false(snapshot_synced(s));
	assert_int_equal(snapshot_count(s), 0);
	assert_null(find(s, "default", "web"));
	step(&s, "default", "web", make("default", "web", 1001, "10.0.0.1"));
	step(&s, "shop", "web", make("shop", "web", 1002, ""));
	assert_true(snapshot_synced(s));
	assert_int_equal(snapshot_version(s), 2);
	assert_int_equal(snapshot_count(s), 2);
	assert_int_equal(find(s, "DeFault", "WEB")->fake_ip, 1001);
	assert_int_equal(find(s, "shop", "web")->fake_ip, 1002);
	assert_null(find(s, "shop", "we"));
	assert_null(find(s, "shop", "web2"));
	assert_null(snapshot_find(s, "shop", 4, "web\0xyzzy-and-more", 18));
	assert_ptr_equal(snapshot_find_ip(s, 1001), find(s, "default", "web"));
	assert_ptr_equal(snapshot_find_ip(s, 0x0a000001), find(s, "default", "web"));
	assert_null(snapshot_find_ip(s, 0));
	assert_null(snapshot_find_ip(s, 1003));
	assert_true(snapshot_has_namespace(s, "SHOP", 4));
	assert_false(snapshot_has_namespace(s, "sho", 3));
	snapshot_unref(&s);
	assert_null(s);
}

static void
an_update_leaves_the_old_one_alone(void **state)
{
	struct snapshot *old = snapshot_new(true), *next, *kept;
	struct change c = {"default", "web", make("default", "web", 2002, "")};

	(void)state;
	step(&old, "default", "web", make("default", "web", 2001, ""));
	step(&old, "default", "db", make("default", "db", 2003, ""));
	next = snapshot_next(old, &c, 1);
	assert_int_equal(find(old, "default", "web")->fake_ip, 2001);
	assert_int_equal(find(next, "default", "web")->fake_ip, 2002);
	assert_null(snapshot_find_ip(next, 2001));
	assert_null(snapshot_find_ip(old, 2002));
	assert_ptr_equal(find(old, "default", "db"), find(next, "default", "db"));
	kept = snapshot_ref(next);
	snapshot_unref(&old);
	snapshot_unref(&next);
	assert_int_equal(snapshot_find_ip(kept, 2003)->fake_ip, 2003);
	assert_int_equal(snapshot_count(kept), 2);
	snapshot_unref(&kept);
}

static void
deletion_and_order_within_one_update(void **state)
{
	struct snapshot *s = snapshot_new(true), *next;
	/* Names differ in case only: one service, and the last word counts. */
	struct change c[] = {
		{"n", "a", make("n", "a", 1, "")},
		{"n", "b", make("n", "b", 2, "")},
		{"n", "A", NULL},
		{"n", "c", NULL},
		{"n", "b", make("n", "b", 3, "")},
	};

	(void)state;
	next = snapshot_next(s, c, ARRAY_LEN(c));
	assert_int_equal(snapshot_count(next), 1);
	assert_int_equal(find(next, "n", "b")->fake_ip, 3);
	assert_null(snapshot_find_ip(next, 1));
	assert_null(snapshot_find_ip(next, 2));
	step(&next, "n", "b", NULL);
	assert_int_equal(snapshot_count(next), 0);
	assert_false(snapshot_has_namespace(next, "n", 1));
	assert_null(snapshot_find_ip(next, 3));
	snapshot_unref(&next);
	snapshot_unref(&s);
}

static void
an_address_passes_from_one_service_to_another(void **state)
{
	struct snapshot *s = snapshot_new(true), *next;
	struct change c[] = {{"n", "new", NULL}, {"n", "old", NULL}};

	(void)state;
	step(&s, "n", "old", make("n", "old", 9, "10.0.0.9"));
	c[0].service = make("n", "new", 9, "10.0.0.9");
	next = snapshot_next(s, c, 2);
	assert_string_equal(snapshot_find_ip(next, 9)->name, "new");
	assert_string_equal(snapshot_find_ip(next, 0x0a000009)->name, "new");
	snapshot_unref(&next);
	snapshot_unref(&s);
}

enum { MANY = 10000 };

static uint32_t random_state = 12345;

static uint32_t
next_random(void)
{
	random_state = random_state * 1664525 + 1013904223;
	return random_state >> 8;
}

/* Against a plain list: whatever the order of changes, the same services are found. */
static void
random_changes_match_a_list(void **state)
{
	enum { NAMES = 300 };
	uint32_t have[NAMES] = {0}, ip = 1;
	struct snapshot *s = snapshot_new(true);
	char ns[32], name[32];

	(void)state;
	for (int round = 0; round < 3000; round++) {
		uint32_t i = next_random() % NAMES;
		bool gone = next_random() % 3 == 0;

		snprintf(ns, sizeof ns, "ns-%u", i % 7);
		snprintf(name, sizeof name, "svc-%u", i);
		have[i] = gone ? 0 : ip++;
		step(&s, ns, name, gone ? NULL : make(ns, name, have[i], ""));
	}
	for (uint32_t i = 0, n = 0; i <= NAMES; i++) {
		if (i == NAMES) {
			assert_int_equal(snapshot_count(s), n);
			break;
		}
		snprintf(ns, sizeof ns, "ns-%u", i % 7);
		snprintf(name, sizeof name, "svc-%u", i);
		if (have[i] == 0) {
			assert_null(find(s, ns, name));
			continue;
		}
		n++;
		assert_int_equal(find(s, ns, name)->fake_ip, have[i]);
		assert_ptr_equal(snapshot_find_ip(s, have[i]), find(s, ns, name));
	}
	snapshot_unref(&s);
}

static struct snapshot *
make_many(void)
{
	struct snapshot *empty = snapshot_new(true), *s;
	struct change *c = xcalloc(MANY, sizeof *c);
	char(*names)[16] = xcalloc(MANY, sizeof *names);

	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "svc-%u", i);
		c[i] = (struct change){"default", names[i], make("default", names[i], i + 1, "")};
	}
	s = snapshot_next(empty, c, MANY);
	snapshot_unref(&empty);
	free(names);
	free(c);
	return s;
}

/* Bars: an update of one among 10 000 is well under 1 ms, every one of them is listed once. */
static void
ten_thousand_services(void **state)
{
	struct snapshot *s = make_many();
	auto_free bool *seen = xcalloc(MANY, sizeof *seen);
	clock_t begin;
	unsigned took_us;

	(void)state;
	assert_int_equal(snapshot_count(s), MANY);
	for (size_t i = 0; i < MANY; i++) {
		const struct service *at = snapshot_at(s, i);

		assert_false(seen[at->fake_ip - 1]);
		seen[at->fake_ip - 1] = true;
	}
	begin = clock();
	for (uint32_t i = 0; i < 1000; i++) {
		char name[16];

		snprintf(name, sizeof name, "svc-%u", i * 7);
		step(&s, "default", name, make("default", name, 20000 + i, ""));
	}
	took_us = (unsigned)((clock() - begin) * 1000 / CLOCKS_PER_SEC);
	print_message("# %u us an update of one among 10 000\n", took_us);
	/* Of the processor's time; generous, for sanitizers. */
	assert_in_range(took_us, 0, 999);
	assert_int_equal(snapshot_find_ip(s, 20999)->fake_ip, 20999);
	assert_null(snapshot_find_ip(s, 7 * 999 + 1));
	snapshot_unref(&s);
}

/* Bar: the agent with 10 000 services holds at most 16 MB; here is what the services may take of
 * it. */
static void
ten_thousand_services_are_small(void **state)
{
	static const char endpoint[] =
		"{\"node\":\"edge-node-%d\",\"pod\":\"web-%d-abcde\",\"flags\":3,\"podIP\":\"172."
		"17.0.%d\","
		"\"podPort\":8080,\"hostIP\":\"192.0.2.%d\",\"hostPort\":30080}";
	struct self self = {.node = "a", .site = "", .zone = ""};
	struct snapshot *empty = snapshot_new(true), *s;
	struct change *c = xcalloc(MANY, sizeof *c);
	size_t before = mallinfo2().uordblks;
	auto_buf struct buf json;

	(void)state;
	buf_init(&json, BUF_UNLIMITED);
	for (uint32_t i = 0; i < MANY; i++) {
		struct view *v;

		buf_consume(&json, buf_len(&json));
		buf_printf(&json,
			"{\"ns\":\"namespace-%u\",\"name\":\"service-%u\",\"clusterIP\":\"10.96.0."
			"1\","
			"\"ports\":[{\"port\":80,\"mode\":\"http\",\"endpoints\":[",
			i % 100, i);
		for (int k = 1; k <= 3; k++) {
			buf_adds(&json, k > 1 ? "," : "");
			buf_printf(&json, endpoint, k, k, k, k);
		}
		buf_adds(&json, "]}]}");
		assert_int_equal(view_parse(&v, buf_at(&json), buf_len(&json), NULL), 0);
		c[i].service = service_build(v, &self, 0x09fb0001 + i, 1);
		c[i].ns = c[i].service->namespace;
		c[i].name = c[i].service->name;
		view_free(&v);
	}
	s = snapshot_next(empty, c, MANY);
	print_message("# %zu kB for 10 000 services\n", (mallinfo2().uordblks - before) / 1024);
	assert_in_range(mallinfo2().uordblks - before, 0, 6 << 20);
	free(c);
	snapshot_unref(&s);
	snapshot_unref(&empty);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_by_name_and_address),
		cmocka_unit_test(finds_who_is_called_from_outside),
		cmocka_unit_test(tells_what_differs),
		cmocka_unit_test(an_update_leaves_the_old_one_alone),
		cmocka_unit_test(deletion_and_order_within_one_update),
		cmocka_unit_test(an_address_passes_from_one_service_to_another),
		cmocka_unit_test(sums_follow_the_changes),
		cmocka_unit_test(random_changes_match_a_list),
		cmocka_unit_test(ten_thousand_services),
		cmocka_unit_test(ten_thousand_services_are_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
