/*
 * A snapshot of what the hub's page shows (hub/page/web.h): all nodes with their tunnels, sorted by
 * name, and a summary of each service (hub/page/web_summary.h). One survey serves all viewers, and
 * is taken at most once a second and only while there are viewers. Texts of nodes are copies. On
 * the hub's loop.
 *
 *	survey_take(s, &sources, now_ms);
 *	for (size_t i = 0; i < survey_nodes(s, &list); i++)
 *		name = survey_text(s, list[i].name);
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_SURVEY_H
#define EDGEWAY_HUB_PAGE_WEB_SURVEY_H

#include "hub/identity/certs.h"
#include "hub/kube/kubernetes.h"
#include "hub/manifests/manifests.h"
#include "hub/page/web_summary.h"
#include "hub/sync/nodes.h"

/* The joined nodes are read when they change, and so often for revocations. */
enum { SURVEY_JOINED_MS = 10000 };

/* Borrowed for the call. */
struct survey_sources {
	const struct nodes *nodes; /* NULL: not yet */
	const struct certs *certs; /* NULL: not yet */
	const struct tunnels *tunnels;
	const struct peers *peers;
	const struct fanout *fanout;
	const struct cluster *cluster;
	const struct manifests *manifests; /* one of these two is NULL */
	const struct kubernetes *kubernetes;
	bool ready;
	const char *waits; /* what it waits for, when not ready */
	uint16_t port; /* to which nodes connect */
	uint64_t requests, refused; /* ingress_count */
};

enum survey_health {
	SURVEY_REVOKED, /* its certificate is revoked: it is no longer a node */
	SURVEY_DOWN, /* it has joined, and is not connected */
	/* connected, but changes are pending, or some of its services are not served */
	SURVEY_LAGS,
	SURVEY_BARE, /* connected, without a tunnel, although tunnels are not switched off */
	SURVEY_ELSEWHERE, /* connected to another replica */
	SURVEY_GOOD,
	SURVEY_HEALTHS,
};

struct survey_node {
	uint32_t name, site, zone, version, address; /* survey_text */
	uint32_t at,
		/* for one that is not connected here: the replica that has or had it; its last
		 * words */
		words;
	uint8_t health; /* enum survey_health */
	bool connected, tunnel, no_tunnel; /* no_tunnel: switched off */
	unsigned pending, unacked, unserved, streams, rtt_ms;
	uint64_t since_ms, tunnel_since_ms; /* since 1970; 0: not connected, no tunnel */
	/* since 1970, when it was last connected, if it is not now; 0: not since the hub started */
	uint64_t seen_ms;
	int64_t ends_s; /* expiry of its newest tunnel's certificate, since 1970; 0: unknown */
	uint64_t lags_since_ms; /* since 1970, as seen by surveys; 0: it does not lag */
	uint64_t epoch;
	uint64_t bytes_in, bytes_out; /* of its newest tunnel; in: from the node */
	uint64_t rate_in,
		rate_out; /* bytes a second since the previous survey; of the newest tunnel */
};

struct survey_totals {
	size_t nodes, health[SURVEY_HEALTHS];
	size_t tunnels, streams;
	uint64_t rate_in, rate_out;
	/* idle: without a serving endpoint; partly: some endpoints do not serve */
	size_t services, idle, partly;
};

struct survey;

struct survey *survey_new(void);
void survey_free(struct survey **s);
/* now_ms: of the loop. */
void survey_take(struct survey *s, const struct survey_sources *from, uint64_t now_ms);
/* When it was last taken, of the loop; 0: never. */
uint64_t survey_taken_ms(const struct survey *s);

const struct survey_totals *survey_totals(const struct survey *s);
size_t survey_nodes(const struct survey *s, const struct survey_node **list);
const struct survey_node *survey_find(const struct survey *s, const char *name); /* NULL: none */
const char *survey_text(const struct survey *s, uint32_t at);
/* In order of their keys. */
size_t survey_services(const struct survey *s, const struct service_summary *const **list);

#endif
