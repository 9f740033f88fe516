#include "src/agent/agent_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "src/common/ctl_answer.h"

/* The finding of this name, of an agent whose state is this; NULL: there is none. */
static const char *
found(const char *state, const char *what)
{
	static char text[512];
	struct tree *t auto_tree = NULL;
	struct findings f = {0};
	struct buf json;

	buf_init(&json, BUF_UNLIMITED);
	buf_adds(&json, state);
	assert_non_null(t = ctl_parse(&json));
	agent_checks(&f, tree_document(t, 0));
	text[0] = '\0';
	for (size_t i = 0; i < f.n; i++)
		if (f.list[i].what != NULL && strcmp(f.list[i].what, what) == 0)
			snprintf(text, sizeof text, "%s", f.list[i].found);
	findings_fini(&f);
	buf_fini(&json);
	return text[0] != '\0' ? text : NULL;
}

static enum verdict
worst(const char *state)
{
	struct tree *t auto_tree = NULL;
	struct findings f = {0};
	struct buf json;
	enum verdict most = VERDICT_OK;

	buf_init(&json, BUF_UNLIMITED);
	buf_adds(&json, state);
	assert_non_null(t = ctl_parse(&json));
	agent_checks(&f, tree_document(t, 0));
	for (size_t i = 0; i < f.n; i++)
		most = MAX(most, f.list[i].verdict);
	findings_fini(&f);
	buf_fini(&json);
	return most;
}

#define GROUP(service, worker, state)                                                              \
	"{\"worker\":" worker ",\"service\":\"" service "\",\"port\":80,\"endpoints\":["           \
	"{\"address\":\"10.0.0.1:80\",\"state\":\"" state "\",\"fault\":\"refused\"}]}"

static void
the_dead_are_told_by_their_whole_names(void **state)
{
	(void)state;
	assert_string_equal(
		found("{\"lb\":{\"endpoints\":[" GROUP("default/web-api", "0", "ejected") "," GROUP(
			      "default/web", "0", "ill") "," GROUP("default/web", "1", "ill") "]}}",
			"endpoints-dead"),
		"no endpoint of default/web-api:80, default/web:80 answers (10.0.0.1:80: refused)");
	assert_null(found("{\"lb\":{\"endpoints\":[" GROUP("default/web", "0", "up") "]}}",
		"endpoints-dead"));
}

static void
ipv6_that_is_not_served(void **state)
{
	(void)state;
	assert_string_equal(found("{\"error6\":\"DNS: cannot bind [fd09::1]:53\"}", "ipv6"),
		"services have no IPv6 address, IPv4 is served: DNS: cannot bind [fd09::1]:53");
	assert_null(found("{\"error6\":\"\"}", "ipv6"));
}

#define UPSTREAM(address, state, errors)                                                           \
	"{\"address\":\"" address "\",\"state\":\"" state "\",\"errors\":\"" errors                \
	"\",\"errors_in_a_row\":69}"
#define UPSTREAMS(a, b) "{\"dns\":{\"forwarding\":[" a "," b "]}}"

static void
upstreams_that_answer_errors_alone(void **state)
{
	static const char said[] =
		"1:53 answers REFUSED to all of the last 69 queries for addresses";
	const char *both = UPSTREAMS(
		UPSTREAM("2:53", "alive", "SERVFAIL"), UPSTREAM("1:53", "alive", "REFUSED"));
	const char *one =
		UPSTREAMS(UPSTREAM("1:53", "alive", "REFUSED"), UPSTREAM("2:53", "alive", ""));
	const char *garbage =
		UPSTREAMS(UPSTREAM("1:53", "dead", "garbage"), UPSTREAM("2:53", "loop", ""));
	const char *dead =
		UPSTREAMS(UPSTREAM("1:53", "alive", "REFUSED"), UPSTREAM("2:53", "dead", ""));

	(void)state;
	assert_string_equal(found(both, "upstreams-errors"), said);
	assert_string_equal(found(one, "upstream-errors"), said);
	assert_null(found(one, "upstreams-errors"));
	assert_string_equal(found(dead, "upstreams-errors"), said);
	assert_string_equal(found(dead, "upstreams-dead"), "2:53: dead");
	assert_string_equal(found(garbage, "upstreams-garbage"),
		"1:53 answers what is no DNS message, or what no query of ours waits for any more");
	assert_null(found(garbage, "upstreams-dead"));
}

