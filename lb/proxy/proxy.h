/*
 * The client side of the proxy: connections, their states, and parsing of what they send.
 *
 *	accept   ──► IDLE on an http port, RELAY on a TCP port
 *	IDLE     ──► HEAD at the first byte; closed at FIN or SPAN_IDLE
 *	HEAD     ──► EXCHANGE at the end of the head; HTTP2 after its preface (h2_client.h); RELAY
 *	             for TLS; LINGER after 400, 408, 414, 431
 *	EXCHANGE ──► IDLE after the response (the next request may be buffered); RELAY after 101;
 *	             LINGER after Connection: close, an early response or an error
 *	LINGER   ──► closed at FIN or SPAN_LINGER
 *	HTTP2    ──► LINGER once everything is answered and either side has said GOAWAY
 *	RELAY    ──► closed
 *
 * LINGER: our FIN is sent, and what the client still sends is dropped, so that a RST does not
 * destroy the response in transit. Skipped after a short response to a client that has asked for
 * the close (answer.c). The client's own FIN ends only its sending: a response in
 * progress is still delivered.
 */
#ifndef EDGEWAY_LB_PROXY_PROXY_H
#define EDGEWAY_LB_PROXY_PROXY_H

#include "lb/proxy/worker.h"

/* Takes fd and the reference to the group. */
void downstream_open(struct worker *w, int fd, struct group *g, const struct addr *client);
/* Closes it and ends its exchange. */
void downstream_close(struct downstream *f, bool reset);
/* Processes bytes that were read and had to wait. */
void downstream_run(struct downstream *f);
/* The exchange is over and f->ex is NULL: the next request, or the end of the connection. */
void downstream_next(struct downstream *f, bool keep);
/* Sends a response of our own with a one-line body; ends f->ex if there is one. close: the
 * connection cannot be used further. */
void downstream_refuse(struct downstream *f, int status, const char *line, bool close);
/* Counts such a response. */
void downstream_count_own(struct downstream *f, const struct exchange *ex, int status);
/* Starts or stops reading from the client, depending on what is buffered. */
void downstream_gate(struct downstream *f);
/* Sends our FIN, and waits for the client's (LINGER). */
void downstream_linger(struct downstream *f);
/* For draining: closes it unless something is in progress. */
void downstream_drain(struct downstream *f);

#endif
