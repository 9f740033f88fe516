/*
 * Shared by the files behind http1.h: http1.c splits a head with llhttp and checks its first line,
 * http1_fields.c then interprets the fields, http1_target.c the target. Each check returns 0, or
 * the status to answer with and the reason in h->why. They read what http1.c has filled in and fill
 * in the rest, in the order in which http1.c calls them.
 */
#ifndef EDGEWAY_BASE_HTTP_HTTP1_PRIVATE_H
#define EDGEWAY_BASE_HTTP_HTTP1_PRIVATE_H

#include "base/http/http1.h"

static inline int
http1_refuse(struct http1_head *h, int status, const char *why)
{
	h->why = why;
	return status;
}

/* Strips blanks and tabs at both ends. */
struct http1_str http1_trim(struct http1_str s);
/* Sets is_head and idempotent. */
void http1_classify_method(struct http1_head *h);
/* Checks names and values (RFC 9110 section 5) and marks hop-by-hop fields. */
int http1_check_fields(struct http1_head *h);
/* Reads Connection, and with it Upgrade and TE. */
int http1_read_connection(struct http1_head *h);
/* Does Upgrade name HTTP/2? Then a request is served without it. */
bool http1_asks_http2(const struct http1_head *h);
/* Is there an Upgrade that names a protocol? */
bool http1_names_protocol(const struct http1_head *h);
/* RFC 9112 section 6: one Content-Length, or one Transfer-Encoding that is "chunked", in HTTP/1.1,
 * never both. */
int http1_read_framing(struct http1_head *h);
/* RFC 9112 section 3.2: one, and valid. */
int http1_read_host(struct http1_head *h);
/* Checks h->target and takes absolute-form apart. */
int http1_read_target(struct http1_head *h);

#endif
