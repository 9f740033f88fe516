#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "meta/client/message.h"

static void
services(void **state)
{
	static const char *const bad[] = {"", "service", "/service/", "a/service/", "/service/b",
		"a/pod/b", "a/service/b/c", "A/service/b", "a/service/-b", "a/service/b-",
		"a.b/service/c", "a/service/b\n",
		"a/service/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	struct message_service s;

	(void)state;
	assert_int_equal(message_service(&s, "default/service/web-1", NULL), 0);
	assert_string_equal(s.ns, "default");
	assert_string_equal(s.name, "web-1");
	assert_int_equal(message_service(&s, "service/service/service", NULL), 0);
	assert_string_equal(s.ns, "service");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(message_service(&s, bad[i], NULL), -EINVAL);
}

static int
hello_of(struct message_hello *h, const char *json)
{
	return message_hello(h, json, strlen(json), NULL);
}

static void
lists_of_revoked_hubs(void **state)
{
	static const char *const none[] = {"", "[]", "{}", "{\"crl\":\"\"}", "{\"crl\":{}}"};
	static const char hello[] = "{\"hub\":\"1\",\"crl\":\"PEM\\n\"}";
	char *crl;

	(void)state;
	crl = message_crl(hello, strlen(hello));
	assert_string_equal(crl, "PEM\n");
	free(crl);
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_null(message_crl(none[i], strlen(none[i])));
}

static void
lists_of_revoked_nodes(void **state)
{
	static const struct {
		const char *json, *text;
	} cases[] = {
		{"{\"revoked\":[{\"node\":\"edge-1\",\"valid\":\"0a,1b\"},{\"node\":\"edge-2\","
		 "\"valid\":\"\"}]}",
			"\nedge-1 0a,1b\nedge-2 \n"},
		{"{\"revoked\":[]}", ""},
		{"{\"revoked\":[],\"nodeRules\":true}", "\n* \n"},
		{"{\"revoked\":[{\"node\":\"*\"}],\"nodeRules\":false}", ""},
		{"{\"revoked\":[{\"node\":\"a\\nb 0a\"},{\"node\":\"c\",\"valid\":\"x\"},{\"node\":"
		 "\"d\"}]}",
			"\nd \n"},
		{"{\"crl\":\"PEM\"}", NULL},
		{"[]", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text = message_revoked(cases[i].json, strlen(cases[i].json));

		if (cases[i].text == NULL)
			assert_null(text);
		else
			assert_string_equal(text, cases[i].text);
	}
}

static void
hellos(void **state)
{
	struct message_hello h;
	char wide[400], json[500];

	(void)state;
	assert_int_equal(hello_of(&h, "{\"site\":\"east\",\"hub\":\"1\",\"more\":[1]}"), 0);
	assert_string_equal(h.site, "east");
	assert_string_equal(h.zone, "");
	assert_int_equal(h.protocol, 0);
	assert_int_equal(h.n_addresses, 0);
	assert_false(h.rendezvous); /* an older hub */
	assert_int_equal(hello_of(&h, "{\"rendezvous\":true}"), 0);
	assert_true(h.rendezvous);
	assert_int_equal(hello_of(&h,
				 "{\"protocol\":7,\"addresses\":[\"192.0.2.1\",\"\",7,[],"
				 "\"2001:db8::1\",\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				 "aaaaaaaaaaaaaa\"]}"),
		0);
	assert_int_equal(h.protocol, 7);
	assert_string_equal(h.addresses[0], "192.0.2.1");
	assert_string_equal(h.addresses[h.n_addresses - 1], "2001:db8::1");
	assert_int_equal(hello_of(&h, "{\"protocol\":-1,\"addresses\":\"x\"}"), 0);
	assert_int_equal(h.protocol, 0);
	assert_int_equal(h.n_addresses, 0);
	assert_int_equal(hello_of(&h, "{}"), 0);
	assert_int_equal(hello_of(&h, ""), -EINVAL);
	assert_int_equal(hello_of(&h, "[]"), -EINVAL);
	assert_int_equal(hello_of(&h, "\"x\""), -EINVAL);
	assert_true(hello_of(&h, "{\"site\":") < 0);
	memset(wide, 'x', sizeof(wide));
	wide[sizeof(wide) - 1] = '\0';
	snprintf(json, sizeof(json), "{\"site\":\"%s\"}", wide);
	assert_int_equal(hello_of(&h, json), -EINVAL);
}

static void
synced(void **state)
{
	(void)state;
	assert_true(message_says_synced("{\"synced\":true}", 15));
	assert_true(message_says_synced("{\"buckets\":[],\"synced\":true}", 28));
	assert_false(message_says_synced("{\"synced\":false}", 16));
	assert_false(message_says_synced("{\"synced\":\"true\"}", 17));
	assert_false(message_says_synced("", 0));
	assert_false(message_says_synced("true", 4));
}

static void
urls(void **state)
{
	static const char *const bad[] = {"", "hub", "ws://hub:1", "https://hub", "wss://",
		"wss://:1", "wss://hub:", "wss://hub:0", "wss://hub:65536", "wss://hub:1x",
		"wss://hub:-1", "wss://[::1", "wss://[::1]x", "wss://hub?x"};
	struct message_url u;

	(void)state;
	assert_int_equal(message_url(&u, "wss://hub.example:443", NULL), 0);
	assert_string_equal(u.host, "hub.example");
	assert_int_equal(u.port, 443);
	assert_int_equal(message_url(&u, "WSS://hub/", NULL), 0);
	assert_int_equal(u.port, 10000);
	assert_int_equal(message_url(&u, "wss://[2001:db8::1]:7/x", NULL), 0);
	assert_string_equal(u.host, "2001:db8::1");
	assert_int_equal(u.port, 7);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (message_url(&u, bad[i], NULL) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
	}
}

static void
inside(void **state)
{
	(void)state;
	assert_true(message_inside("hub.default.svc.cluster.local", "cluster.local"));
	assert_true(message_inside("HUB.Cluster.LOCAL.", "cluster.local"));
	assert_true(message_inside("cluster.local", "cluster.local."));
	assert_false(message_inside("mycluster.local", "cluster.local"));
	assert_false(message_inside("cluster.local.example", "cluster.local"));
	assert_false(message_inside("hub", ""));
}

static void
builds(void **state)
{
	struct message m = {.operation = OP_ERROR,
		.resource = "a/service/b",
		.parent = "p-1",
		.content = "\"why\""};
	struct envelope e;
	struct buf out;
	char id[37];

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	message_build(&out, &m, id);
	assert_int_equal(envelope_parse(&e, buf_at(&out), buf_len(&out), NULL), 0);
	assert_string_equal(e.id, id);
	assert_string_equal(e.parent_id, "p-1");
	assert_string_equal(e.resource, "a/service/b");
	assert_string_equal(e.source, "edgeway-agent");
	assert_string_equal(e.content, "\"why\"");
	assert_int_equal(e.operation, OP_ERROR);
	envelope_fini(&e);
	buf_fini(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services),
		cmocka_unit_test(hellos),
		cmocka_unit_test(lists_of_revoked_hubs),
		cmocka_unit_test(lists_of_revoked_nodes),
		cmocka_unit_test(synced),
		cmocka_unit_test(urls),
		cmocka_unit_test(inside),
		cmocka_unit_test(builds),
	};

	return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
