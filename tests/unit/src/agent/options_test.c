#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/buf.h"
#include "src/agent/agent_options.h"
#include "src/hub/hub_options.h"

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.secret"
/* Set for all tests but those of hub.url, which must be set. */
#define HUB "wss://hub:10000"

/* Writes the file and gives argv with it and one flag (NULL: none); the caller unlinks argv[2]. */
static int
make_argv(char **argv, char *path, const char *file, char *flag)
{
	int fd;

	strcpy(path, "/tmp/edgeway-options-test-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, file, strlen(file)), strlen(file));
	close(fd);
	argv[0] = argv[1] = (char *)(uintptr_t) "--config";
	argv[2] = path;
	argv[3] = flag;
	argv[4] = NULL;
	return flag != NULL ? 4 : 3;
}

/* What both programs say about a file, without its path; "" when they take it. */
static const char *
complaint(bool hub, const char *file)
{
	static struct err err;
	struct agent_options a = {0};
	struct hub_options h = {0};
	char *argv[5], path[64];
	int argc = make_argv(argv, path, file, NULL);
	enum opt_result result;
	bool check;

	memset(&err, 0, sizeof err);
	result = hub ? hub_options_load(&h, argc, argv, &check, &err)
		     : agent_options_load(&a, argc, argv, &check, &err);
	unlink(path);
	agent_options_free(&a);
	hub_options_free(&h);
	assert_int_equal(result, err.text[0] == '\0' ? OPT_RUN : OPT_EXIT_BAD);
	return strncmp(err.text, path, strlen(path)) == 0 ? err.text + strlen(path) : err.text;
}

/* The complaint must begin with `want`, which names line and key. */
static void
refuses(bool hub, const char *file, const char *want)
{
	const char *said = complaint(hub, file);

	if (strncmp(said, want, strlen(want)) != 0)
		fail_msg("\"%s\" gives \"%s\", not \"%s\"", file, said, want);
}

static void
agent(const char *file, const char *want)
{
	refuses(false, file, want);
}

static void
hub(const char *file, const char *want)
{
	auto_free char *whole = xasprintf("%s\nsource: {manifests: /m}\n", file);

	refuses(true, whole, want);
}

static void
takes(bool is_hub, const char *file)
{
	assert_string_equal(complaint(is_hub, file), "");
}

static void
only_the_agent_restores(void **state)
{
	struct agent_options a = {0}, plain = {0};
	struct hub_options h = {0};
	char *argv[] = {(char *)(uintptr_t) "edgeway", (char *)(uintptr_t) "--restore", NULL};
	struct err err = {0};
	bool check;

	(void)state;
	assert_int_equal(agent_options_load(&a, 2, argv, &check, &err), OPT_RUN);
	assert_true(opt_action(&a));
	assert_false(check);
	agent_options_free(&a);
	unsetenv("EDGEWAY_HUB_URL"); /* needs no hub */
	assert_int_equal(agent_options_load(&a, 2, argv, &check, &err), OPT_RUN);
	agent_options_free(&a);
	setenv("EDGEWAY_HUB_URL", HUB, 1);
	assert_int_equal(agent_options_load(&plain, 1, argv, &check, &err), OPT_RUN);
	assert_false(opt_action(&plain));
	agent_options_free(&plain);
	assert_int_equal(hub_options_load(&h, 2, argv, &check, &err), OPT_EXIT_BAD);
	hub_options_free(&h);
}

static void
agent_has_the_contract_s_defaults(void **state)
{
	struct agent_options o = {0};
	char *argv[] = {(char *)(uintptr_t) "edgeway-agent", NULL};
	struct err err = {0};
	bool check;

	(void)state;
	setenv("NODE_NAME", "edge-7", 1);
	assert_int_equal(agent_options_load(&o, 1, argv, &check, &err), OPT_RUN);
	unsetenv("NODE_NAME");
	assert_string_equal(o.node, "edge-7");
	assert_string_equal(o.data_dir, "/var/lib/edgeway");
	assert_string_equal(o.mesh_interface, "auto");
	assert_string_equal(o.bridge, "docker0");
	assert_int_equal(o.own, IPTABLES_OWN_INSTEAD);
	assert_string_equal(o.pod_interfaces[0], "cni0");
	assert_string_equal(o.pod_interfaces[o.n_pod_bridges], "edgeway0");
	assert_int_equal(o.mesh_subnet.address, 0x09fb0000);
	assert_string_equal(o.mesh_cluster_domain, "cluster.local");
	assert_int_equal(o.mesh_listen_port, 40001);
	assert_int_equal(o.mesh_catch_cluster_ips, CATCH_AUTO);
	assert_int_equal(o.mesh_datapath, MESH_DATAPATH_PROXY);
	assert_int_equal(o.mesh_workers, 0);
	assert_int_equal(o.dns_port, 53);
	assert_int_equal(o.dns_ttl, 30);
	assert_true(o.dns_manage_resolv_conf);
	assert_int_equal(o.dns_capture, CAPTURE_UPSTREAMS);
	assert_int_equal(agent_options_policy(&o), LB_LEAST_REQUEST);
	assert_int_equal(o.hub_heartbeat, 4000);
	assert_int_equal(o.hub_protocol, PROTOCOL_EDGEWAY);
	assert_true(o.tunnel_enabled);
	assert_int_equal(o.tunnel_carrier, CARRIER_TLS);
	assert_string_equal(o.tunnel_allow[2], "services");
	assert_string_equal(o.admin_listen, "127.0.0.1:40002");
	assert_string_equal(o.admin_socket, "/run/edgeway/agent.sock");
	assert_int_equal(o.drain_timeout, 10000);
	assert_int_equal(o.on_stop, ON_STOP_RESTORE);
	agent_options_free(&o);
	agent_options_free(&o); /* harmless */
}

static void
agent_takes_every_key_of_the_contract(void **state)
{
	(void)state;
	takes(false,
		"node: edge-1\ndataDir: /var/lib/edgeway\nmesh:\n  interface: docker0\n  "
		"interfaces: [br-*]\n"
		"  address: \"\"\n  subnet: 9.251.0.0/16\n  clusterDomain: cluster.local\n  "
		"listenPort: 40001\n"
		"  catchClusterIPs: true\n  datapath: kernel\n  workers: 64\n"
		"dns: {port: 53, ttl: 30, upstreams: [192.0.2.1, '[2001:db8::1]:53'], resolvConf: "
		"/etc/resolv.conf,\n"
		"  manageResolvConf: true, capture: upstreams}\nlb: {policy: consistent-hash, "
		"accessLog: errors, accessLogSample: 1000000}\n"
		"hub: {url: \"wss://hub:10000\", ca: /ca, cert: /c, key: /k, token: " TOKEN
		", nodeId: n,\n"
		"  heartbeat: 4s, carrierCA: /ca, proxy: 'http://u:p@proxy:3128', protocol: "
		"cloudhub}\n"
		"tunnel: {enabled: true, carrier: websocket, reach: [192.168.0.0/16],\n"
		"  allow: ['!node:10255', node, 'node:*', 'node:1-9', pods, services, "
		"10.0.0.0/8]}\n"
		"admin: {listen: \"127.0.0.1:40002\", socket: /run/edgeway/agent.sock}\n"
		"log: {level: info, format: json}\ndrainTimeout: 10s\nonStop: keep\n");
}

static void
agent_names_key_and_remedy(void **state)
{
	(void)state;
	agent("node: Edge_1", ":1: node: \"Edge_1\" cannot name a node");
	agent("dataDir: lib", ":1: dataDir: expected a full path");
	agent("mesh: {interface: ''}", ":1: mesh.interface: expected the name of an interface");
	agent("hub: {url: 'wss://h', protocol: cloudhub, ca: /ca, cert: /c, key: /k}",
		"hub.nodeId: a CloudHub serves one connection a node id");
	agent("hub: {url: 'wss://h', protocol: cloudhub, nodeId: n}",
		"hub.cert: a CloudHub gives no certificate");
	agent("mesh: {interface: averyverylongname}",
		":1: mesh.interface: expected the name of an interface");
	agent("mesh:\n  clusterDomain: Cluster.local",
		":2: mesh.clusterDomain: \"Cluster.local\" is not a domain");
	agent("mesh: {clusterDomain: cluster.local.}", ":1: mesh.clusterDomain: ");
	agent("mesh: {address: 172.17.0.256}", ":1: mesh.address: expected an IPv4 address");
	agent("mesh: {address: 9.251.0.9}", ":1: mesh.address: 9.251.0.9 lies in mesh.subnet");
	agent("mesh: {subnet: 9.251.0.0/25}", ":1: mesh.subnet: the prefix must be from /8 to /24");
	agent("mesh: {subnet: 8.0.0.0/7}", ":1: mesh.subnet: the prefix must be from /8 to /24");
	agent("mesh: {subnet: 127.0.0.0/8}", ":1: mesh.subnet: this range cannot be routed");
	agent("mesh: {workers: 65}", ":1: mesh.workers: expected a whole number from 0 to 64");
	agent("mesh: {listenPort: 53}", ":1: mesh.listenPort: is the same as dns.port");
	agent("dns: {upstreams: [ns.example]}",
		":1: dns.upstreams: \"ns.example\" is not a server");
	agent("dns: {resolvConf: resolv.conf}", ":1: dns.resolvConf: expected a full path");
	takes(false, "dns: {resolvConf: '', manageResolvConf: false}");
	agent("lb: {policy: fastest}", ":1: lb.policy: expected one of round-robin|");
	agent("hub: {heartbeat: 50ms}", ":1: hub.heartbeat: expected a time from 100ms to 5m");
	agent("hub: {cert: /x}", ":1: hub.cert: needs hub.key as well");
	agent("hub: {key: /x}", ":1: hub.key: needs hub.cert as well");
	agent("hub: {nodeId: a b}", ":1: hub.nodeId: ");
	agent("hub: {proxy: socks5://x}", ":1: hub.proxy: expected http://");
	agent("hub: {proxy: 'http://u:p%4@x'}",
		":1: hub.proxy: user and password are too long or ");
	agent("hub: {proxy: 'http://x.svc.cluster.local:1'}",
		":1: hub.proxy: its name lies in the ");
	takes(false, "hub: {proxy: 'http://u:p%40@x:3128'}");
	takes(false, "mesh: {direct: nat}");
	agent("mesh: {direct: all}", ":1: mesh.direct: ");
	agent("mesh: {direct: nat, peerPort: 0}", ":1: mesh.direct: nat needs mesh.peerPort");
	agent("mesh: {direct: nat}\ntunnel: {enabled: false}", ":1: mesh.direct: nat needs ");
	agent("mesh: {direct: nat}\ntunnel: {carrier: websocket}",
		":1: mesh.direct: nat needs a way to the hub without hub.proxy");
	agent("hub: {proxy: 'http://x:3128'}\nmesh: {direct: nat}",
		":2: mesh.direct: nat needs a way to the hub without hub.proxy");
	agent("tunnel: {allow: [everything]}", ":1: tunnel.allow: \"everything\": want [!]node, ");
	agent("tunnel: {apiserver: true, enabled: false}",
		":1: tunnel.apiserver: needs tunnel.enabled");
	agent("tunnel: {allow: ['node:']}", ":1: tunnel.allow: ");
	agent("tunnel: {reach: [10.0.0.0/33]}", ":1: tunnel.reach: ");
	agent("tracing: {endpoint: 'grpc://c:4317'}", ":1: tracing.endpoint: expected http://");
	agent("tracing: {endpoint: 'http://u:s3cret@c'}",
		":1: tracing.endpoint: user and password");
	agent("tracing: {endpoint: 'http://c', headers: [key]}",
		":1: tracing.headers: expected NAME");
	agent("tracing: {sample: 1.1}", ":1: tracing.sample: \"1.1\" is no share");
	agent("tracing: {sample: -0.1}", ":1: tracing.sample: ");
	agent("tracing: {sample: 1%}", ":1: tracing.sample: ");
	agent("tracing: {sample: nan}", ":1: tracing.sample: ");
	agent("tracing: {sample: 1e-1}", ":1: tracing.sample: ");
	agent("tracing: {sample: .}", ":1: tracing.sample: ");
	agent("tracing: {limit: 0}", ":1: tracing.limit: ");
	takes(false, "tracing: {endpoint: 'http://c', sample: 0.01, headers: ['a=b']}");
	agent("admin: {socket: x.sock}", ":1: admin.socket: expected a full path");
}

static void
agent_checks_the_hub_s_url(void **state)
{
	static const char *const bad[] = {"ws://hub:1", "hub:10000", "wss://", "wss://hub:0",
		"wss://hub:65536", "wss://hub:1/path", "wss://hub:x", "wss://h ub", "wss://[::1",
		"wss://:1", "wss://[1.2.3.4]:5"};

	(void)state;
	unsetenv("EDGEWAY_HUB_URL");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *file = xasprintf("hub: {url: [\"wss://ok\", \"%s\"]}", bad[i]);
		auto_free char *want =
			xasprintf(":1: hub.url: \"%s\": expected wss://HOST[:PORT]", bad[i]);

		agent(file, want);
	}
	agent("hub: {url: []}",
		":1: hub.url: is not set: say where the hub is, such as wss://HOST:10000");
	agent("node: n\nhub:\n  url: \"\"\n", ":3: hub.url: is not set: ");
	agent("node: n\n", "hub.url: is not set: ");
	agent("hub: {url: 'wss://hub.default.svc.cluster.local'}",
		":1: hub.url: \"wss://hub.default.svc.cluster.local\" lies in the cluster domain");
	agent("hub: {url: 'wss://hub.CLUSTER.local.:10000'}", ":1: hub.url: ");
	takes(false, "hub: {url: 'wss://hub.notcluster.local'}");
	setenv("EDGEWAY_HUB_URL", HUB, 1);
}

