/*
 * The answer of an endpoint on its way to the client: heads of 1xx and of the final answer, the
 * body's framing towards this client (chunked for HTTP/1.1, until close for HTTP/1.0 when the
 * length is unknown), its end. See exchange.h for where this stands.
 */
#ifndef EDGEWAY_LB_ANSWER_H
#define EDGEWAY_LB_ANSWER_H

#include "lb/private.h"

/* As much of a long body as there is, past this program; bytes or -errno as splice_move(). */
ssize_t answer_splice(struct exchange *ex);
void answer_input(struct exchange *ex, const char *data, size_t len);
/* The endpoint ended a body that only its FIN ends. */
void answer_until_close_done(struct exchange *ex);
uint64_t answer_clock_us(void);

#endif
