/*
 * Shared by the files behind dns.h: dns.c opens, listens and stops; report.c writes metrics and
 * state. Loop 0; the servers belong to their workers, only their counters may be read here.
 */
#ifndef EDGEWAY_DNS_DNS_PRIVATE_H
#define EDGEWAY_DNS_DNS_PRIVATE_H

#include "dns/dns.h"
#include "dns/forward/upstreams.h"
#include "dns/front/server.h"
#include "dns/resolvconf/resolvconf.h"
#include "dns/resolvconf/resolvlink.h"
#include "dns/resolvconf/resolvwatch.h"

enum { DNS_IPV4, DNS_IPV6, DNS_FAMILIES };

struct dns_listener {
	struct addr at; /* no address in it: not listening */
	struct addr last; /* the workers may still hold its sockets */
	int *sockets; /* owned by the servers; valid only while it listens */
};

struct dns {
	struct loop *main;
	struct server **servers;
	size_t n_servers;
	struct resolvconf *resolvconf;
	struct resolvlink *link;
	struct resolvwatch *watch; /* NULL while resolv.conf is not watched */
	bool resolved; /* dns.host */
	uint16_t port;
	struct dns_listener listeners[DNS_FAMILIES];
	char *path; /* of resolv.conf */
	char **interfaces; /* NULL-terminated */
	struct addr *configured;
	size_t n_configured;
	struct upstreams *roster;
	loop_fn *on_upstreams;
	void *on_upstreams_arg;
	size_t stopping; /* servers that have not stopped yet */
	bool stopped_once;
	loop_fn *on_stopped;
	void *on_stopped_arg;
};

#endif