static void
agent_completes_the_hub_s_url(void **state)
{
	struct agent_options o = {0};
	char *argv[5], path[64];
	struct err err = {0};
	bool check;
	int argc = make_argv(
		argv, path, "hub: {url: 'wss://a,wss://b:1/,wss://[::1],wss://[::1]:2'}", NULL);

	(void)state;
	unsetenv("EDGEWAY_HUB_URL");
	assert_int_equal(agent_options_load(&o, argc, argv, &check, &err), OPT_RUN);
	setenv("EDGEWAY_HUB_URL", HUB, 1);
	unlink(path);
	assert_string_equal(o.hub_url[0], "wss://a:10000");
	assert_string_equal(o.hub_url[1], "wss://b:1");
	assert_string_equal(o.hub_url[2], "wss://[::1]:10000");
	assert_string_equal(o.hub_url[3], "wss://[::1]:2");
	assert_null(o.hub_url[4]);
	agent_options_free(&o);
}

static void
agent_never_says_the_token(void **state)
{
	const char *said = complaint(false, "hub: {token: 0123456789abcdef.verysecret}");

	(void)state;
	assert_non_null(strstr(said, "hub.token: not a token"));
	assert_null(strstr(said, "verysecret"));
	/* a pipeline makes it of a Secret that was not there yet */
	said = complaint(false,
		"hub: {token: "
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.approval}");
	assert_non_null(strstr(said, "hub.token: the hash is that of no CA"));
}

