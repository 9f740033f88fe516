/*
 * A live view of requests and relayed connections, for an operator (edgewayctl tap, trace). A tap
 * starts with the first query for it, and ends TAP_LAPSE_MS after the last query, or at once with a
 * query marked as the last. While there is no tap, a request costs one comparison with NULL.
 *
 * Bounded: TAPS_MOST taps; for each, a worker records at most TAP_TICK_MOST requests in one tick
 * (the rest is counted as skipped), and loop 0 keeps the last TAP_KEPT. Records hold the method and
 * path of a request, but neither its query nor any header field.
 *
 *	ask = (struct lb_tap_ask){.id = "4711", .service = "default/web", .after = 12};
 *	rc = lb_tap(lb, &ask, &out);	// loop 0
 *
 * The other functions run on a worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_TAP_H
#define EDGEWAY_LB_PROXY_TAP_H

#include "lb/proxy/worker.h"

enum {
	TAPS_MOST = 4,
	TAP_LAPSE_MS = 5000,
	TAP_KEPT = 512,
	TAP_TICK_MOST = 16,
	TAP_PARCELS_MOST = 8, /* from one worker, on their way to loop 0 */
	TAP_REQUEST_MAX = 200, /* bytes of the request line that are recorded */
};

/* A relayed connection has reached its endpoint; or the exchange is over. */
enum tap_moment { TAP_OPEN, TAP_DONE };

void tap_note(struct exchange *ex, enum tap_moment moment);
/* Passes the collected records to loop 0. */
void tap_flush(struct worker *w);
void tap_worker_end(struct worker *w);

/* On loop 0: posts nothing to workers from now on, and ends all taps. */
void tap_stop(struct lb *lb);
void tap_free(struct lb *lb);

#endif
