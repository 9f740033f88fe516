/*
 * What the workers know of the endpoints that they use, for /debug/state: each is asked by a post
 * and writes its part on its own loop; a worker that does not answer within KNOWN_WAIT_MS is left
 * out. On loop 0, which waits meanwhile: for operators, not for scrapers.
 */
#ifndef EDGEWAY_LB_KNOWN_H
#define EDGEWAY_LB_KNOWN_H

#include "lb/private.h"

enum {
	KNOWN_WAIT_MS = 200,
	KNOWN_MOST = 2000 /* endpoints a worker tells of: all of a service's port, or none */
};

/* A JSON list with an object for each service port and worker. */
void known_write(struct lb *lb, struct buf *out);
/* How the worker finds the endpoint; on its loop. */
enum lb_health known_health(const struct worker *w, const struct target *t);

#endif