static void
node_name_comes_from_key_then_variable(void **state)
{
	struct agent_options o = {0};
	char *argv[5], path[64], flag[] = "--node=from-flag";
	struct err err = {0};
	bool check;
	int argc;

	(void)state;
	setenv("NODE_NAME", "from-variable", 1);
	argc = make_argv(argv, path, "node: from-file\n", flag);
	assert_int_equal(agent_options_load(&o, argc, argv, &check, &err), OPT_RUN);
	assert_string_equal(o.node, "from-flag");
	agent_options_free(&o);
	assert_int_equal(agent_options_load(&o, 3, argv, &check, &err), OPT_RUN);
	assert_string_equal(o.node, "from-file");
	agent_options_free(&o);
	assert_int_equal(agent_options_load(&o, 1, argv, &check, &err), OPT_RUN);
	assert_string_equal(o.node, "from-variable");
	agent_options_free(&o);
	unsetenv("NODE_NAME");
	unlink(path);
}

static void
hub_takes_every_key_of_the_contract(void **state)
{
	(void)state;
	takes(true,
		"listen: 0.0.0.0:10000\nsource: {manifests: /m}\n"
		"tls: {cert: /c, key: /k, ca: /a, caKey: /b, names: [hub.example, 192.0.2.1, "
		"'2001:db8::1']}\n"
		"dataDir: /var/lib/edgeway-hub\ningress:\n  http: 0.0.0.0:10080\n"
		"  egress: {listen: 'unix:/run/e.sock', cert: /c, key: /k, clientCA: /a}\n"
		"  tls: [{listen: '0.0.0.0:443', target: '127.0.0.1:10250', cert: /c, key: /k, "
		"clientCert: /x}]\n"
		"  tcp: [{listen: '127.0.0.1:22', node: edge-1, target: '127.0.0.1:22'},\n"
		"    {listen: '127.0.0.1:80', service: default/web}]\n"
		"  udp: []\n  redirect: {listen: '0.0.0.0:10', ports: [10250, '10255-10260']}\n"
		"  dns: nodes.example\n  hostsConfigMap: ns/name\n"
		"access: [{from: 10.0.0.0/8, to: ['node:10250', '*']}, {from: ops, to: web}]\n"
		"peers: [hub-1:10000, hub-2]\nadmin: {listen: \"127.0.0.1:10012\", socket: "
		"/run/edgeway/hub.sock}\n"
		"log: {level: info, format: text}\ndrainTimeout: 10s\n");
	takes(true, "source: {kubernetes: {kubeconfig: ''}}\npeers: hubs.example\n");
	takes(true, "source: {kubernetes: {}}\n");
	takes(true, "source:\n  kubernetes:\n");
}

