/* The text of the hosts ConfigMap, and the names of nodes that it and the zone are made from. */
#include "hub/names/hosts_text.h"

#include <string.h>

#include "hub/sync/node_book.h"
#include "tests/unit/model/kube_kit.h"

static const char two[] = "192.0.2.1\tedge-1\n192.0.2.1\tedge-2\n";

static char made_text[4096];

/* From edge-2 and edge-1, as others would have them in any order. */
static struct hosts_made
make(const char *old, bool ours, size_t limit)
{
	struct hosts_lines lines = {0};
	struct hosts_made made;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	hosts_lines_add(&lines, "192.0.2.1", "edge-2");
	hosts_lines_add(&lines, "192.0.2.1", "edge-1");
	made = hosts_text(&out, &lines, old, ours, limit);
	hosts_lines_fini(&lines);
	assert_true(buf_len(&out) < sizeof made_text && buf_len(&out) <= limit);
	strcpy(made_text, buf_str(&out));
	return made;
}

static void
lines_are_sorted_and_the_same_again(void **state)
{
	(void)state;
	assert_int_equal(make("", false, 1000).names, 2);
	assert_string_equal(made_text, two);
	make(two, true, 1000);
	assert_string_equal(made_text, two);
	make(two, false, 1000); /* Yurt's, who wrote it before us */
	assert_string_equal(made_text, two);
}

static void
what_is_old_of_ours_goes(void **state)
{
	(void)state;
	assert_int_equal(make("192.0.2.1\tedge-1\n192.0.2.9\tgone\n", true, 1000).kept, 0);
	assert_string_equal(made_text, two);
}

static void
lines_of_others_stay(void **state)
{
	static const char want[] = "# by hand\n10.1.1.1 db\n10.1.1.2\tdb2 alias\n" HOSTS_MARK
				   "\n192.0.2.1\tedge-1\n192.0.2.1\tedge-2\n";

	(void)state;
	assert_int_equal(make("# by hand\n\n10.1.1.1 db\n 10.9.9.9  edge-1\r\n10.1.1.2\tdb2 alias",
				 false, 1000)
				 .kept,
		3);
	assert_string_equal(made_text, want);
	make(want, true, 1000);
	assert_string_equal(made_text, want);
	make(want, false, 1000); /* somebody took the annotation away */
	assert_string_equal(made_text, want);
	/* What looks like the mark within a line is none. */
	make("x " HOSTS_MARK "\n", false, 1000);
	assert_string_equal(made_text,
		"x " HOSTS_MARK "\n" HOSTS_MARK "\n192.0.2.1\tedge-1\n192.0.2.1\tedge-2\n");
}

static void
what_does_not_fit_is_said(void **state)
{
	struct hosts_made made;

	(void)state;
	assert_int_equal(make("", false, strlen(two)).left_out, 0);
	made = make("", false, strlen(two) - 1);
	assert_int_equal(made.left_out, 2); /* the comment needs room as well */
	assert_non_null(strstr(made_text, "# edgeway-hub: 2 more do not fit"));
	assert_int_equal(make("10.1.1.1 db\n", false, 200).left_out, 0);
}

/* Many lines: as many as there is room for, no byte more, and the first ones. */
static void
a_mebibyte_is_filled_and_not_exceeded(void **state)
{
	struct hosts_lines lines = {0};
	struct hosts_made made;
	auto_buf struct buf out;
	size_t limit = 1 << 20;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	for (unsigned i = 0; i < 50000; i++) {
		auto_free char *name = xasprintf("edge-%08u", i);

		hosts_lines_add(&lines, "192.0.2.111", name);
	}
	made = hosts_text(&out, &lines, "", false, limit);
	assert_true(buf_len(&out) <= limit && buf_len(&out) > limit - 128);
	assert_int_equal(made.names + made.left_out, 50000);
	assert_true(made.left_out > 0);
	assert_memory_equal(buf_at(&out), "192.0.2.111\tedge-00000000\n", 26);
	hosts_lines_fini(&lines);
}

static void
the_book_knows_all_names(void **state)
{
	static char *joined[] = {(char *)(uintptr_t) "edge-1", (char *)(uintptr_t) "x.y.z"};
	struct cluster *c = cluster_new();
	struct node_book *b;
	struct in6_addr ips[2];

	(void)state;
	kit_say(c, "a",
		NODE("edge-1", "", "") NODE("cloud-1.eu.internal", "",
			"{type: Hostname, address: cloud-1}, {type: ExternalIP, address: "
			"203.0.113.1}, "
			"{type: InternalIP, address: '2001:db8::5'}, {type: InternalIP, address: "
			"10.0.0.5}"));
	b = node_book_new(c, joined, 2);
	assert_int_equal(node_book_count(b), 3);
	assert_string_equal(node_book_at(b, 0)->name, "cloud-1.eu.internal");
	assert_true(node_book_find(b, "edge-1")->joined);
	assert_false(node_book_find(b, "cloud-1.eu.internal")->joined);
	assert_null(node_book_find(b, "eu.internal"));
	assert_null(node_book_find(b, ""));
	assert_true(node_book_above(b, "eu.internal"));
	assert_true(node_book_above(b, "internal"));
	assert_true(node_book_above(b, "z"));
	assert_false(node_book_above(b, "edge-1"));
	assert_false(node_book_above(b, "x.y.z"));
	node_book_free(&b);
	/* The InternalIP of each family, wherever it stands. */
	assert_int_equal(cluster_node_ips(c, "cloud-1.eu.internal", ips), 2);
	assert_true(IN6_IS_ADDR_V4MAPPED(&ips[0]) && ips[0].s6_addr[12] == 10);
	assert_int_equal(ips[1].s6_addr[15], 5);
	assert_int_equal(cluster_node_ips(c, "edge-1", ips), 0);
	assert_int_equal(cluster_node_ips(c, "gone", ips), 0);
	/* So of a Service. */
	kit_say(c, "b",
		SERVICE("both",
			"clusterIP: 'fd00::7', clusterIPs: ['fd00::7', 10.96.0.7], ports: "
			"[{port: 80}]") SERVICE("six", "clusterIP: 'fd00::8', ports: [{port: 80}]")
			SERVICE("none", "clusterIP: None, ports: [{port: 80}]"));
	assert_int_equal(cluster_service_ips(c, "default", "both", ips), 2);
	assert_true(ip_to_v4(&ips[0]) == 0x0a600007 && ips[1].s6_addr[15] == 7);
	assert_int_equal(cluster_service_ips(c, "default", "six", ips), 1);
	assert_int_equal(ips[0].s6_addr[15], 8);
	assert_int_equal(cluster_service_ips(c, "default", "none", ips), 0);
	assert_int_equal(cluster_service_ips(c, "default", "gone", ips), 0);
	cluster_free(&c);
	c = cluster_new();
	b = node_book_new(c, NULL, 0);
	assert_int_equal(node_book_count(b), 0);
	assert_false(node_book_above(b, "a"));
	node_book_free(&b);
	cluster_free(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_sorted_and_the_same_again),
		cmocka_unit_test(what_is_old_of_ours_goes),
		cmocka_unit_test(lines_of_others_stay),
		cmocka_unit_test(what_does_not_fit_is_said),
		cmocka_unit_test(a_mebibyte_is_filled_and_not_exceeded),
		cmocka_unit_test(the_book_knows_all_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
