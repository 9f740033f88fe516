/*
 * A service as the data path sees it: immutable once built, atomically reference-counted, one
 * allocation. A node's service_build() makes it from the hub's view (model/view.h), the node's own
 * identity and the fake IP, so that every endpoint already has the address that THIS node dials.
 * Any thread may read it while it holds a reference or a snapshot that holds it.
 */
#ifndef EDGEWAY_MODEL_SERVICE_H
#define EDGEWAY_MODEL_SERVICE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/sock.h"

struct allow_caller;
struct allow_from;
struct http_routes;
struct backend_tls;

enum port_mode {
	PORT_HTTP, /* HTTP/1.x, balanced per request */
	PORT_TCP, /* relayed */
	PORT_UDP, /* kernel data path; the tunnel, where only the hub reaches the endpoints */
};

enum lb_policy {
	LB_DEFAULT, /* the node's configuration */
	LB_ROUND_ROBIN,
	LB_RANDOM,
	LB_LEAST_REQUEST,
	LB_EWMA,
	LB_CONSISTENT_HASH,
};

/* Input of LB_CONSISTENT_HASH: the client's address, or the header field or cookie named by
 * hash_key. */
enum hash_on { HASH_ON_SOURCE_IP, HASH_ON_HEADER, HASH_ON_COOKIE };

enum datapath {
	DATAPATH_DEFAULT, /* mesh.datapath */
	DATAPATH_PROXY,
	DATAPATH_KERNEL,
};

/* Calls between nodes that must be encrypted. */
enum encrypt {
	ENCRYPT_DEFAULT, /* mesh.encrypt */
	ENCRYPT_OFF,
	ENCRYPT_SITE, /* those within a site */
	ENCRYPT_ALWAYS, /* all, those to addresses without a pod included, which are refused */
};

/* Responses after which the request is retried at another endpoint; bits. */
enum {
	RETRY_ON_500 = 1,
	RETRY_ON_502 = 2,
	RETRY_ON_503 = 4,
	RETRY_ON_504 = 8,
	RETRY_ON_UNAVAILABLE = 16, /* of gRPC: its calls may be made again */
};
enum { RETRY_ON_TEXT_MAX = 32 };

enum { RETRIES_DEFAULT = UINT8_MAX };
#define REQUEST_MS_DEFAULT UINT32_MAX

/* Load balancing and protection of a service: its annotations and session affinity. 0: the node's
 * default. */
struct service_lb {
	uint8_t policy; /* enum lb_policy */
	uint8_t hash_on; /* enum hash_on */
	uint8_t datapath; /* enum datapath */
	uint8_t encrypt; /* enum encrypt */
	uint8_t retries; /* after the first attempt; RETRIES_DEFAULT: the node's default */
	uint32_t affinity_s; /* sessionAffinity ClientIP timeout, 0: none */
	uint32_t connect_ms; /* of one dial */
	/* from the request's last byte to the response head; 0: no limit; REQUEST_MS_DEFAULT: the
	 * node's default */
	uint32_t request_ms;
	uint32_t idle_ms; /* of a relay or tunnel without a byte */
	uint32_t max_connections; /* to one endpoint from this node, 0: no limit */
	uint32_t health_interval_ms;
	/* ramp-up time of an endpoint that is new or has recovered */
	uint32_t slow_start_ms;
	/* consistent hash: maximum load of an endpoint, percent of the mean; 0: no limit */
	uint16_t hash_balance;
	uint16_t outlier_5xx; /* consecutive 5xx responses that eject an endpoint; 0: never */
	uint32_t outlier_ms; /* duration of the first ejection */
	uint8_t retry_on; /* RETRY_ON_...: retry at another endpoint where that is safe */
};

/* Preference of endpoints; lower is better. */
enum endpoint_tier {
	TIER_NODE, /* on this node, if the service prefers that */
	TIER_ZONE, /* in this node's zone, if the service or its hints prefer that */
	TIER_REST,
	TIER_TUNNEL,
};

/* How an endpoint is reached from this node. */
enum endpoint_via {
	VIA_POD, /* pod of this node: podIP:containerPort */
	VIA_HOST, /* hostIP:hostPort, or hostNetwork */
	VIA_GIVEN, /* address without a pod, as given in the slice */
	/* by its own node's agent or through the hub, which dials what has no node itself;
	 * endpoint_far makes `ip` */
	VIA_TUNNEL,
	VIA_REFUSED, /* never: model/dial_guard.h */
};

enum {
	ENDPOINT_READY = 1,
	ENDPOINT_SERVING = 2,
	ENDPOINT_TERMINATING = 4,
	ENDPOINT_LOCAL = 8, /* on this node */
	ENDPOINT_HOST_NETWORK =
		16, /* a hostNetwork pod on this node: its addresses are this node's */
	ENDPOINT_ENCRYPTED = 64, /* no part of the way between nodes may be clear text */
	ENDPOINT_HALF = 32, /* it has an address more, which is refused as this node's own */
};