/* What names of edge nodes mean has to be clear: said, or the one address that the ingress listens
 * on. */
#define ANYBODY "access: [{from: 10.0.0.0/8, to: ['*']}]\n"

static void
hub_ok(const char *file)
{
	auto_free char *whole = xasprintf("%s\nsource: {manifests: /m}\n", file);

	takes(true, whole);
}

static void
hub_exports_spans(void **state)
{
	(void)state;
	hub_ok("tracing: {endpoint: 'http://c:4318', sample: 0.01, limit: 5, headers: [a=b]}");
	hub("tracing: {endpoint: 'grpc://c:4317'}", ":1: tracing.endpoint: expected http://");
	hub("tracing: {endpoint: 'http://c', headers: [key]}",
		":1: tracing.headers: expected NAME");
	hub("tracing: {sample: 2}", ":1: tracing.sample: \"2\" is no share");
	hub("tracing: {headers: [a=b], headersFile: /x}", ":1: tracing.headersFile: ");
}

static void
hub_knows_what_node_names_mean(void **state)
{
	(void)state;
	hub_ok("ingress: {dns: nodes.example}");
	hub_ok("ingress: {dns: nodes.example, http: '0.0.0.0:10080', dnsListen: ''}\n" ANYBODY);
	hub_ok("ingress: {dns: nodes.example, dnsListen: '0.0.0.0:53', http: '0.0.0.0:10080', "
	       "nodeAddresses: [192.0.2.1, '2001:db8::1']}\n" ANYBODY);
	hub_ok("ingress: {dns: nodes.example, dnsListen: '127.0.0.1:53', nodeAddresses: "
	       "edgeway/ingress}");
	hub_ok("ingress: {dns: nodes.example, dnsListen: '0.0.0.0:53', http: '192.0.2.1:80', "
	       "tls: [{listen: '192.0.2.1:443', target: 10250}, {listen: '127.0.0.1:443', "
	       "target: 10250}]}\n" ANYBODY);
	hub("ingress: {dns: nodes.example, dnsListen: '0.0.0.0:53', http: '0.0.0.0:80'}\n" ANYBODY,
		":1: ingress.dnsListen: say in ingress.nodeAddresses");
	hub("ingress: {dns: nodes.example, dnsListen: '0.0.0.0:53', http: '192.0.2.1:80', "
	    "tls: [{listen: '192.0.2.2:443', target: 10250}]}\n" ANYBODY,
		":1: ingress.dnsListen: say in ingress.nodeAddresses");
	hub("ingress: {dns: nodes.example, dnsListen: '0.0.0.0:53', http: ''}",
		":1: ingress.dnsListen: say in ingress.nodeAddresses");
	hub("ingress: {nodeAddresses: [192.0.2.1, hub.example]}",
		":1: ingress.nodeAddresses: \"hub.example\": expected an address");
	hub("ingress: {nodeAddresses: [edgeway/a, edgeway/b]}",
		":1: ingress.nodeAddresses: expected one Service");
	hub("ingress: {nodeAddresses: [0.0.0.0]}", ":1: ingress.nodeAddresses: \"0.0.0.0\"");
	hub("ingress: {dnsListen: '0.0.0.0:53'}", ":1: ingress.dnsListen: set ingress.dns as well");
	hub_ok("ingress: {dns: a.b, dnsListen: '[::]:53', nodeAddresses: 192.0.2.1, http: ''}");
	hub("ingress: {dns: a.b, dnsListen: 'unix:/x'}", ":1: ingress.dnsListen: expected ADDRESS");
	hub("ingress: {dns: Nodes.Example}", ":1: ingress.dns: \"Nodes.Example\" is not a domain");
	hub("ingress: {dnsTtl: 0}", ":1: ingress.dnsTtl: expected a whole number from 1 to 3600");
	hub("ingress: {hostsConfigMap: nodes}",
		":1: ingress.hostsConfigMap: \"nodes\": expected "
		"NAMESPACE/NAME");
	hub("ingress: {hostsConfigMap: a/b, hostsKey: 'a/b'}",
		":1: ingress.hostsKey: \"a/b\" is not");
	refuses(true,
		"source: {kubernetes: {}}\ningress: {hostsConfigMap: a/b, http: "
		"'0.0.0.0:80'}\n" ANYBODY,
		":2: ingress.hostsConfigMap: say in ingress.nodeAddresses");
	takes(true,
		"source: {kubernetes: {}}\ningress: {hostsConfigMap: a/b.c, hostsKey: hosts}\n");
}

