#include "model/service.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/view.h"

#define ENDPOINTS                                                                                  \
	"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"name\":\"p\",\"port\":80,\"mode\":\"tcp\","    \
	"\"endpoints\":["

static struct service *
build(const char *endpoints, const char *node, const char *site)
{
	struct self self = {.node = node, .site = site, .zone = ""};
	auto_free char *json = xasprintf(ENDPOINTS "%s]}]}", endpoints);
	struct err err = {0};
	struct view *v;
	struct service *s;

	if (view_parse(&v, json, strlen(json), &err) < 0)
		fail_msg("%s", err.text);
	s = service_build(v, &self, 0x09fb0001, 77);
	view_free(&v);
	return s;
}

/* "via address:port" of each endpoint, with " or address:port" of the other family, "refused
 * address:port" of those that are, and "+N" for those out of reach. */
static const char *
ways(const char *endpoints, const char *node, const char *site)
{
	static const char *const via[] = {"pod", "host", "given", "tunnel", "refused"};
	static char text[512];
	struct service *s = build(endpoints, node, site);
	const struct service_port *p = &s->ports[0];
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < p->n_endpoints + (size_t)p->n_refused; i++) {
		struct addr a = endpoint_addr(&p->endpoints[i]);
		char to[ADDR_TEXT_MAX];

		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", at > 0 ? ", " : "",
			via[p->endpoints[i].via], addr_text(&a, to));
		if (IN6_IS_ADDR_UNSPECIFIED(&p->endpoints[i].other))
			continue;
		a = endpoint_addr(&(struct endpoint){
			.ip = p->endpoints[i].other, .port = p->endpoints[i].port});
		at += (size_t)snprintf(text + at, sizeof text - at, " or %s", addr_text(&a, to));
	}
	if (p->n_unreachable > 0)
		snprintf(text + at, sizeof text - at, "+%u", p->n_unreachable);
	service_unref(&s);
	return text;
}

#define POD(node, site, flags)                                                                     \
	"{\"node\":\"" node "\",\"site\":\"" site "\",\"pod\":\"x\",\"flags\":" flags              \
	",\"podIP\":\"172.17.0.5\",\"podPort\":8080,\"hostIP\":\"192.0.2.7\",\"hostPort\":30080}"

static void
each_node_dials_its_own_way(void **state)
{
	(void)state;
	assert_string_equal(ways(POD("a", "", "3"), "a", ""), "pod 172.17.0.5:8080");
	assert_string_equal(ways(POD("a", "", "3"), "b", ""), "host 192.0.2.7:30080");
	assert_string_equal(ways(POD("a", "s", "3"), "b", "s"), "host 192.0.2.7:30080");
	assert_string_equal(ways(POD("a", "s", "3"), "b", "t"), "+1");
	assert_string_equal(ways(POD("a", "s", "3"), "b", ""), "+1");
	/* No node name is nobody's own. */
	assert_string_equal(ways(POD("", "", "3"), "", ""), "host 192.0.2.7:30080");
}

static void
a_pod_without_host_port_needs_the_tunnel(void **state)
{
	static const char pod[] =
		"{\"node\":\"a\",\"flags\":3,\"podIP\":\"172.17.0.5\",\"podPort\":80}";

	(void)state;
	assert_string_equal(ways(pod, "a", ""), "pod 172.17.0.5:80");
	assert_string_equal(ways(pod, "b", ""), "+1");
}

static void
loopback_is_nobodys(void **state)
{
	static const char pod[] = "{\"node\":\"a\",\"public\":true,\"flags\":3,\"hostIP\":\"127.0."
				  "0.1\",\"hostPort\":80}";

	(void)state;
	assert_string_equal(ways(pod, "a", ""), "refused 127.0.0.1:80");
	assert_string_equal(ways(pod, "b", ""), "+1");
	assert_string_equal(ways(pod, "b", "elsewhere"), "+1");
}

