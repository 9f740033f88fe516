#include <string.h>

#include "meta/client/hub_client_private.h"

/* The text of base/tls/pki_tls for this TLS alert (RFC 8446 section 6.2). */
static const char alert_expired[] = "refused the TLS connection: certificate expired";

#define HUB_CLIENT_CLOCK                                                                           \
	"set this machine's clock (chrony, systemd-timesyncd; `date` shows it): certificates are " \
	"made by the hub's; where it is right, look at the hub's certificate and clock"
#define HUB_CLIENT_TOKEN                                                                           \
	"make a token with `edgewayctl token create --node NODE` at the hub and set hub.token; "   \
	"the hub's log (`join refused`) tells whether it is unknown, expired, used up or "         \
	"another node's"

#define HUB_CLIENT_MTU                                                                             \
	"try a smaller MTU on the uplink (ip link set dev UPLINK mtu 1300), or let the router "    \
	"clamp the MSS and pass ICMP `fragmentation needed`"

#define HUB_CLIENT_BARRED "barred by this machine"

/* The first row whose words occur in the error applies. They come from base/http/ws*,
 * base/tls/pki_tls, base/http/proxy and the kernel. */
static const struct hub_client_cause causes[] = {
	{"Connection refused", "hub-refused",
		"nothing listens there: does the hub run, is the port of hub.url the hub's "
		"`listen`, "
		"and does nothing on the way reject it?"},
	{WS_REFUSED_OR_UNREACHABLE, "hub-away",
		"in a moment it is known which of both; does the hub run, and does a way lead "
		"there?"},
	{HUB_CLIENT_BARRED, "hub-unreachable",
		"a rule of this machine lets nothing out to that address: a route (ip route get "
		"ADDRESS, blackhole or prohibit), a policy rule (ip rule), or a firewall's output "
		"chain"},
	{"unreachable", "hub-unreachable",
		"no way leads there, a firewall rejects it, or that machine is down: is the uplink "
		"up (ip route get ADDRESS), does the address answer ping?"},
	{"No route to host", "hub-unreachable",
		"no way leads there, or that machine is down: ip route get ADDRESS, and ping it"},
	{"no answer to the connection's first packet", "hub-silent",
		"a firewall on the way drops what goes to that port (outgoing TCP to the hub's "
		"port "
		"must be let out), the address is wrong, or that machine is down"},
	{"larger packets do not get there", "hub-mtu", HUB_CLIENT_MTU},
	{"does not answer the TLS", "hub-frozen",
		"who listens there is no hub, or hangs: look at the hub's log and processes; a "
		"load balancer in front must pass TLS through (L4). Or large packets get lost "
		"on the way: " HUB_CLIENT_MTU},
	{"does not speak TLS", "hub-no-tls",
		"is it the hub's port (`listen` of the hub)? Another program, such as ssh or a web "
		"server, answers there"},
	{"not valid yet", "hub-clock", HUB_CLIENT_CLOCK},
	{"has expired (or", "hub-clock", HUB_CLIENT_CLOCK},
	{"certificate expired", "certificate-expired", HUB_CLIENT_TOKEN},
	{"not signed by the CA that we trust", "hub-ca",
		"this node trusts another CA than the hub's: take hub.ca, or a token, from this "
		"very "
		"hub; where the hub is not new, somebody else may answer at that address"},
	{"the CA of the join token is not in its chain", "hub-ca",
		"the token is of another hub: make one with `edgewayctl token create` at the hub "
		"that hub.url names"},
	{"unknown CA", "hub-ca",
		"the hub trusts another CA than the one that signed this node's certificate: join "
		"again with a token of this hub"},
	{"not made for the name", "hub-name",
		"hub.url must use a name or address of the hub's certificate: tls.names at the "
		"hub"},
	{"status 401", "hub-token", HUB_CLIENT_TOKEN},
	{"refused to sign", "hub-token", HUB_CLIENT_TOKEN},
	{"status 403", "hub-certificate",
		"the certificate is of another node, or the name is taken: make a token with "
		"`edgewayctl token create --node NODE` at the hub and join again"},
	{"status 410", "certificate-revoked", HUB_CLIENT_TOKEN},
	{"status 426", "hub-protocol", "upgrade the older one of agent and hub"},
	{"asks to come again", "hub-busy",
		"many nodes come to the hub at once: this one comes again by itself, and serves "
		"what it knows until then"},
	{"status 503", "hub-busy", "the hub says that it cannot serve now: see its status"},
	{"waits for approval", "hub-approval",
		"kubectl certificate approve, or a token in hub.token"},
	{"cannot resolve", "hub-unresolved",
		"ask the upstreams for the name of hub.url by hand (dig @UPSTREAM NAME); it is "
		"never "
		"asked of the mesh itself"},
	{"proxy", "hub-proxy",
		"see hub.proxy: does the proxy run, and does it allow CONNECT to the hub's port?"},
	{"a newer connection of this node", "hub-twin",
		"another machine uses this node's certificate (a copied disk), or an agent of "
		"before still runs: the hub's log names both addresses. Join the copy under a "
		"name of its own: dataDir emptied, a new token"},
	{"though its machine acknowledges", "hub-lost",
		"the hub hangs: look at its log and processes. Or large packets from there get "
		"lost on the way: " HUB_CLIENT_MTU},
	{"no sign of life", "hub-lost",
		"the connection went dead: the hub's machine, or the way to it, is down or frozen"},
	{"", "hub-away",
		"the node serves what it knows; check the way (curl -k to hub.url) and the hub's "
		"log"},
};