static void
hub_names_key_and_remedy(void **state)
{
	(void)state;
	refuses(true, "", "source.manifests: say where Services come from");
	refuses(true, "source: {manifests: ''}",
		":1: source.manifests: say where Services come from");
	refuses(true, "source:\n  manifests: /m\n  kubernetes: {}\n",
		":2: source.manifests: Services come from one");
	hub("listen: ''", ":1: listen: expected IP:PORT");
	hub("listen: unix:/x", ":1: listen: expected IP:PORT");
	hub("dataDir: x", ":1: dataDir: expected a full path");
	hub("tls: {cert: /x}", ":1: tls.cert: needs tls.key as well");
	hub("tls: {caKey: /x}", ":1: tls.caKey: needs tls.ca as well");
	takes(true,
		/* nodes' certificates made elsewhere */
		"tls: {ca: /x}\nsource: {manifests: /m}\n");
	hub("tls: {names: [a_b]}", ":1: tls.names: \"a_b\" is neither");
	hub("peers: ['a:b']", ":1: peers: \"a:b\": expected HOST or HOST:PORT");
	hub("admin: {socket: x}", ":1: admin.socket: ");
	hub("ingress: {http: 0.0.0.0:10080}",
		":1: ingress.http: 0.0.0.0:10080 can be reached by others");
	takes(true, "ingress: {http: ''}\nsource: {manifests: /m}\n");
}