static void
public_nodes_are_dialled_from_other_sites(void **state)
{
	static const char labelled[] = "{\"node\":\"a\",\"site\":\"s\",\"public\":true,\"flags\":3,"
				       "\"hostIP\":\"192.0.2.7\",\"hostPort\":80}";
	static const char external[] =
		"{\"node\":\"a\",\"site\":\"s\",\"flags\":3,\"hostIP\":\"10.0.0.7\","
		"\"hostPort\":80,\"publicIP\":\"198.51.100.9\"}";

	(void)state;
	assert_string_equal(ways(labelled, "b", "t"), "host 192.0.2.7:80");
	assert_string_equal(ways(external, "b", "t"), "host 198.51.100.9:80");
	assert_string_equal(ways(external, "b", "s"), "host 10.0.0.7:80");
}

static void
given_addresses_are_dialled_as_given(void **state)
{
	(void)state;
	assert_string_equal(
		ways("{\"flags\":3,\"givenIP\":\"2001:db8::1\",\"givenPort\":53}", "b", "t"),
		"given [2001:db8::1]:53");
}

/* Either address serves where the other one has no way or must not be dialled. */
static void
both_families_are_ways(void **state)
{
#define DUAL(more)                                                                                 \
	"{\"node\":\"a\",\"site\":\"s\",\"pod\":\"x\",\"flags\":3,\"podIP\":\"fd01::5\","          \
	"\"otherPodIP\":\"172.17.0.5\",\"podPort\":8080,\"hostPort\":30080" more "}"
	static const char host[] =
		DUAL(",\"hostIP\":\"fd02::7\",\"otherHostIP\":\"192.0.2.7\","
		     "\"publicIP\":\"198.51.100.9\",\"otherPublicIP\":\"2001:db8::9\"");
	static const char one[] = DUAL(",\"hostIP\":\"192.0.2.7\"");
	static const char loopback[] = DUAL(",\"hostIP\":\"::1\",\"otherHostIP\":\"192.0.2.7\"");

	(void)state;
	assert_string_equal(ways(host, "a", "s"), "pod [fd01::5]:8080 or 172.17.0.5:8080");
	assert_string_equal(ways(host, "b", "s"), "host [fd02::7]:30080 or 192.0.2.7:30080");
	assert_string_equal(ways(host, "b", "t"), "host 198.51.100.9:30080 or [2001:db8::9]:30080");
	assert_string_equal(ways(one, "b", "s"), "host 192.0.2.7:30080");
	assert_string_equal(ways(loopback, "b", "s"), "host 192.0.2.7:30080");
	assert_string_equal(ways("{\"flags\":3,\"givenIP\":\"169.254.169.254\","
				 "\"otherGivenIP\":\"2001:db8::1\",\"givenPort\":53}",
				    "b", "t"),
		"given [2001:db8::1]:53");
	assert_string_equal(ways("{\"flags\":3,\"givenIP\":\"10.0.0.1\",\"otherGivenIP\":"
				 "\"fe80::1\",\"givenPort\":53}",
				    "b", "t"),
		"given 10.0.0.1:53");
	assert_string_equal(ways("{\"flags\":3,\"givenIP\":\"127.0.0.1\",\"otherGivenIP\":"
				 "\"::1\",\"givenPort\":53}",
				    "b", "t"),
		"refused 127.0.0.1:53");
}

static void
ready_ones_serve_else_leaving_ones(void **state)
{
#define GIVEN(ip, flags) "{\"flags\":" flags ",\"givenIP\":\"10.0.0." ip "\",\"givenPort\":1}"
	(void)state;
	assert_string_equal(ways(GIVEN("1", "3") "," GIVEN("2", "6") "," GIVEN("3", "0"), "b", ""),
		"given 10.0.0.1:1");
	assert_string_equal(ways(GIVEN("2", "6") "," GIVEN("3", "4") "," GIVEN("4", "2"), "b", ""),
		"given 10.0.0.2:1");
	assert_string_equal(ways(GIVEN("3", "4"), "b", ""), "");
	/* Published although not ready. */
	assert_string_equal(ways(GIVEN("3", "1"), "b", ""), "given 10.0.0.3:1");
	/* A leaving one within reach is better than a ready one beyond. */
	assert_string_equal(
		ways(POD("a", "far", "3") "," GIVEN("2", "6"), "b", ""), "given 10.0.0.2:1+1");
	assert_string_equal(ways(POD("a", "far", "6"), "b", ""), "+1");
}

