/*
 * The tunnels, replicas, rules and kept streams that hub/routing/connector asks, as a test wants
 * them: what is in `bed` is what they say and what they were asked.
 */
#ifndef EDGEWAY_TESTS_UNIT_HUB_ROUTING_CONNECTOR_BED_H
#define EDGEWAY_TESTS_UNIT_HUB_ROUTING_CONNECTOR_BED_H

#include "base/core/hops.h"
#include "hub/routing/connector.h"

struct bed {
	struct loop *loop;
	struct connector *reach;
	bool has_tunnel, expected;
	bool left; /* it may be restarted */
	bool silent; /* that answers nothing */
	/* that pass on what is for a node of one that cannot be reached; the last of them can */
	unsigned replicas;
	unsigned asked; /* of those */
	unsigned found; /* routes that were asked for */
	const char *found_by; /* the last of them: "host", "udp", "at" or "endpoint" */
	/* of the tunnel here (0: 1), and of that at another replica */
	uint64_t epoch, epoch_there;
	unsigned opened, closed;
	int refuses; /* what opening a stream in the tunnel returns; 0: it is opened */
	/* routes, each by its node, which is edge-1, edge-2 ...; beside: as neighbours of edge-9 */
	unsigned routes; /* 0: 1 */
	bool beside;
	const char *service; /* that the routes are of; NULL: of none */
	const struct stream_events *events; /* of the stream that was opened last */
	void *to;
	unsigned status; /* of the answer; 0: none yet */
	char reason[CALLER_REASON_MAX];
	char hops[HOPS_TEXT_MAX]; /* as the stream says */
	char fields[128]; /* the others but for the caller, as name=value and a blank */
	bool given; /* the answer has a stream */
	char written[64]; /* into the stream that was opened last */
	size_t sent; /* as the answer says */
	/* of the kept stream; NULL: there is none. It is for requests of this key. */
	struct stream_use *use;
	char node[16], authority[16], as_hops[HOPS_TEXT_MAX];
	uint64_t as_epoch;
};

extern struct bed bed;

/* A stream that nothing is to be done with. */
struct stream *bed_stream(void);
/* Begins with a connector that has replicas, and with what `start` says. */
void bed_open(const struct bed *start);
void bed_close(void);
/* Calls for edge-1, port 7. */
struct connect_op *bed_call(const struct connector_request *more);
void bed_reached(void *arg, struct connector_answer *answer);

#endif
