/*
 * Requests and relayed connections as they go, for an operator who looks on (edgewayctl tap,
 * trace). A look is armed by asking for it, and ends by itself TAP_LAPSE_MS after the last question
 * where nobody has said that it is the last. While there is no look, a request pays for one
 * comparison with NULL.
 *
 * Bounded: TAPS_MOST looks; of each a worker takes at most TAP_TICK_MOST records in one of its
 * ticks (the rest is counted as skipped), and loop 0 keeps the last TAP_KEPT. Records hold the
 * method and the path of a request, and neither its query nor any header field.
 *
 *	rc = lb_tap(lb, &(struct lb_tap_ask){.id = "4711", .service = "default/web", .after = 12}, &out);	// loop 0
 *
 * The rest is called on a worker's loop.
 */
#ifndef EDGEWAY_LB_TAP_H
#define EDGEWAY_LB_TAP_H

#include "lb/private.h"

enum {
	TAPS_MOST = 4,
	TAP_LAPSE_MS = 5000,
	TAP_KEPT = 512,
	TAP_TICK_MOST = 16,
	TAP_PARCELS_MOST = 8, /* of a worker, on their way to loop 0 */
	TAP_REQUEST_MAX = 200, /* bytes of the request line that are told */
};

/* A relayed connection has reached its endpoint; or the exchange is over. */
enum tap_moment { TAP_OPEN, TAP_DONE };

void tap_note(struct exchange *ex, enum tap_moment moment);
/* Hands over what has gathered. */
void tap_flush(struct worker *w);
void tap_worker_end(struct worker *w);

/* On loop 0: no worker is asked for anything from now on; nothing is left. */
void tap_stop(struct lb *lb);
void tap_free(struct lb *lb);

#endif
