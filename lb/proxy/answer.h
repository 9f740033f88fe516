/*
 * The response of an endpoint on its way to the client: 1xx heads and the final head, the framing
 * of the body towards this client (chunked for HTTP/1.1; until close for HTTP/1.0 if the length is
 * unknown), and its end. See exchange.h for its place in the proxy.
 */
#ifndef EDGEWAY_LB_PROXY_ANSWER_H
#define EDGEWAY_LB_PROXY_ANSWER_H

#include "lb/proxy/worker.h"

/* Splices as much of a long body as is available, without copying it through this process. Returns
 * bytes or -errno, as splice_move(). */
ssize_t answer_splice(struct exchange *ex);
void answer_input(struct exchange *ex, const char *data, size_t len);
/* The endpoint has sent the FIN that ends a body without a length. */
void answer_until_close_done(struct exchange *ex);
uint64_t answer_clock_us(void);

#endif