static void
hub_reads_ports_of_the_redirect(void **state)
{
	static const struct {
		const char *yaml;
		uint32_t ports[5];
		size_t n;
	} rows[] = {
		{"", {10250, 10255}, 2},
		{", ports: 443", {443}, 1},
		{", ports: [10255, 10250, 10250-10252]", {10250, 10251, 10252, 10255}, 4},
		{", ports: [9, 1-3, 2, '3-4']", {1, 2, 3, 4, 9}, 5},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *yaml = xasprintf("source: {manifests: /m}\ningress: {redirect: "
						 "{listen: '127.0.0.1:10260'%s}}\n",
			rows[i].yaml);
		struct hub_options o = {0};
		struct hub_redirect r;
		char *argv[5], path[64];
		int argc = make_argv(argv, path, yaml, NULL);
		struct err err = {0};
		bool check = false;

		if (hub_options_load(&o, argc, argv, &check, &err) != OPT_RUN)
			fail_msg("%s: %s", yaml, err.text);
		unlink(path);
		assert_int_equal(hub_options_redirect(&o, &r, NULL), 0);
		assert_true(r.on);
		assert_int_equal(addr_port(&r.listen), 10260);
		assert_int_equal(r.n_ports, rows[i].n);
		for (size_t k = 0; k < r.n_ports; k++)
			assert_int_equal(r.ports[k], rows[i].ports[k]);
		hub_options_free(&o);
	}
}

