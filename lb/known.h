/*
 * What the workers know of the endpoints that they use, for /debug/state: each worker gets a post
 * and writes its part on its own loop; a worker that does not reply within KNOWN_WAIT_MS is left
 * out. Runs on loop 0, which blocks meanwhile: for operators, not for scrapers.
 */
#ifndef EDGEWAY_LB_KNOWN_H
#define EDGEWAY_LB_KNOWN_H

#include "lb/proxy/worker.h"

enum {
	KNOWN_WAIT_MS = 200,
	KNOWN_MOST = 2000 /* endpoints that a worker reports: all of a service port, or none */
};

/* Writes a JSON list with an object for each service port and worker. */
void known_write(struct lb *lb, struct buf *out);
/* The state of the endpoint as this worker sees it; on the worker's loop. */
enum lb_health known_health(const struct worker *w, const struct target *t);

#endif