const struct hub_client_cause *
hub_client_cause(const char *why)
{
	const struct hub_client_cause *c = causes;

	/* As connect says it of a route of type blackhole or prohibit, and of an output filter. */
	if (strncmp(why, "cannot connect to ", 18) == 0 &&
		(strstr(why, "Invalid argument") != NULL ||
			strstr(why, "Permission denied") != NULL ||
			strstr(why, "Operation not permitted") != NULL))
		why = HUB_CLIENT_BARRED;
	while (strstr(why, c->words) == NULL)
		c++;
	return c;
}

bool
hub_client_is_twin(const struct hub_client *f)
{
	return f->cause != NULL && strcmp(f->cause->problem, "hub-twin") == 0;
}

bool
hub_client_end_is_planned(const char *why)
{
	/* Service Restart (hub/sync/nodes.c), which libwebsockets 4.1 reports as 1002. */
	return strncmp(why, "the peer closed it: ", 20) == 0 &&
		(strstr(why, "(1012)") != NULL || strstr(why, "(1002)") != NULL);
}

bool
hub_client_certificate_refused(const char *why)
{
	return strstr(why, "status 410") != NULL || strstr(why, alert_expired) != NULL;
}

const char *
hub_client_remedy(const struct hub_client *f, const char *why)
{
	if (strstr(why, "status 401") != NULL && hub_client_by_approval(f))
		return "the hub takes no node without a token: set join.approval on the hub, or "
		       "make a token with `edgewayctl token create`";
	if (strstr(why, "status 401") != NULL)
		return "the hub refused the token (wrong or expired): make one with `edgewayctl "
		       "token create` on the "
		       "hub and set hub.token";
	if (strstr(why, "status 403") != NULL && f->joining)
		return "the hub has a certificate for this node's name already: make a token with "
		       "`edgewayctl token "
		       "create --node NAME` on the hub, or bring back node.crt and node.key";
	if (strstr(why, "status 403") != NULL)
		return "the hub refused this node's certificate: its name is not the node's; join "
		       "again with a token";
	if (strstr(why, "status 410") != NULL)
		return f->has_token
			? "the hub says that this node's certificate was revoked; joining again "
			  "with hub.token"
			: "the hub says that this node's certificate was revoked: make a token "
			  "with `edgewayctl token create --node NAME` on the hub and set hub.token";
	if (strstr(why, "status 426") != NULL)
		return "the hub speaks another protocol than this agent: upgrade the older one of "
		       "the two";
	if (!f->joining && (hub_client_expired(f) || strstr(why, alert_expired) != NULL))
		return f->has_token
			? "this node's certificate has expired; joining again with hub.token"
			: "this node's certificate has expired: make a token with `edgewayctl "
			  "token "
			  "create --node NAME` on the hub and set hub.token";
	return NULL;
}