static void
hub_checks_structured_keys(void **state)
{
	(void)state;
	hub("ingress:\n  egress:\n    cert: /c\n    key: /k\n",
		":2: ingress.egress: listen is missing");
	hub("ingress:\n  egress:\n    listen: 127.0.0.1:1\n    cert: /c\n",
		":2: ingress.egress: cert and key");
	hub("ingress:\n  egress: {listen: '127.0.0.1:1', clientCA: /c}\n",
		":2: ingress.egress: clientCA: needs cert and key");
	hub("ingress:\n  egress: {listen: '0.0.0.0:1', cert: /c, key: /k}\n",
		":2: ingress.egress: 0.0.0.0:1 can be reached by others");
	takes(true,
		"ingress: {egress: {listen: '0.0.0.0:1', cert: /c, key: /k, clientCA: /a}}\n"
		"source: {manifests: /m}\n");
	hub("ingress:\n  tls:\n  - {listen: '127.0.0.1:1', target: 10250, clientCert: /c}\n",
		":3: ingress.tls: clientCert: needs cert and key");
	hub("ingress:\n  tcp:\n  - {listen: '[::]:1', service: a.b:80}\n",
		":3: ingress.tcp: [::]:1 can be reached by others");
	hub("ingress: {egress: [1]}", ":1: ingress.egress: expected a map with listen");
	hub("ingress:\n  tls:\n  - target: x\n    listen: nowhere\n",
		":4: ingress.tls: listen: expected an address");
	hub("ingress: {tls: {listen: x}}", ":1: ingress.tls: expected a list of maps");
	hub("ingress:\n  tcp:\n  - listen: 127.0.0.1:1\n    nodes: a\n",
		":4: ingress.tcp: unknown key \"nodes\"");
	hub("ingress:\n  tcp:\n  - listen: 127.0.0.1:1\n",
		":3: ingress.tcp: an entry has either node or service");
	hub("ingress:\n  udp:\n  - {listen: '127.0.0.1:1', node: a}\n",
		":3: ingress.udp: target is missing");
	hub("ingress:\n  udp:\n  - {listen: 'unix:/run/a', service: 'a.b:53'}\n",
		":3: ingress.udp: listen: expected IP:PORT");
	hub("ingress:\n  udp:\n  - {listen: '0.0.0.0:53', service: 'a.b:53'}\n",
		":3: ingress.udp: 0.0.0.0:53 can be reached by others");
	hub("ingress: {redirect: {listen: '127.0.0.1:1', ports: [0]}}",
		":1: ingress.redirect: ports: expected ports");
	hub("ingress: {redirect: {listen: '127.0.0.1:1', ports: [20-10]}}",
		":1: ingress.redirect: ports: 20-10 ends before it begins");
	hub("ingress: {redirect: {listen: '127.0.0.1:1', ports: [1-257]}}",
		":1: ingress.redirect: ports: more than 256");
	hub("ingress: {redirect: {listen: 'unix:/run/r.sock'}}",
		":1: ingress.redirect: listen: expected an IP address");
	hub("ingress:\n  redirect: {listen: '192.0.2.1:1'}",
		":2: ingress.redirect: 192.0.2.1:1 can be reached by others");
	hub("ingress:\n  redirect: {listen: '[::]:1'}",
		":2: ingress.redirect: [::]:1 can be reached by others");
	hub("ingress: {redirect: {listen: '127.0.0.1:1', ports: [1-x]}}",
		":1: ingress.redirect: ports: ");
	hub("access:\n- to: ['*']\n", ":2: access: from is missing");
	hub("access:\n- from: a\n  to: {b: c}\n", ":3: access: to: expected a list of texts");
	hub("access:\n- from: a\n  to:\n  - '*'\n  - site/\n",
		":5: access: \"site/\": expected *, NODE[:PORTS], ");
	hub("access:\n- {from: 'cert:', to: ['*']}\n",
		":2: access: \"cert:\": expected a network, ");
}

