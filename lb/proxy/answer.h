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

/* For both versions of HTTP. The final response has begun: the exchange is answering. */
void answer_begins(struct exchange *ex, unsigned status);
/* What a final response says about its endpoint. If the service counts errors, another error
 * response does not bring back an endpoint that was ejected for errors. */
void answer_judge(struct exchange *ex, unsigned status);
/* A head was sent to the client; n bytes of the body have come. */
void answer_count_status(struct exchange *ex, unsigned status);
void answer_count_down(struct exchange *ex, uint64_t n);

#endif