/* Calls from outside that may only go to this node's endpoints go to a leaving one while this node
 * has no other, as in Kubernetes; nobody else does. */
static void
a_local_leaving_one_serves_calls_from_outside(void **state)
{
#define LOCAL(more)                                                                                \
	"{\"ns\":\"shop\",\"name\":\"s\"" more ",\"ports\":[{\"port\":1,\"mode\":\"tcp\","         \
	"\"nodePort\":30000,\"endpoints\":["
#define AT(node, ip, flags)                                                                        \
	"{\"node\":\"" node "\",\"flags\":" flags ",\"givenIP\":\"" ip "\",\"givenPort\":1}"
#define OUTSIDE ",\"externalLocal\":true"
	static const struct {
		const char *json;
		unsigned n, leaving, refused;
	} cases[] = {
		{LOCAL(OUTSIDE) AT("me", "10.0.0.2", "6") "," AT("a", "10.0.0.1", "3"), 1, 1, 0},
		{LOCAL("") AT("me", "10.0.0.2", "6") "," AT("a", "10.0.0.1", "3"), 1, 0, 0},
		/* another ready one here; only leaving ones everywhere; leaving ones elsewhere; not
		 * serving */
		{LOCAL(OUTSIDE) AT("me", "10.0.0.2", "6") "," AT("me", "10.0.0.1", "3"), 1, 0, 0},
		{LOCAL(OUTSIDE) AT("me", "10.0.0.2", "6") "," AT("a", "10.0.0.1", "6"), 2, 0, 0},
		{LOCAL(OUTSIDE) AT("b", "10.0.0.2", "6") "," AT("a", "10.0.0.1", "3"), 1, 0, 0},
		{LOCAL(OUTSIDE) AT("me", "10.0.0.2", "4") "," AT("a", "10.0.0.1", "3"), 1, 0, 0},
		/* a refused one counts once */
		{LOCAL(OUTSIDE) AT("me", "127.0.0.1", "6") "," AT("me", "127.0.0.2", "6") "," AT(
			 "me", "127.0.0.3", "6") "," AT("a", "10.0.0.1", "6"),
			1, 0, 3},
		/* internalTrafficPolicy: Local holds for both */
		{LOCAL(OUTSIDE ",\"localOnly\":true")
				AT("me", "10.0.0.2", "6") "," AT("a", "10.0.0.1", "3"),
			1, 0, 0},
		/* the refused ones come behind */
		{LOCAL(OUTSIDE) AT("me", "10.0.0.2", "6") "," AT("a", "127.0.0.1", "3") "," AT(
			 "a", "10.0.0.1", "3"),
			1, 1, 1},
	};
	struct self self = {.node = "me", .site = "", .zone = ""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *json = xasprintf("%s]}]}", cases[i].json);
		const struct service_port *p;
		struct view *v;
		struct service *s;

		assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
		s = service_build(v, &self, 5, 77);
		view_free(&v);
		p = &s->ports[0];
		assert_int_equal(p->n_endpoints, cases[i].n);
		assert_int_equal(p->n_leaving, cases[i].leaving);
		assert_int_equal(p->n_refused, cases[i].refused);
		if (cases[i].leaving > 0) {
			assert_string_equal(p->endpoints[0].node, "a");
			assert_string_equal(p->endpoints[1].node, "me");
			assert_int_equal(p->endpoints[1].flags,
				ENDPOINT_SERVING | ENDPOINT_TERMINATING | ENDPOINT_LOCAL);
		}
		if (cases[i].refused > 0)
			assert_int_equal(service_port_refused(p)->via, VIA_REFUSED);
		service_unref(&s);
	}
#undef OUTSIDE
#undef AT
#undef LOCAL
}