#define HOST(set, stub, fault)                                                                     \
	"{\"dns\":{\"host\":{\"way\":\"resolved\",\"link\":\"docker0\",\"set\":" set               \
	",\"fault\":\"" fault "\"},\"resolvConf\":{\"stub\":" stub "}}}"

static void
the_route_of_resolved(void **state)
{
	(void)state;
	assert_string_equal(found(HOST("true", "true", ""), "resolved"),
		"names of the cluster are asked here, through link docker0");
	assert_null(found(HOST("true", "true", ""), "resolv.conf"));
	assert_non_null(strstr(found(HOST("true", "false", ""), "resolv.conf"), "127.0.0.53"));
	assert_string_equal(
		found(HOST("false", "true", "systemd-resolved does not run"), "resolved"),
		"no route for names of the cluster on this host: systemd-resolved does not run");
	assert_string_equal(found(HOST("false", "true", ""), "resolved"),
		"names of the cluster are not asked here yet");
}

#define TUNNEL(connected, state, error, more)                                                      \
	"{\"meta\":{\"connected\":" connected "},\"tunnel\":{\"enabled\":true,\"state\":\"" state  \
	"\",\"error\":\"" error "\"" more "}}"

/* Only where the hub is there; for that there are findings of their own. */
static void
a_tunnel_that_is_not_open(void **state)
{
	(void)state;
	assert_string_equal(found(TUNNEL("true", "waiting", "reset", ""), "tunnel-down"),
		"the cloud does not reach this node: reset");
	assert_null(found(TUNNEL("false", "waiting", "reset", ""), "tunnel-down"));
	assert_null(found(TUNNEL("true", "dialling", "", ""), "tunnel-down"));
	assert_null(found(TUNNEL("true", "open", "", ""), "tunnel-down"));
}

#define PEERS(error, nat, peers)                                                                   \
	TUNNEL("true", "open", "",                                                                 \
		",\"peers\":{\"port\":10001,\"error\":\"" error "\",\"nat\":\"" nat                \
		"\",\"peers\":[" peers "]}")
#define PEER(node, path, state)                                                                    \
	"{\"peer\":\"" node "\",\"path\":\"" path "\",\"state\":\"" state                          \
	"\",\"address\":\"192.0.2.1:1\",\"error\":\"reset\"}"

static void
other_nodes(void **state)
{
	(void)state;
	assert_null(found(PEERS("", "", PEER("a", "site", "open")), "peers-resting"));
	assert_null(found(PEERS("", "ready", ""), "peers-nat"));
	assert_string_equal(found(PEERS("taken", "", ""), "peers-door"),
		"other nodes cannot dial this one: taken");
	assert_string_equal(
		found(TUNNEL("true", "open", "",
			      ",\"peers\":{\"floods\":{\"cut\":1,\"trouble\":\"node b floods\"}}"),
			"peers-floods"),
		"node b floods");
	assert_string_equal(found(PEERS("", "the hub is old", ""), "peers-nat"),
		"no node is met across NAT (mesh.direct: nat): the hub is old");
	assert_null(
		found(PEERS("", "ready",
			      "{\"peer\":\"a\",\"path\":\"nat\",\"state\":\"resting\",\"address\":"
			      "\"\",\"error\":\"no\"}"),
			"peers-resting"));
	assert_string_equal(
		found(PEERS("", "ready",
			      PEER("a", "site", "resting") "," PEER("b", "nat", "resting")),
			"peers-resting"),
		"2 of the other nodes cannot be dialled; a at 192.0.2.1:1: reset");
}

