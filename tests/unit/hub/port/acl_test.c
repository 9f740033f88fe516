#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/tls/pki.h"
#include "hub/port/acl.h"
#include "model/check.h"

static struct tree *tree;
static struct acl *access;

static int
load(const char *yaml, struct err *err)
{
	struct err ignored = {0};

	acl_free(&access);
	tree_free(&tree);
	assert_int_equal(tree_parse(&tree, "test", yaml, strlen(yaml), err), 0);
	return acl_new(tree_document(tree, 0), &access, err != NULL ? err : &ignored);
}

static int
teardown(void **state)
{
	(void)state;
	acl_free(&access);
	tree_free(&tree);
	return 0;
}

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct caller
from(const char *addr, const char *cert, const char *token)
{
	struct caller c;
	struct addr peer;

	assert_int_equal(addr_parse(&peer, addr, 1, NULL), 0);
	caller_datagram(&c, &peer, 0, NULL);
	c.admitted = *cert != '\0';
	strcpy(c.cert, cert);
	if (*token != '\0')
		acl_use_token_name(access, token, &c);
	return c;
}

static bool
node(const char *addr, const char *cert, const char *token, const char *name, uint16_t port)
{
	struct caller c = from(addr, cert, token);
	struct acl_target t = {.kind = TARGET_NODE, .node = name, .port = port};

	return acl_check(access, &c, &t);
}

static bool
other(enum target_kind kind, const char *ns, const char *name, uint16_t port)
{
	struct caller c = from("192.0.2.1", "", "");
	struct acl_target t = {
		.kind = kind, .ns = ns, .name = name, .host = name, .node = name, .port = port};

	return acl_check(access, &c, &t);
}

static bool
at_site(const char *site, const char *host, uint16_t port)
{
	struct caller c = from("192.0.2.1", "", "");
	struct acl_target t = {.kind = TARGET_SITE,
		.name = site,
		.ns = host,
		.host = host,
		.node = host,
		.port = port};

	return acl_check(access, &c, &t);
}

/* What a node of the site has declared, and no object of the cluster has. */
static void
addresses_of_a_site(void **state)
{
	struct in6_addr ip;
	struct err err = {0};

	(void)state;
	load("[{from: 192.0.2.1, to: ['site/a/192.168.1.0/24:9100', 'site/fab-*/[fd00:1::/64]:22', "
	     "'site/b/192.168.1.7', 'cloud/10.0.0.0/8', 'edge-1:*']}]",
		NULL);
	assert_true(at_site("a", "192.168.1.50", 9100));
	assert_false(at_site("a", "192.168.1.50", 80));
	assert_false(at_site("a", "192.168.2.50", 9100));
	assert_false(at_site("b", "192.168.1.50", 9100));
	assert_true(at_site("b", "192.168.1.7", 1));
	assert_true(at_site("fab-2", "fd00:1::1", 22));
	assert_false(at_site("", "fd00:1::1", 22));
	assert_false(at_site("a", "10.0.0.1", 80));
	assert_true(ip_parse("10.1.2.3", &ip) && acl_names_cloud(access, &ip));
	assert_true(ip_parse("192.168.1.50", &ip) && !acl_names_cloud(access, &ip));
	load("[{from: 192.0.2.1, to: ['*']}]", NULL);
	assert_true(at_site("", "192.168.1.50", 9100));
	assert_true(ip_parse("10.1.2.3", &ip) && !acl_names_cloud(access, &ip));
	load("[]", NULL);
	assert_false(at_site("", "192.168.1.50", 9100));
	assert_true(load("[{from: 192.0.2.1, to: ['site/a']}]", &err) < 0);
	assert_non_null(strstr(err.text, "site/SITE/CIDR"));
	assert_true(load("[{from: 192.0.2.1, to: ['site/a/printer']}]", &err) < 0);
	assert_non_null(strstr(err.text, "site/SITE/CIDR"));
	assert_true(load("[{from: 192.0.2.1, to: ['site//192.168.1.0/24']}]", &err) < 0);
	assert_non_null(strstr(err.text, "site/SITE/CIDR"));
}