static void
everything_is_in_the_service(void **state)
{
	static const char json[] =
		"{\"ns\":\"shop\",\"name\":\"db\",\"clusterIP\":\"10.96.0.10\",\"headless\":true,"
		"\"policy\":\"ewma\",\"affinity\":60,\"ports\":["
		"{\"name\":\"one\",\"port\":53,\"mode\":\"tcp\",\"endpoints\":[{\"node\":\"a\","
		"\"zone\":\"z\","
		"\"hostname\":\"db-0\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":1}]},"
		"{\"name\":\"two\",\"port\":53,\"mode\":\"udp\",\"endpoints\":[{\"node\":\"a\","
		"\"zone\":\"z\","
		"\"hostname\":\"db-0\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":2}]}]}";
	struct self self = {.node = "a", .site = "", .zone = ""};
	struct view *v;
	struct service *s, *second;
	const struct endpoint *e;

	(void)state;
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, &self, 5, 77);
	view_free(&v);
	assert_string_equal(s->namespace, "shop");
	assert_string_equal(s->name, "db");
	assert_string_equal(s->external_name, "");
	assert_true(s->headless);
	assert_int_equal(s->lb.policy, LB_EWMA);
	assert_int_equal(s->lb.affinity_s, 60);
	assert_int_equal(s->cluster_ip, 0x0a60000a);
	assert_int_equal(s->fake_ip, 5);
	assert_int_equal(s->digest, 77);
	assert_int_equal(s->n_ports, 2);
	assert_string_equal(service_port_find(s, 53, false)->name, "one");
	assert_string_equal(service_port_find(s, 53, true)->name, "two");
	assert_null(service_port_find(s, 54, false));
	e = service_port_find(s, 53, true)->endpoints;
	assert_int_equal(e->port, 2);
	assert_int_equal(e->flags, ENDPOINT_READY | ENDPOINT_SERVING | ENDPOINT_LOCAL);
	assert_string_equal(e->hostname, "db-0");
	/* One text, however often it is said. */
	assert_ptr_equal(e->node, s->ports[0].endpoints[0].node);
	second = service_ref(s);
	service_unref(&s);
	assert_null(s);
	assert_string_equal(second->name, "db");
	service_unref(&second);
}

/* With a hub that reaches for it the node has a way to every pod of another node: the last tier,
 * and an address of that node's own. */
static void
the_hub_reaches_the_rest(void **state)
{
	static const char endpoints[] =
		POD("a", "s", "3") "," POD("b", "other", "3") "," POD("", "other", "3");
	struct self self = {.node = "a", .site = "s", .zone = "", .forward = true};
	auto_free char *json = xasprintf(ENDPOINTS "%s]}]}", endpoints);
	const struct service_port *p;
	char text[ADDR_TEXT_MAX];
	struct in6_addr of_b, of_c, ip;
	struct service *s;
	struct view *v;

	(void)state;
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, &self, 0x09fb0001, 77);
	p = &s->ports[0];
	assert_int_equal(p->n_endpoints, 2);
	assert_int_equal(p->n_unreachable, 1); /* of no node that is known */
	assert_int_equal(p->endpoints[0].via, VIA_POD);
	assert_int_equal(p->endpoints[1].via, VIA_TUNNEL);
	assert_int_equal(p->endpoints[1].tier, TIER_TUNNEL);
	assert_string_equal(p->endpoints[1].node, "b");
	assert_true(endpoint_is_far(&p->endpoints[1].ip));
	assert_false(endpoint_is_far(&p->endpoints[0].ip));
	of_b = p->endpoints[1].ip;
	ip = endpoint_ip(&p->endpoints[1]);
	assert_memory_equal(&ip, &p->endpoints[0].ip, sizeof ip);
	assert_string_equal(endpoint_text(&p->endpoints[1], text), "172.17.0.5:8080");
	of_c = endpoint_far("c", &ip);
	assert_memory_not_equal(&of_c, &of_b, sizeof of_c);
	service_unref(&s);
	v->ports[0].mode = PORT_UDP; /* the same */
	s = service_build(v, &self, 0x09fb0001, 78);
	assert_int_equal(s->ports[0].n_endpoints, 2);
	assert_int_equal(s->ports[0].n_unreachable, 1);
	service_unref(&s);
	view_free(&v);
}

