/*
 * A node's health information about a service's endpoints, as it answers its hub's question
 * (doc/protocol.md, "Questions"). Pure.
 *
 *	{"known":true,"endpoints":[{"port":80,"address":"192.0.2.7:30080","node":"edge-2",
 *		"health":"up"}],"more":0}
 *
 *	health_begin(&t, &out, true);
 *	health_add(&t, &(struct health_of){80, "192.0.2.7:30080", "edge-2", "up"});
 *	health_end(&t);
 *
 *	if ((rc = health_read(&said, text, len, &err)) == 0)	// said.list: the endpoints
 *		...
 *	health_fini(&said);
 */
#ifndef EDGEWAY_MODEL_HEALTH_H
#define EDGEWAY_MODEL_HEALTH_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* Announced in `edgeway-answers` by an agent that answers; the resource is
 * NAMESPACE/health/NAME. */
#define HEALTH_KIND "health"

enum {
	HEALTH_ENDPOINTS_MAX = 500, /* most endpoints listed; of further ones only the number */
	HEALTH_BYTES_MAX = 256 * 1024, /* of an answer */
};

struct health_of {
	uint16_t port; /* of the service */
	const char *address; /* address that the node dials, with its port */
	const char *node, *health; /* health: "up", "ill", "ejected", "unused" */
};

struct health_text {
	struct buf *out;
	unsigned n, more;
};

void health_begin(struct health_text *t, struct buf *out, bool known);
void health_add(struct health_text *t, const struct health_of *one);
void health_end(struct health_text *t);

struct health_said {
	bool known; /* the node has the service */
	uint32_t more;
	struct buf list; /* [{"port","address","node","health"},...] */
};

/* 0, or -EBADMSG: it is not such an answer, or too large. */
int health_read(struct health_said *to, const char *json, size_t len, struct err *err);
void health_fini(struct health_said *said);

#endif