/* Beyond this machine the page has TLS, and somebody whom a rule lets in by its own word, or a CA
 * of callers. */
static void
hub_shows_its_page_to_nobody_by_mistake(void **state)
{
#define PAIR "cert: /c, key: /k"
	(void)state;
	hub_ok("web: {listen: '127.0.0.1:10014'}");
	hub_ok("web: {listen: '[::1]:10014', names: [hub.example.org], viewers: 3}");
	hub_ok("web: {listen: 'unix:/run/page.sock'}");
	hub_ok("web: {listen: '0.0.0.0:10014', " PAIR ", clientCA: /ca}");
	hub_ok("web: {listen: '0.0.0.0:10014', " PAIR "}\n"
	       "access: [{from: ann, to: ['hub:web']}]");
	hub("web: {listen: '0.0.0.0:10014'}\naccess: [{from: ann, to: ['hub:web']}]",
		":1: web.listen: 0.0.0.0:10014 can be reached by others: set web.cert");
	hub("web: {listen: '0.0.0.0:10014', " PAIR "}",
		":1: web.listen: 0.0.0.0:10014 can be reached by others: say in access");
	hub("web: {listen: '0.0.0.0:10014', " PAIR "}\n" ANYBODY,
		":1: web.listen: 0.0.0.0:10014 can be reached by others: say in access");
	hub("web: {listen: '127.0.0.1:1', cert: /c}", ":1: web.cert: needs web.key as well");
	hub("web: {listen: '127.0.0.1:1', clientCA: /ca}",
		":1: web.clientCA: needs web.cert and web.key");
	hub("web: {names: ['*']}", ":1: web.names: \"*\" is not a DNS name");
	hub("web: {viewers: 0}", ":1: web.viewers: ");
#undef PAIR
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agent_has_the_contract_s_defaults),
		cmocka_unit_test(only_the_agent_restores),
		cmocka_unit_test(agent_takes_every_key_of_the_contract),
		cmocka_unit_test(agent_names_key_and_remedy),
		cmocka_unit_test(agent_checks_the_hub_s_url),
		cmocka_unit_test(agent_completes_the_hub_s_url),
		cmocka_unit_test(agent_never_says_the_token),
		cmocka_unit_test(node_name_comes_from_key_then_variable),
		cmocka_unit_test(hub_takes_every_key_of_the_contract),
		cmocka_unit_test(hub_exports_spans),
		cmocka_unit_test(hub_knows_what_node_names_mean),
		cmocka_unit_test(hub_names_key_and_remedy),
		cmocka_unit_test(hub_reads_ports_of_the_redirect),
		cmocka_unit_test(hub_checks_structured_keys),
		cmocka_unit_test(hub_shows_its_page_to_nobody_by_mistake),
	};

	setenv("EDGEWAY_HUB_URL", HUB, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