static const char *
peer_of(const struct self *self, const char *more)
{
	static char peer[ADDR_TEXT_MAX];
	auto_free char *json = xasprintf(ENDPOINTS "{\"node\":\"b\",\"pod\":\"p\",\"flags\":3,"
						   "\"podIP\":\"172.17.0.5\",\"podPort\":8080,%s}"
						   "]}]}",
		more);
	struct service *s;
	struct view *v;

	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, self, 0x09fb0001, 77);
	view_free(&v);
	assert_int_equal(s->ports[0].n_endpoints, 1);
	assert_int_equal(s->ports[0].endpoints[0].via, VIA_TUNNEL);
	assert_int_equal(s->ports[0].endpoints[0].tier,
		*s->ports[0].endpoints[0].peer != '\0' ? TIER_REST : TIER_TUNNEL);
	snprintf(peer, sizeof peer, "%s", s->ports[0].endpoints[0].peer);
	service_unref(&s);
	return peer;
}

/* By the rules for hostPorts: within a site, and where the node is public. */
static void
whose_agent_is_dialled(void **state)
{
	struct self self = {.node = "a", .site = "s", .zone = "", .forward = true, .direct = true};

	(void)state;
	assert_string_equal(peer_of(&self, "\"site\":\"s\",\"hostIP\":\"192.0.2.7\""), "192.0.2.7");
	assert_string_equal(peer_of(&self,
				    "\"site\":\"s\",\"hostIP\":\"169.254.169.254\","
				    "\"otherHostIP\":\"2001:db8::7\""),
		"2001:db8::7");
	assert_string_equal(peer_of(&self, "\"site\":\"s\",\"hostIP\":\"127.0.0.1\""), "");
	assert_string_equal(peer_of(&self, "\"site\":\"t\",\"hostIP\":\"192.0.2.7\""), "");
	assert_string_equal(peer_of(&self,
				    "\"site\":\"t\",\"hostIP\":\"192.0.2.7\","
				    "\"publicIP\":\"198.51.100.7\""),
		"198.51.100.7");
	assert_string_equal(
		peer_of(&self, "\"site\":\"t\",\"public\":true,\"hostIP\":\"192.0.2.7\""),
		"192.0.2.7");
	self.direct = false;
	assert_string_equal(peer_of(&self, "\"site\":\"s\",\"hostIP\":\"192.0.2.7\""), "");
}

/* An address without a pod that the hub dials as well: a second endpoint, the last to be used, and
 * the first of the API server, where the node wants that. */
