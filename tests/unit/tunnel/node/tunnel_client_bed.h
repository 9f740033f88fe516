/*
 * A hub's port (listen, peek, tunnels) and nodes (link, serve) with certificates of one CA, over
 * real TLS on loopback, and an echo server as the target; all on one loop. Nothing is left when
 * link_bed_close returns: descriptors are counted.
 */
#ifndef EDGEWAY_TESTS_UNIT_TUNNEL_NODE_TUNNEL_CLIENT_BED_H
#define EDGEWAY_TESTS_UNIT_TUNNEL_NODE_TUNNEL_CLIENT_BED_H

#include "hub/port/alpn_mux.h"
#include "hub/port/listen.h"
#include "hub/replicas/tunnels.h"
#include "model/span.h"
#include "tests/unit/patience.h"

enum { BED_VISITORS = 128 };

struct visitor { /* who asks at the hub for a stream */
	struct bed *bed;
	struct stream *st;
	unsigned status, code;
	char reason[256];
	size_t got;
	char text[64]; /* the beginning of what came */
	bool eof, reset;
};

struct bed_node {
	struct bed *bed;
	struct tunnel_client *link;
	struct stream_server *serve;
	struct ssl_ctx_st *tls;
	uint64_t certificate;
	char *name;
	bool drained;
	unsigned ups, doubts, reroutes; /* that the link has told of */
};

struct echo { /* one connection at the target */
	struct echo *next;
	struct bed *bed;
	struct watch *watch;
	int fd;
};

struct bed {
	struct loop *loop;
	struct addresses *addresses;
	char *ca, *ca_key;
	struct ssl_ctx_st *tls;
	struct listen *listen;
	struct alpn_mux *peek;
	struct tunnels *tunnels;
	struct tunnels *outward; /* bed_hub_outward; NULL: none */
	struct addr addr; /* of the hub */
	int target; /* listens */
	struct watch *accept;
	struct echo *echoes;
	unsigned n_echoes;
	uint16_t port; /* of the target */
	struct span_source spans; /* of the nodes: off */
	struct trace_span *told; /* what they told, the last one first */
	const char *traceparent; /* of those who ask; NULL: none */
	const char *hops; /* the same: base/core/hops.h */
	unsigned came_hops; /* of the last connection at the target */
	const char *revoked; /* serial number that the hub refuses */
	bool drained;
	int descriptors;
};

void link_bed_open(struct bed *b);
void link_bed_close(struct bed *b);
void bed_hub_start(struct bed *b);
/* As listen_start wants it, with the bed: what comes is the hub's. */
bool bed_on_socket(void *arg, int fd);
/* Takes connections in which the nodes open streams, too; as tunnels_setup has it, with the bed. */
void bed_hub_outward(struct bed *b,
	unsigned (*opened)(void *bed, const char *node, struct stream *st,
		const struct stream_request *request, const char **reason));
void bed_hub_stop(struct bed *b);
/* allow: one rule. Connected when it returns, unless the hub does not run. */
void bed_node_start(struct bed *b, struct bed_node *n, const char *name, const char *allow);
/* The same, with a standby tunnel. */
void bed_standby_start(struct bed *b, struct bed_node *n, const char *name);
void bed_node_stop(struct bed_node *n);
/* Another certificate for it, for so many seconds; its serial number when asked for. */
void bed_node_certify(struct bed_node *n, unsigned life_s, char serial[PKI_SERIAL_TEXT]);
/* Asks for a stream to the node; authority NULL: the target by the node's name. */
int bed_ask(struct bed *b, struct visitor *v, const char *node, const char *authority);
/* Spans are wanted. */
void bed_spans(struct bed *b, uint32_t per_s);
void bed_say(struct visitor *v, const char *text);
double bed_metric(struct bed *b, const struct bed_node *n, const char *name);
/* A number of the node's JSON. */
unsigned bed_counted(const struct bed_node *n, const char *name);

#define bed_until(b, condition) patience_until(patience_turn((b)->loop), condition)

#endif