struct endpoint {
	struct in6_addr ip; /* IPv4 as ::ffff:a.b.c.d */
	/* the same endpoint's address of the other family, dialled by the same way with the same
	 * port; :: none */
	struct in6_addr other;
	uint16_t port; /* host byte order */
	uint8_t via; /* enum endpoint_via */
	uint8_t flags;
	uint8_t tier; /* enum endpoint_tier; VIA_REFUSED: enum special_addr, why */
	uint8_t gate; /* 0: all callers of the service; i: only those that gates[i - 1] permits */
	const char *node; /* "" when unknown */
	const char *hostname; /* pod's hostname, "" when none */
	const char *far; /* VIA_TUNNEL: its address at its own node if that is IPv6; else "" */
	/* VIA_TUNNEL: address of its node, whose agent this node may dial; "": only through the hub
	 */
	const char *peer;
};

struct service_port {
	const char *name; /* "" for a single unnamed port */
	uint16_t port;
	uint8_t mode; /* enum port_mode */
	bool extra; /* a pods' port that the Service does not declare: served, but not in SRV */
	uint16_t node_port; /* served at this node's addresses; 0: none */
	/* those in use: ready ones, else serving-and-terminating ones */
	uint16_t n_endpoints;
	/* with external_local: serving-and-terminating ones of this node, stored after these; only
	 * for calls from outside, and while no other one is on this node */
	uint16_t n_leaving;
	uint16_t n_unreachable; /* would serve, but this node has no route to them yet */
	/* would serve, but must not be dialled, VIA_REFUSED: service_port_refused */
	uint16_t n_refused;
	/* TLS towards the endpoints; NULL: plain. One of the service's list. */
	struct backend_tls *tls;
	const char *why; /* the hub's reason why there are no endpoints; "" none given */
	const struct endpoint *endpoints; /* the lower tiers first */
};

struct service {
	_Atomic unsigned refs;
	_Atomic uint64_t used_ms; /* service_note_use; when it was built, at least */
	const char *namespace;
	const char *name;
	uint64_t digest; /* of the hub's view */
	uint32_t fake_ip; /* host byte order; 0: the range was exhausted */
	uint32_t cluster_ip; /* 0: none */
	struct in6_addr cluster_ip6; /* :: none */
	uint32_t pod_ip; /* of a pod by its address (model/pod_name.h); 0: it is none, or IPv6 */
	/* calls from outside: only to endpoints of this node (externalTrafficPolicy Local); the
	 * ports are served at this node's addresses too (loadBalancerClass edgeway.io/node), and at
	 * external_ips */
	bool external_local, gateway;
	uint16_t health_port; /* answered where NodePorts are served; 0: none */
	bool headless;
	/* headless, and its pods have names of their own: <hostname>.<service> */
	bool named_pods;
	bool restricted; /* allow_from or gates are set */
	bool cloud; /* as in struct view */
	/* one of its UDP ports has no endpoint that the kernel sends IPv6 to: no AAAA for it */
	bool ipv4_alone;
	uint8_t n_external_ips;
	uint8_t n_gates;
	uint8_t n_tls;
	uint16_t n_ports;
	const struct in6_addr *external_ips;
	struct service_lb lb;
	const char *hash_key; /* name of the header field or cookie, "" for HASH_ON_SOURCE_IP */
	const char *health_path; /* active health check by GET, "" none */
	const char *external_name; /* "" unless type ExternalName */
	/* Who may call (model/allow_from.h). NULL: everybody; `gates` apply to some endpoints. Use
	 * service_permits. */
	struct allow_from *allow_from;
	struct allow_from **gates;
	struct http_routes *routes; /* model/http_route.h; NULL: none */
	struct backend_tls **tls; /* model/backend_tls.h */
	const char *allow_text; /* as sent by the hub, "" when none */
	const struct service_port *ports;
};

/* default/kubernetes, the Service of the API server itself? */
static inline bool
service_is_apiserver(const char *ns, const char *name)
{
	return strcmp(ns, "default") == 0 && strcmp(name, "kubernetes") == 0;
}
/* Somebody uses it, at this time (mono_ms): of pods by their address the one that was not used for
 * the longest time makes room (meta/client/pod_asks.h). Any thread. */