static bool
may_reach_something(const char *rules, const char *addr, const char *name, bool is_node)
{
	struct caller c = from(addr, is_node ? "" : name, "");

	load(rules, NULL);
	if (is_node)
		caller_node(&c, name);
	return acl_admits(access, &c);
}

/* By the rules alone, whatever there is. */
static void
who_may_reach_something(void **state)
{
	static const char rules[] =
		"[{from: 192.0.2.0/24, to: ['nothing/*']}, {from: 'cert:ann', to: ['*']}]";
	static const char nodes[] = "[{from: 'node:edge-1', to: ['*']}]";

	(void)state;
	assert_true(may_reach_something(rules, "192.0.2.1", "", false));
	assert_true(may_reach_something(rules, "198.51.100.1", "ann", false));
	assert_false(may_reach_something(rules, "198.51.100.1", "ben", false));
	assert_false(may_reach_something(rules, "127.0.0.1", "", false));
	assert_false(may_reach_something(
		"[{from: 192.0.2.0/24, to: ['hub:web']}]", "192.0.2.1", "", false));
	assert_true(may_reach_something("[]", "127.0.0.1", "", false));
	assert_true(may_reach_something("[]", "198.51.100.1", "ben", false));
	assert_false(may_reach_something("[]", "198.51.100.1", "", false));
	assert_true(may_reach_something(rules, "192.0.2.1", "edge-2", true));
	assert_true(may_reach_something(nodes, "192.0.2.1", "edge-1", true));
	assert_false(may_reach_something(nodes, "192.0.2.1", "edge-2", true));
	assert_false(may_reach_something(nodes, "192.0.2.1", "", false));
}

static bool
sees_the_page(const char *address)
{
	struct caller c = from(address, "", "");

	return acl_check(access, &c, &(struct acl_target){.kind = TARGET_WEB});
}

/* No word but its own opens it; where no rule has that, this machine sees it. */
static void
the_page(void **state)
{
	struct caller admitted = from("192.0.2.1", "ann", "");

	(void)state;
	load("[]", NULL);
	assert_true(sees_the_page("127.0.0.1") && !sees_the_page("192.0.2.1"));
	load("[{from: 192.0.2.0/24, to: ['*']}, {from: local, to: ['hub/web', 'hub:*']}]", NULL);
	assert_true(sees_the_page("127.0.0.1") && !sees_the_page("192.0.2.1"));
	assert_false(acl_names(access, TARGET_WEB));
	admitted.admitted = true;
	assert_true(acl_check(access, &admitted, &(struct acl_target){.kind = TARGET_WEB}));
	load("[{from: 192.0.2.1, to: ['hub:web']}]", NULL);
	assert_true(sees_the_page("192.0.2.1") && acl_names(access, TARGET_WEB));
	assert_false(sees_the_page("127.0.0.1") || sees_the_page("192.0.2.2"));
	assert_false(acl_check(access, &(struct caller){.addr = admitted.addr},
		&(struct acl_target){.kind = TARGET_NODE, .node = "hub", .port = 80}));
}

static void
without_rules_this_machine_and_the_admitted(void **state)
{
	struct caller c = from("127.0.0.1", "", "");
	struct acl_target cloud = {.kind = TARGET_CLOUD, .host = "203.0.113.1", .port = 80};

	(void)state;
	load("[]", NULL);
	assert_true(node("127.0.0.1", "", "", "edge-1", 22));
	assert_true(node("unix:/run/x", "", "", "edge-1", 22));
	assert_true(node("[::1]:1", "", "", "edge-1", 22));
	assert_true(node("192.0.2.1", "kube-apiserver", "", "edge-1", 10250));
	assert_false(node("192.0.2.1", "", "", "edge-1", 22));
	assert_false(node("192.0.2.1", "", "a", "edge-1", 22));
	assert_false(acl_check(access, &c, &cloud));
}