static void
what_the_hub_dials(void **state)
{
	static const char given[] =
		"{\"ns\":\"%s\",\"name\":\"%s\",\"cloud\":%s,\"ports\":[{\"name\":\"\","
		"\"port\":443,\"mode\":\"tcp\",\"endpoints\":[{\"flags\":3,"
		"\"givenIP\":\"%s\",\"givenPort\":6443}]}]}";
	static const struct {
		const char *ns, *name, *cloud, *ip;
		bool forward, apiserver;
		uint8_t encrypt;
		unsigned n;
		uint8_t via[2];
	} cases[] = {
		{"shop", "db", "false", "10.0.0.5", true, true, 0, 1, {VIA_GIVEN}},
		{"shop", "db", "true", "10.0.0.5", false, true, 0, 1, {VIA_GIVEN}},
		{"shop", "db", "true", "10.0.0.5", true, false, 0, 2, {VIA_GIVEN, VIA_TUNNEL}},
		{"shop", "db", "true", "10.0.0.5", true, false, ENCRYPT_ALWAYS, 1, {VIA_TUNNEL}},
		{"shop", "db", "true", "127.0.0.1", true, false, 0, 0, {0}},
		{"default", "kubernetes", "true", "10.0.0.5", true, false, 0, 1, {VIA_GIVEN}},
		{"default", "kubernetes", "true", "10.0.0.5", true, true, 0, 2,
			{VIA_TUNNEL, VIA_GIVEN}},
		{"default", "kubernetes", "false", "10.0.0.5", true, true, 0, 1, {VIA_GIVEN}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct self self = {.node = "a",
			.site = "s",
			.zone = "",
			.forward = cases[i].forward,
			.apiserver = cases[i].apiserver,
			.encrypt = cases[i].encrypt};
		char json[512], text[ADDR_TEXT_MAX];
		const struct service_port *p;
		struct service *s;
		struct view *v;

		snprintf(json, sizeof json, given, cases[i].ns, cases[i].name, cases[i].cloud,
			cases[i].ip);
		assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
		s = service_build(v, &self, 0x09fb0001, 77);
		p = &s->ports[0];
		assert_int_equal(p->n_endpoints, cases[i].n);
		assert_int_equal(p->n_refused, cases[i].n == 0);
		for (unsigned k = 0; k < p->n_endpoints; k++) {
			bool last = k > 0 || cases[i].encrypt != 0;

			assert_int_equal(p->endpoints[k].via, cases[i].via[k]);
			assert_int_equal(p->endpoints[k].tier, last ? TIER_TUNNEL : TIER_REST);
			assert_string_equal(endpoint_text(&p->endpoints[k], text), "10.0.0.5:6443");
			assert_string_equal(p->endpoints[k].peer, "");
		}
		service_unref(&s);
		view_free(&v);
	}
}

/* In clear text nothing goes that must not: by the other node's agent or the hub, or not at all. */
static void
what_must_be_encrypted(void **state)
{
	static const char endpoints[] = ENDPOINTS POD("a", "s", "3") "," POD("b", "s", "3") "," POD(
		"b", "t", "3") ","
			       "{\"flags\":3,\"givenIP\":\"198.51.100.9\",\"givenPort\":80}]}]}";
	struct self self = {.node = "a", .site = "s", .zone = "", .forward = true, .direct = true};
	static const struct {
		uint8_t own, service, ways[3]; /* of this node's pod, the site's, the given one */
		unsigned refused;
	} cases[] = {
		{ENCRYPT_OFF, ENCRYPT_DEFAULT, {VIA_POD, VIA_HOST, VIA_GIVEN}, 0},
		{ENCRYPT_SITE, ENCRYPT_DEFAULT, {VIA_POD, VIA_TUNNEL, VIA_GIVEN}, 0},
		{ENCRYPT_SITE, ENCRYPT_OFF, {VIA_POD, VIA_HOST, VIA_GIVEN}, 0},
		{ENCRYPT_OFF, ENCRYPT_SITE, {VIA_POD, VIA_TUNNEL, VIA_GIVEN}, 0},
		{ENCRYPT_OFF, ENCRYPT_ALWAYS, {VIA_POD, VIA_TUNNEL, VIA_REFUSED}, 1},
		{ENCRYPT_ALWAYS, ENCRYPT_DEFAULT, {VIA_POD, VIA_TUNNEL, VIA_REFUSED}, 1},
	};
	struct view *v;

	(void)state;
	assert_int_equal(view_parse(&v, endpoints, strlen(endpoints), NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct service_port *p;
		struct service *s;
		unsigned seen = 0;

		self.encrypt = cases[i].own;
		v->lb.encrypt = cases[i].service;
		s = service_build(v, &self, 0x09fb0001, 77);
		p = &s->ports[0];
		assert_int_equal(p->n_refused, cases[i].refused);
		for (unsigned k = 0; k < p->n_endpoints + p->n_refused; k++) {
			const struct endpoint *e = &p->endpoints[k];
			const char *const nodes[] = {"a", "b", ""};

			for (unsigned n = 0; n < ARRAY_LEN(nodes); n++)
				if (strcmp(e->node, nodes[n]) == 0 && e->tier != TIER_TUNNEL) {
					assert_int_equal(e->via, cases[i].ways[n]);
					seen |= 1U << n;
				}
			if (e->via == VIA_REFUSED)
				assert_int_equal(e->tier, SPECIAL_CLEAR);
			else
				assert_true(e->via != VIA_TUNNEL || e->tier == TIER_TUNNEL ||
					(e->flags & ENDPOINT_ENCRYPTED) != 0);
		}
		assert_int_equal(seen, 7);
		service_unref(&s);
	}
	self.forward = false; /* without a hub's tunnel there is no way that is encrypted */
	{
		struct service *s = service_build(v, &self, 0x09fb0001, 77);

		assert_int_equal(s->ports[0].n_endpoints, 1);
		assert_int_equal(s->ports[0].endpoints[0].via, VIA_POD);
		service_unref(&s);
	}
	view_free(&v);
	{ /* what does not leave the node is not in clear text on any wire */
		static const char own[] =
			ENDPOINTS "{\"node\":\"a\",\"site\":\"s\",\"pod\":\"x\",\"flags\":3,"
				  "\"hostIP\":\"192.0.2.7\",\"hostPort\":30080}]}]}";
		struct service *s;

		assert_int_equal(view_parse(&v, own, strlen(own), NULL), 0);
		s = service_build(v, &self, 0x09fb0001, 77);
		assert_int_equal(s->ports[0].n_endpoints, 1);
		assert_int_equal(s->ports[0].endpoints[0].via, VIA_HOST);
		service_unref(&s);
		view_free(&v);
	}
}

/* One of IPv6 does not fit into what stands for it: the service keeps it beside. The own pod's is
 * dialled as it is. */
static void
the_hub_reaches_ipv6(void **state)
{
	static const char endpoint[] =
		"{\"node\":\"%s\",\"pod\":\"p\",\"flags\":3,\"podIP\":\"%s\",\"podPort\":8080}";
	auto_free char *own = xasprintf(endpoint, "a", "2001:db8::5"),
		       *b = xasprintf(endpoint, "b", "2001:DB8:0::5"),
		       *c = xasprintf(endpoint, "c", "2001:db8::5"),
		       *json = xasprintf(ENDPOINTS "%s,%s,%s]}]}", own, b, c);
	struct self self = {.node = "a", .site = "s", .zone = "", .forward = true};
	const struct endpoint *e;
	char text[ADDR_TEXT_MAX];
	struct service *s;
	struct in6_addr ip;
	struct view *v;

	(void)state;
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, &self, 0x09fb0001, 77);
	view_free(&v);
	assert_int_equal(s->ports[0].n_endpoints, 3);
	assert_int_equal(s->ports[0].n_unreachable, 0);
	e = s->ports[0].endpoints;
	assert_int_equal(e[0].via, VIA_POD);
	assert_false(endpoint_is_far(&e[0].ip));
	assert_string_equal(e[0].far, "");
	for (int i = 1; i < 3; i++) {
		assert_int_equal(e[i].via, VIA_TUNNEL);
		assert_true(endpoint_is_far(&e[i].ip));
		assert_string_equal(endpoint_text(&e[i], text), "[2001:db8::5]:8080");
		ip = endpoint_ip(&e[i]);
		assert_memory_equal(&ip, &e[0].ip, sizeof ip);
		ip = endpoint_far(e[i].node, &ip); /* the same each time */
		assert_memory_equal(&ip, &e[i].ip, sizeof ip);
	}
	assert_memory_not_equal(&e[1].ip, &e[2].ip, sizeof ip);
	service_unref(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_node_dials_its_own_way),
		cmocka_unit_test(a_pod_without_host_port_needs_the_tunnel),
		cmocka_unit_test(loopback_is_nobodys),
		cmocka_unit_test(public_nodes_are_dialled_from_other_sites),
		cmocka_unit_test(given_addresses_are_dialled_as_given),
		cmocka_unit_test(both_families_are_ways),
		cmocka_unit_test(ready_ones_serve_else_leaving_ones),
		cmocka_unit_test(a_local_leaving_one_serves_calls_from_outside),
		cmocka_unit_test(everything_is_in_the_service),
		cmocka_unit_test(the_hub_reaches_the_rest),
		cmocka_unit_test(whose_agent_is_dialled),
		cmocka_unit_test(what_the_hub_dials),
		cmocka_unit_test(what_must_be_encrypted),
		cmocka_unit_test(the_hub_reaches_ipv6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