static inline void
service_note_use(const struct service *s, uint64_t now_ms)
{
	if (now_ms > atomic_load_explicit(&s->used_ms, memory_order_relaxed))
		atomic_store_explicit(
			(_Atomic uint64_t *)(uintptr_t)&s->used_ms, now_ms, memory_order_relaxed);
}
struct service *service_ref(const struct service *s);
void service_unref(struct service **s);
/* For builders of a service: releases `allow_from`, `gates`, `routes` and `tls`. */
void service_drop_shared(struct service *s);
/* The value of `ipv4_alone`. */
bool service_is_ipv4_alone(const struct service *s);
/* May this caller use a `restricted` service? *closed gets a bit for each gate that refuses it: 1
 * << (gate - 1). */
bool service_permits(const struct service *s, const struct allow_caller *caller, uint64_t *closed);
/* Does the caller pass for the service and for all endpoints of the port? For paths where code that
 * does not know the caller picks the endpoint. */
bool service_permits_all(
	const struct service *s, const struct service_port *p, const struct allow_caller *caller);
static inline bool
endpoint_is_closed(const struct endpoint *e, uint64_t closed)
{
	return e->gate > 0 && (closed >> (e->gate - 1) & 1) != 0;
}
/* How many of the endpoints a call may reach that goes to endpoints of this node alone
 * (external_local); `local` false: any other call. */
static inline unsigned
service_port_most(const struct service_port *p, bool local)
{
	return p->n_endpoints + (local ? p->n_leaving : 0u);
}
/* The first of the refused ones. */
static inline const struct endpoint *
service_port_refused(const struct service_port *p)
{
	return &p->endpoints[p->n_endpoints + p->n_leaving];
}
/* The port with this number and transport (udp or not), or NULL. */
const struct service_port *service_port_find(const struct service *s, uint16_t port, bool udp);
/* Is it called from outside the cluster by anything? */
bool service_is_external(const struct service *s);
/* The port that is called from outside by this number: at the service's external address, or with
 * ip NULL at this node's addresses. NULL: none. */
const struct service_port *service_port_external(
	const struct service *s, const struct in6_addr *ip, uint16_t port, bool udp);
/* The endpoint with this address, as `ip` or `other`, and port, of any of its ports, for which all
 * of `flags` are set; NULL. */
const struct endpoint *service_endpoint_find(
	const struct service *s, const struct in6_addr *ip, uint16_t port, unsigned flags);
/* Is that one of its addresses, and its port? */
bool endpoint_is_at(const struct endpoint *e, const struct in6_addr *ip, uint16_t port);
static inline bool
endpoint_has_other(const struct endpoint *e)
{
	return !IN6_IS_ADDR_UNSPECIFIED(&e->other);
}
struct addr endpoint_addr(const struct endpoint *e);
/* Whether the kernel can translate packets of this family to the endpoint, and to which address:
 * not through a tunnel, to the other family or to this machine's loopback. */
bool endpoint_direct(const struct endpoint *e, bool v6, struct in6_addr *ip);
/* A substitute for an address that is valid on one node only: unique per node, never on the wire,
 * in no network. ip: IPv4 as ::ffff:a.b.c.d. */
struct in6_addr endpoint_far(const char *node, const struct in6_addr *ip);
bool endpoint_is_far(const struct in6_addr *ip); /* made by endpoint_far? */
/* The address to show; for a far endpoint, its address at its own node. */
struct in6_addr endpoint_ip(const struct endpoint *e);
/* The same with the port; of the address of the other family. */
const char *endpoint_text(const struct endpoint *e, char to[ADDR_TEXT_MAX]);
const char *endpoint_other_text(const struct endpoint *e, char to[ADDR_TEXT_MAX]);

/* "round-robin" and so on; "" for LB_DEFAULT. Parsing: -EINVAL for an unknown word. */
const char *lb_policy_name(enum lb_policy policy);
int lb_policy_parse(const char *word);
/* "header:NAME" or "cookie:NAME", *key then gets the name on the heap, or "source-ip", *key gets
 * ""; frees what *key held. -EINVAL leaves *key alone. */
int hash_on_parse(const char *text, char **key);
/* "proxy", "kernel", "" for DATAPATH_DEFAULT. Parsing: -EINVAL for others. */
const char *datapath_name(enum datapath datapath);
int datapath_parse(const char *word);
/* "off", "site", "always", "" for ENCRYPT_DEFAULT. Parsing: -EINVAL for others. */
const char *encrypt_name(enum encrypt encrypt);
int encrypt_parse(const char *word);
/* Parses "500,502,503,504,unavailable" or a part, in any order, or gives -EINVAL. retry_on_text
 * writes them in this order, "" for none. */
int retry_on_parse(const char *text);
const char *retry_on_text(unsigned bits, char to[RETRY_ON_TEXT_MAX]);
/* The bit of a response's status, 0: none. */
unsigned retry_on_bit(unsigned status);
/* "http", "tcp", "udp". Parsing: -EINVAL for others. */
const char *port_mode_name(enum port_mode mode);
int port_mode_parse(const char *word);

#endif