static void
callers(void **state)
{
	(void)state;
	load("[{from: 192.0.2.0/25, to: [edge-1]}, {from: 'cert:prom', to: [edge-2]}, "
	     "{from: 'token:ann', tokenSHA256: " HASH_A ", to: [edge-3]}, "
	     "{from: bob, tokenSHA256: " HASH_B ", to: [edge-4]}, {from: local, to: [edge-5]}, "
	     "{from: '2001:db8::/33', to: [edge-6]}]",
		NULL);
	assert_true(node("192.0.2.127", "", "", "edge-1", 1));
	assert_false(node("192.0.2.128", "", "", "edge-1", 1));
	assert_false(node("unix:/x", "", "", "edge-1", 1));
	assert_true(node("198.51.100.1", "prom", "", "edge-2", 1));
	assert_false(node("198.51.100.1", "", "prom", "edge-2", 1));
	assert_true(node("198.51.100.1", "", "ann", "edge-3", 1));
	assert_false(node("198.51.100.1", "ann", "", "edge-3", 1));
	assert_true(node("198.51.100.1", "bob", "", "edge-4", 1));
	assert_true(node("198.51.100.1", "", "bob", "edge-4", 1));
	assert_true(node("unix:/x", "", "", "edge-5", 1));
	assert_true(node("127.1.2.3", "", "", "edge-5", 1));
	assert_false(node("192.0.2.1", "", "", "edge-5", 1));
	assert_true(node("[2001:db8:7fff::1]:1", "", "", "edge-6", 1));
	assert_false(node("[2001:db8:8000::1]:1", "", "", "edge-6", 1));
}

/* By loopback in each of its forms, or a Unix socket; that nothing is said of where somebody comes
 * from is no proof. */
