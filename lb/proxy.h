/*
 * The client's half of the proxy: connections, their states, and what is read from them.
 *
 *	accept ─► IDLE ─ first byte ─► HEAD ─ whole head ─► EXCHANGE ─ answer sent ─► IDLE (next
 *request, maybe already read) │                    │  │                   │   │ │ FIN, SPAN_IDLE │
 *└ TLS, HTTP/2       │   └ Connection: close, early answer, error ─► LINGER ▼                    ▼
 *preface           │ 101                                            │ closed        400,408,414,431
 *─► LINGER       ▼                                   FIN, SPAN_LINGER └───────────────► RELAY ◄─
 *accept on a TCP port                      ▼ └──────────────────────────────────────────► closed
 *
 * LINGER: our FIN is sent, and what the client still sends is dropped, so that a RST does not
 *destroy the answer on its way. The client's own FIN ends nothing but its sending: an answer in
 *progress is still delivered.
 */
#ifndef EDGEWAY_LB_PROXY_H
#define EDGEWAY_LB_PROXY_H

#include "lb/private.h"

/* Takes fd and the reference to the group. */
void front_open(struct worker *w, int fd, struct group *g, const struct sockaddr_in *client);
/* Ends it and what it does. */
void front_close(struct front *f, bool reset);
/* Uses bytes that were read and had to wait. */
void front_run(struct front *f);
/* The exchange is over and f->ex is NULL: next request, or the end of the connection. */
void front_next(struct front *f, bool keep);
/* An answer of our own with a one-line body; ends f->ex if there is one. close: the connection
 * cannot go on. */
void front_refuse(struct front *f, int status, const char *line, bool close);
/* Read from the client or not, by what waits. */
void front_gate(struct front *f);
/* For the drain: closes it unless it is in the middle of something. */
void front_drain(struct front *f);

#endif