static void
a_second_tunnel_that_is_not_open(void **state)
{
	(void)state;
	assert_string_equal(
		found(TUNNEL("true", "open", "",
			      ",\"standby\":{\"state\":\"waiting\",\"error\":\"reset\"}"),
			"tunnel-standby"),
		"the second tunnel (hub.tunnels) is not open: reset");
	assert_string_equal(found(TUNNEL("true", "open", "",
					  ",\"standby\":{\"state\":\"no hub yet\",\"error\":\"\"}"),
				    "tunnel-standby"),
		"the second tunnel (hub.tunnels) is not open: no other hub is known");
	assert_null(
		found(TUNNEL("true", "open", "",
			      ",\"hub\":\"a:1\",\"standby\":{\"state\":\"open\",\"hub\":\"b:1\"}"),
			"tunnel-standby"));
	assert_string_equal(found(TUNNEL("true", "open", "",
					  ",\"hub\":\"a:1\",\"standby\":{\"state\":\"open\","
					  "\"hub\":\"a:1\",\"error\":\"\"}"),
				    "tunnel-standby"),
		"the second tunnel (hub.tunnels) is not open: no other hub is known");
	assert_string_equal(found(TUNNEL("true", "open", "",
					  ",\"hub\":\"a:1\",\"standby\":{\"state\":\"open\","
					  "\"hub\":\"b:1\",\"doubt\":\"silent\"}"),
				    "tunnel-standby"),
		"the second tunnel (hub.tunnels) is not open: silent");
	assert_null(found(TUNNEL("true", "open", "", ""), "tunnel-standby"));
}

#define LINK(ends, why) "\"ends\":" ends ",\"end\":\"" why "\""

static void
a_connection_that_ends_again_and_again(void **state)
{
	(void)state;
	assert_string_equal(
		found("{\"meta\":{\"connected\":true," LINK("5", "reset") "},\"tunnel\":{" LINK(
			      "3", "cut") ",\"outward\":{" LINK("4", "idle") "}}}",
			"hub-flapping"),
		"the connection ended within five minutes: metadata 5 times, outward tunnel 4 "
		"times; the last time: idle");
	assert_null(
		found("{\"meta\":{\"connected\":true," LINK("3", "reset") "}}", "hub-flapping"));
}

#define UNSERVED(due, resolv)                                                                      \
	"{\"ready\":false,\"error\":\"waiting\",\"iptables\":{\"table\":\"ip "                     \
	"edgeway\",\"interface\":"                                                                 \
	"\"docker0\",\"own_interface_due\":" due                                                   \
	"},\"dns\":{\"forwarding\":[{\"address\":\"1:53\",\"state\":\"alive\"}],\"resolvConf\":{"  \
	"\"state\":\"" resolv "\"}},\"meta\":{\"connected\":true,\"synced\":true,\"database\":{"   \
	"\"state\":\"ok\"}}}"

/* Without docker0 the mesh gets an interface of its own after ten seconds. */
static void
a_start_that_waits_is_no_fault(void **state)
{
	(void)state;
	assert_int_equal(worst(UNSERVED("true", "original")), VERDICT_INFO);
	assert_int_equal(worst(UNSERVED("false", "original")), VERDICT_BAD);
	assert_string_equal(found(UNSERVED("true", "original"), "agent"), "not ready: waiting");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_dead_are_told_by_their_whole_names),
		cmocka_unit_test(ipv6_that_is_not_served),
		cmocka_unit_test(upstreams_that_answer_errors_alone),
		cmocka_unit_test(the_route_of_resolved),
		cmocka_unit_test(a_tunnel_that_is_not_open),
		cmocka_unit_test(a_connection_that_ends_again_and_again),
		cmocka_unit_test(other_nodes),
		cmocka_unit_test(a_second_tunnel_that_is_not_open),
		cmocka_unit_test(a_start_that_waits_is_no_fault),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