static void
this_host_is_loopback_and_unix_sockets(void **state)
{
	static const char *const local[] = {
		"127.0.0.1", "127.255.255.254", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/x"};
	static const char *const other[] = {"192.0.2.1", "128.0.0.1", "[::ffff:192.0.2.1]:1",
		"[::127.0.0.1]:1", "[fe80::1]:1", "[64:ff9b::7f00:1]:1", "0.0.0.0"};
	const struct acl_target t = {.kind = TARGET_NODE, .node = "edge-1", .port = 1};

	(void)state;
	for (int rules = 0; rules < 2; rules++) {
		load(rules ? "[{from: local, to: ['*']}]" : "[]", NULL);
		for (size_t i = 0; i < ARRAY_LEN(local); i++)
			assert_true(node(local[i], "", "", "edge-1", 1));
		for (size_t i = 0; i < ARRAY_LEN(other); i++)
			assert_false(node(other[i], "", "", "edge-1", 1));
		assert_false(acl_check(access, &(struct caller){0}, &t));
	}
}

/* Whatever the rules say of the address that it comes from. */
static void
a_dial_of_the_hubs_own_gets_nothing(void **state)
{
	struct caller c = from("127.0.0.1", "ann", "");

	(void)state;
	load("[{from: local, to: ['*', 'hub:web']}, {from: 127.0.0.1, to: ['*']}, {from: "
	     "'cert:ann', to: ['*']}]",
		NULL);
	assert_true(acl_check(access, &c, &(struct acl_target){.kind = TARGET_WEB}));
	c.own_dial = true;
	assert_false(acl_check(access, &c, &(struct acl_target){.kind = TARGET_WEB}));
	assert_false(acl_check(access, &c,
		&(struct acl_target){.kind = TARGET_NODE, .node = "edge-1", .port = 1}));
}

static bool
names_address(const char *caller, const char *ip, uint16_t port)
{
	struct caller c = from(caller, "", "");
	struct in6_addr at;

	assert_true(ip_parse(ip, &at));
	return acl_names_address(access, &c, &at, port);
}

/* An address of the hub's host: neither * nor a network means it. */
static void
an_address_by_itself(void **state)
{
	struct in6_addr at;

	(void)state;
	load("[{from: 192.0.2.7, to: ['*', 'cloud/10.0.0.0/24:*', 'cloud/10.0.0.2', "
	     "'cloud/10.0.0.1:10250-10251', 'cloud/[fd00::1]:22']}, {from: 'node:*', to: "
	     "['cloud/10.0.0.3:80']}]",
		NULL);
	assert_true(names_address("192.0.2.7", "10.0.0.1", 10250));
	assert_true(names_address("192.0.2.7", "fd00::1", 22));
	assert_false(names_address("192.0.2.7", "10.0.0.1", 10252));
	assert_false(names_address("192.0.2.7", "10.0.0.2", 80)); /* no port is named */
	assert_false(names_address("192.0.2.7", "10.0.0.3", 80));
	assert_false(names_address("192.0.2.8", "10.0.0.1", 10250));
	assert_true(ip_parse("10.0.0.1", &at));
	assert_true(acl_names_address(access, NULL, &at, 10250));
	assert_false(acl_names_address(access, NULL, &at, 22));
	assert_false(acl_names_address(access, &(struct caller){.node = "edge-1"}, &at, 10250));
	assert_true(ip_parse("10.0.0.3", &at));
	assert_true(acl_names_address(access, &(struct caller){.node = "edge-1"}, &at, 80));
}

static bool
node_may(const char *node, enum target_kind kind, const char *ns, const char *name, uint16_t port)
{
	struct caller c;

	caller_node(&c, node);
	return acl_check(access, &c,
		&(struct acl_target){.kind = kind, .ns = ns, .name = name, .port = port});
}

/* Nodes have them by a rule alone, and such a rule closes nothing else. */
static void
endpoints_of_the_cloud(void **state)
{
	static const char *const services[] = {
		"[{from: 'node:edge-1', to: ['shop/db']}]", "[{from: 'node:edge-1', to: ['*']}]"};
	struct err err;

	(void)state;
	load("[]", NULL);
	assert_false(node_may("edge-1", TARGET_CLOUD_SERVICE, "shop", "db", 5432));
	assert_false(acl_opens_cloud_service(access, "shop", "db"));
	load("[{from: 'node:edge-1', to: ['cloud/shop/d*:5432', 'cloud/10.0.0.1:6443']}]", NULL);
	assert_true(node_may("edge-1", TARGET_CLOUD_SERVICE, "shop", "db", 5432));
	assert_true(acl_opens_cloud_service(access, "shop", "db"));
	assert_false(acl_opens_cloud_service(access, "shop", "web"));
	assert_false(node_may("edge-1", TARGET_CLOUD_SERVICE, "shop", "db", 80));
	assert_false(node_may("edge-1", TARGET_CLOUD_SERVICE, "prod", "db", 5432));
	assert_false(node_may("edge-2", TARGET_CLOUD_SERVICE, "shop", "db", 5432));
	assert_false(acl_names_nodes(access));
	assert_true(node_may("edge-2", TARGET_SERVICE, "shop", "db", 5432));
	for (size_t i = 0; i < ARRAY_LEN(services); i++) {
		load(services[i], NULL);
		assert_true(node_may("edge-1", TARGET_CLOUD_SERVICE, "shop", "db", 5432));
		assert_true(acl_opens_cloud_service(access, "shop", "db"));
		assert_true(acl_names_nodes(access));
	}
	load("[{from: 'node:*', to: []}]", NULL); /* as before there was cloud/NAMESPACE/SERVICE */
	assert_true(acl_names_nodes(access));
	assert_false(node_may("edge-1", TARGET_SERVICE, "shop", "db", 5432));
	load("[{from: 192.0.2.0/24, to: ['*', 'shop/db']}]", NULL);
	assert_false(acl_opens_cloud_service(access, "shop", "db"));
	assert_int_equal(load("[{from: local, to: ['cloud/shop/db']}]", &err), -EINVAL);
	assert_non_null(strstr(err.text, "it needs from: node:NAME"));
	assert_int_equal(load("[{from: 'node:a', to: ['cloud/10.0.0.0/33']}]", &err), -EINVAL);
	assert_int_equal(load("[{from: 'node:a', to: ['cloud/a/b/c']}]", &err), -EINVAL);
}

/* A name that no CA stands behind is nobody's. */
static void
a_certificate_counts_only_when_admitted(void **state)
{
	struct caller c = from("198.51.100.1", "prom", "");
	struct acl_target t = {.kind = TARGET_NODE, .node = "edge-1", .port = 1};

	(void)state;
	load("[{from: 'cert:prom', to: ['*']}]", NULL);
	assert_true(acl_check(access, &c, &t));
	c.admitted = false;
	assert_false(acl_check(access, &c, &t));
}

static void
targets(void **state)
{
	(void)state;
	load("[{from: 192.0.2.1, to: ['edge-*:9100-9105', 'gate:*', 'shop/web:80', "
	     "'shop/*-public', "
	     "'pod/kube-system/coredns-*:53', 'cloud/10.96.0.0/12:443', "
	     "'cloud/*.example.test:8080']}]",
		NULL);
	assert_true(other(TARGET_NODE, "", "edge-7", 9100));
	assert_true(other(TARGET_NODE, "", "edge-7", 9105));
	assert_false(other(TARGET_NODE, "", "edge-7", 9106));
	assert_false(other(TARGET_NODE, "", "edge", 9100));
	assert_true(other(TARGET_NODE, "", "gate", 65535));
	assert_true(other(TARGET_SERVICE, "shop", "web", 80));
	assert_false(other(TARGET_SERVICE, "shop", "web", 81));
	assert_false(other(TARGET_SERVICE, "shop2", "web", 80));
	assert_true(other(TARGET_SERVICE, "shop", "x-public", 1));
	assert_true(other(TARGET_POD, "kube-system", "coredns-1", 53));
	assert_false(other(TARGET_SERVICE, "kube-system", "coredns-1", 53));
	assert_false(other(TARGET_NODE, "", "web", 80));
	assert_true(other(TARGET_CLOUD, "", "10.96.0.1", 443));
	assert_true(other(TARGET_CLOUD, "", "10.111.255.255", 443));
	assert_false(other(TARGET_CLOUD, "", "10.112.0.0", 443));
	assert_false(other(TARGET_CLOUD, "", "10.96.0.1", 80));
	assert_true(other(TARGET_CLOUD, "", "a.example.test", 8080));
	assert_false(other(
		TARGET_SITE, "a", "10.96.0.1", 443)); /* a right to the cloud is none to a site */
	load("[{from: 192.0.2.1, to: ['*']}]", NULL);
	assert_true(other(TARGET_CLOUD, "", "203.0.113.1", 1));
}

static void
tokens(void **state)
{
	const struct acl_target t = {.kind = TARGET_NODE, .node = "edge-1", .port = 1};
	char yaml[512], hash[PKI_HASH_TEXT], other[PKI_HASH_TEXT];
	struct caller c = {0};

	(void)state;
	pki_sha256_hex("s3cret", 6, hash);
	pki_sha256_hex("another", 7, other);
	snprintf(yaml, sizeof yaml, "[{from: 'token:ann', tokenSHA256: %s, to: ['*']}]", hash);
	assert_int_equal(load(yaml, NULL), 0);
	assert_true(acl_use_token(access, "s3cret", 6, &c));
	assert_string_equal(c.token, "ann");
	assert_memory_equal(c.token_hash, hash, CALLER_TOKEN_HASH - 1);
	assert_true(acl_check(access, &c, &t) && acl_admits(access, &c));
	/* Another secret of the same name: the former one opens nothing, with a rule of the name
	 * alone neither. Both count while both are there, and each opens what the name has. */
	snprintf(yaml, sizeof yaml,
		"[{from: 'token:ann', tokenSHA256: %s, to: ['*']}, {from: ann, to: ['*']}]", other);
	assert_int_equal(load(yaml, NULL), 0);
	assert_false(acl_check(access, &c, &t) || acl_admits(access, &c));
	snprintf(yaml, sizeof yaml,
		"[{from: 'token:ann', tokenSHA256: %s, to: ['*']}, "
		"{from: 'token:ann', tokenSHA256: %s, to: [nothing]}]",
		other, hash);
	assert_int_equal(load(yaml, NULL), 0);
	assert_true(acl_check(access, &c, &t));
	assert_false(acl_use_token(access, "s3creT", 6, &c) || acl_use_token(access, "", 0, &c));
	assert_string_equal(c.token, "");
	assert_string_equal(c.token_hash, "");
	assert_true(acl_use_token_name(access, "ann", &c) && acl_check(access, &c, &t));
	assert_false(acl_use_token_name(access, "bob", &c) || acl_check(access, &c, &t));
}

static void
what_cannot_be_read_is_told_with_its_line(void **state)
{
	static const char *const rules[] = {
		"{from: '', to: ['*']}",
		"{from: 'a/b', to: ['*']}",
		"{from: 192.0.2.0/33, to: ['*']}",
		"{from: a, to: ['']}",
		"{from: a, to: ['edge:0']}",
		"{from: a, to: ['edge:5-4']}",
		"{from: a, to: ['edge:http']}",
		"{from: a, to: ['a/b/c']}",
		"{from: a, to: ['/b']}",
		"{from: a, to: ['pod/x']}",
		"{from: a, to: ['cloud/']}",
		"{from: a, tokenSHA256: abc, to: ['*']}",
		"{from: 'cert:a', tokenSHA256: abcdef, to: ['*']}",
	};
	char yaml[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct err err = {0};

		snprintf(yaml, sizeof yaml, "- {from: ok, to: ['*']}\n- %s\n", rules[i]);
		if (load(yaml, &err) != -EINVAL)
			fail_msg("accepted: %s", rules[i]);
		assert_non_null(strstr(err.text, "line 2: access: "));
	}
}

#define T(f) cmocka_unit_test_teardown(f, teardown)

static bool
asked_by_node(const char *name, enum target_kind kind, const char *ns, const char *service)
{
	struct caller c = {0};
	struct acl_target t = {
		.kind = kind, .node = ns, .ns = ns, .name = service, .host = ns, .port = 80};

	snprintf(c.node, sizeof c.node, "%s", name);
	return acl_check(access, &c, &t);
}

/* Endpoints of services are open to nodes, unless rules speak of nodes; nothing else ever is of
 * itself. */
static void
nodes(void **state)
{
	char text[ACCESS_NAME_MAX + 8];
	struct caller c = {.node = "edge-1", .cert = "edge-1"};

	(void)state;
	assert_int_equal(load("[]", NULL), 0);
	assert_true(asked_by_node("edge-1", TARGET_SERVICE, "default", "web"));
	assert_false(asked_by_node("edge-1", TARGET_NODE, "edge-2", ""));
	assert_false(asked_by_node("edge-1", TARGET_CLOUD, "192.0.2.1", ""));
	assert_int_equal(
		load("[{from: local, to: ['*']}, {from: 'cert:edge-1', to: ['*']}]", NULL), 0);
	assert_true(asked_by_node("edge-1", TARGET_SERVICE, "default", "web"));
	assert_false(asked_by_node("edge-1", TARGET_NODE, "edge-2", ""));
	assert_int_equal(load("[{from: 'node:edge-*', to: ['shop/*']}]", NULL), 0);
	assert_true(asked_by_node("edge-1", TARGET_SERVICE, "shop", "web"));
	assert_false(asked_by_node("edge-1", TARGET_SERVICE, "default", "web"));
	assert_false(asked_by_node("van-1", TARGET_SERVICE, "shop", "web"));
	assert_string_equal(caller_text(&c, text), "node:edge-1");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(without_rules_this_machine_and_the_admitted),
		T(the_page),
		T(who_may_reach_something),
		T(callers),
		T(this_host_is_loopback_and_unix_sockets),
		T(a_dial_of_the_hubs_own_gets_nothing),
		T(an_address_by_itself),
		T(endpoints_of_the_cloud),
		T(a_certificate_counts_only_when_admitted),
		T(targets),
		T(addresses_of_a_site),
		T(tokens),
		T(what_cannot_be_read_is_told_with_its_line),
		T(nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
