/*
 * HTTP/1.x messages (RFC 9110, 9112), pure: bytes in, structs out, no I/O, no clock. llhttp splits
 * a head into its parts; this code adds checks for what a proxy must refuse and llhttp lets through
 * (bare LF and CR, NUL, obs-fold, blanks around names, doubtful lengths, wrong Host, odd versions).
 * Whatever is accepted can be emitted as a clean head of the same meaning. Heads are borrowed: a
 * parsed head points into the bytes that were given.
 *
 *	size_t from = 0;
 *	n = http1_find_end(data, len, &from);	// 0: read more, <0: refuse, >0: bytes of the head
 *	status = http1_parse_request(&head, data, n);	// 0, or the status to refuse with: head.why
 *	http1_body_init(&body, head.framing, head.length);
 *	while ((what = http1_body_next(&body, at, left, &used, &piece)) == HTTP1_DATA)
 *		...	// piece: payload without framing
 *
 * http1_read_request() is the first two steps in one, with the limits; other callers of
 * http1_find_end() refuse by themselves when HTTP1_HEAD_MAX bytes hold no whole head.
 */
#ifndef EDGEWAY_BASE_HTTP_HTTP1_H
#define EDGEWAY_BASE_HTTP_HTTP1_H

#include <sys/types.h>

#include "base/core/buf.h"

enum {
	HTTP1_HEAD_MAX = 32 * 1024,
	HTTP1_TARGET_MAX = 16 * 1024,
	HTTP1_METHOD_MAX = 64,
	HTTP1_FIELDS_MAX = 200,
	HTTP1_TRAILERS_MAX = 8 * 1024,
};

struct http1_str {
	const char *at;
	size_t len;
};

/* Fields that this file or a proxy reads; all others are HTTP1_OTHER. */
enum http1_name {
	HTTP1_OTHER,
	HTTP1_CDN_LOOP,
	HTTP1_CLOSE, /* reserved by RFC 9110 section 9.6: "Connection: close" would name it */
	HTTP1_CONNECTION,
	HTTP1_CONTENT_LENGTH,
	HTTP1_EXPECT,
	HTTP1_HOST,
	HTTP1_KEEP_ALIVE,
	HTTP1_PROXY_CONNECTION,
	HTTP1_TE,
	HTTP1_TRACEPARENT,
	HTTP1_TRACESTATE,
	HTTP1_TRAILER,
	HTTP1_TRANSFER_ENCODING,
	HTTP1_UPGRADE,
	HTTP1_VIA,
	HTTP1_X_FORWARDED_FOR,
	HTTP1_X_REQUEST_ID,
	HTTP1_HTTP2_SETTINGS,
};

struct http1_field {
	struct http1_str name, value; /* value without blanks at its ends */
	uint8_t id; /* enum http1_name */
	bool hop; /* meant for the next hop only: never forwarded */
};

enum http1_framing {
	HTTP1_EMPTY, /* no body */
	HTTP1_LENGTH, /* Content-Length, may be 0 */
	HTTP1_CHUNKED,
	HTTP1_UNTIL_CLOSE, /* responses only */
};

struct http1_head {
	const char *why; /* static sentence when a parse refuses */
	uint8_t minor; /* HTTP/1.minor: 0 or 1 */
	uint8_t framing; /* enum http1_framing */
	bool keep_alive; /* the sender can reuse this connection after this message */
	/* Upgrade with Connection: upgrade, in HTTP/1.1; in a response other than 101, Upgrade
	 * alone is enough */
	bool upgrade;
	/* Connection names fields that it does not govern itself: they may be trailers */
	bool names_fields;
	bool takes_trailers; /* requests: TE: trailers, named by Connection */
	bool expects; /* Expect: 100-continue, in HTTP/1.1 */
	bool idempotent; /* requests: RFC 9110 section 9.2.2 */
	bool is_head; /* requests: HEAD */
	bool is_connect; /* requests to a proxy: CONNECT, with target and host the authority */
	uint16_t status; /* responses */
	uint32_t ids; /* 1 << enum http1_name, of all fields */
	uint64_t length; /* Content-Length, when has_length */
	bool has_length;
	struct http1_str method,
		target; /* target: origin-form or "*", absolute-form already taken apart */
	struct http1_str host; /* Host, or the authority of absolute-form; empty only in HTTP/1.0 */
	struct http1_str reason;
	size_t n_fields;
	struct http1_field fields[HTTP1_FIELDS_MAX];
};

bool http1_is(struct http1_str s, const char *lowercase); /* equal, ASCII case ignored */
/* HTTP1_OTHER for all names that have no id. */
enum http1_name http1_name_of(struct http1_str name);
/* First field of that id, or NULL. */
const struct http1_field *http1_find(const struct http1_head *h, enum http1_name id);

/* How often our programs have forwarded this request (base/core/hops.h): the members of CDN-Loop
 * with our name. */
unsigned http1_passes(const struct http1_head *h);

/* Leading CRLFs, which a server skips before a request line (RFC 9112 section 2.2). */
size_t http1_skip_blank(const char *data, size_t len);
/* Bytes of the head with its empty line; 0: incomplete; -EBADMSG: a line does not end in CRLF,
 * holds another CR, or starts with a blank (obs-fold). *from, 0 in the beginning, remembers where
 * to resume the search. */
ssize_t http1_find_end(const char *data, size_t len, size_t *from);
/* The same for a response, whose lines may end in LF alone (RFC 9112 section 2.2), as shells and
 * embedded servers write them. *head is what to parse: these bytes or, where lines end in LF alone,
 * a copy with CRLF in `clean`, which must be empty before. -E2BIG: more lines than the field limit.
 * A call scans only the bytes that are new since the last call, and the line that they complete. */
struct http1_scan { /* all 0 at first, and for each new head */
	uint32_t line,
		/* start of the first incomplete line; bytes scanned */
		seen;
	uint16_t lines;
	bool bare; /* a line ends in LF alone */
};
ssize_t http1_find_answer_end(const char *data, size_t len, struct http1_scan *s, struct buf *clean,
	struct http1_str *head);
/* Parses exactly one head, of the length http1_find_end returned. 0, or the status to refuse with
 * (400, 414, 431, 501, 505). */
int http1_parse_request(struct http1_head *h, const char *data, size_t len);
/* The same for a request to a proxy, which may be CONNECT. */
int http1_parse_proxy_request(struct http1_head *h, const char *data, size_t len);
/* The head that begins a client's bytes: its length, after it was parsed; 0: read more, with the
 * same *from; <0: the status to refuse with, negated, and h->why. */
ssize_t http1_read_request(
	struct http1_head *h, const char *data, size_t len, size_t *from, bool to_proxy);
/* 0, or 502. `to_head`: it answers a HEAD request. */
int http1_parse_response(struct http1_head *h, const char *data, size_t len, bool to_head);

bool http1_valid_host(struct http1_str host); /* uri-host [":" port], not empty */
bool http1_valid_token(struct http1_str token);
bool http1_token_char(char c);
bool http1_valid_value(struct http1_str value); /* no control characters but HTAB */

/* What a connection's first bytes look like. */
enum http1_guess {
	HTTP1_LOOKS_HTTP,
	HTTP1_LOOKS_HTTP2, /* the preface of RFC 9113 section 3.4 */
	HTTP1_LOOKS_OPAQUE, /* TLS ClientHello */
	HTTP1_LOOKS_SHORT, /* more bytes needed */
};
enum http1_guess http1_guess(const char *data, size_t len);

/* --- bodies (http1_body.c) ------------------------------------------------------------------ */

struct http1_body {
	uint8_t framing; /* enum http1_framing */
	uint8_t state;
	uint8_t digits;
	uint16_t line; /* bytes of the chunk's or trailer's line so far */
	uint16_t trailers; /* bytes of the trailer section so far */
	uint64_t left;
	struct buf *kept; /* trailers as they came; NULL: dropped */
};

enum http1_got {
	HTTP1_BAD = -1, /* grammar violated: the connection is lost */
	HTTP1_MORE = 0, /* everything given was consumed */
	HTTP1_DATA = 1, /* `piece` is payload; call again with what is left */
	HTTP1_DONE = 2, /* the message ends here; what is left belongs to the next */
};

void http1_body_init(struct http1_body *b, enum http1_framing framing, uint64_t length);
/* Keeps trailers in the caller's buffer, which must be empty and outlive the body. */
void http1_body_keep(struct http1_body *b, struct buf *trailers);
bool http1_body_done(const struct http1_body *b);
/* Takes at most one piece of payload from data; *used bytes are consumed, framing included.
 * Trailers are checked, and kept or dropped. HTTP1_UNTIL_CLOSE never says DONE. */
enum http1_got http1_body_next(
	struct http1_body *b, const char *data, size_t len, size_t *used, struct http1_str *piece);
/* How many of the next bytes are unframed payload; 0: call http1_body_next. */
uint64_t http1_body_raw(const struct http1_body *b);
/* Counts n payload bytes as consumed without http1_body_next. */
void http1_body_skip(struct http1_body *b, uint64_t n);
/* The frame in front of a chunk of len > 0 bytes ("1f4\r\n"), NUL-terminated; returns its length.
 */
enum { HTTP1_CHUNK_HEAD = 20 };
size_t http1_chunk_head(char to[HTTP1_CHUNK_HEAD], size_t len);
#define HTTP1_CHUNK_TAIL "\r\n"
#define HTTP1_CHUNK_LAST "0\r\n\r\n"
/* The end of a body towards a chunked connection, in memory of its own or of the kept trailers: the
 * last chunk, the permitted trailer fields (RFC 9110 section 6.5.1: none for framing, routing,
 * authentication, caching, content), the empty line. Once for each body. */
struct http1_str http1_last_chunk(struct http1_body *b);
/* False for fields for framing, routing, authorization, caching or content: they come too late in a
 * trailer, and are dangerous where the next hop merges them into the head. */
bool http1_trailer_may_stand(struct http1_str name);
/* As http1_body_next; appends the piece to `to`, in chunks or plain, and the end of chunks. */
enum http1_got http1_body_pass(struct http1_body *b, struct http1_str data, size_t *used,
	struct http1_str *piece, bool chunked, struct buf *to);

/* --- clean heads (http1_emit.c) ------------------------------------------------------------- */

struct http1_forward {
	const char *client; /* appended to X-Forwarded-For; "" none */
	const char *via; /* our name in Via; "" none */
	const char *host; /* Host for a request that has none (HTTP/1.0) */
	const char *request_id; /* X-Request-Id for a request that has none; "" none */
	const char *traceparent; /* replaces the request's own; NULL: keep that */
	bool new_trace; /* with traceparent: tracestate belongs to another trace and is left out */
};
/* Writes the request for the next hop: HTTP/1.1, origin-form, one Host first, no hop-by-hop fields,
 * one framing field, lists joined, ourselves in CDN-Loop. Keeps Upgrade when h->upgrade, and
 * Trailer and TE: trailers when trailers may follow. Bytes written, or -ENOBUFS. */
ssize_t http1_emit_request(
	char *to, size_t size, const struct http1_head *h, const struct http1_forward *f);

struct http1_reply {
	uint8_t framing; /* enum http1_framing towards the client */
	bool close; /* Connection: close */
	bool keep_alive; /* Connection: keep-alive, for HTTP/1.0 clients */
	/* the client may see the offered protocols in Upgrade (RFC 9110 section 7.8): not in
	 * HTTP/1.0 */
	bool upgrade;
};
/* Writes the response for the client. Bytes written, or -ENOBUFS. */
ssize_t http1_emit_response(
	char *to, size_t size, const struct http1_head *h, const struct http1_reply *r);
/* A complete response of our own with a one-line body, omitted for HEAD. */
struct http1_error {
	int status;
	const char *line; /* without line end */
	unsigned retry_after; /* seconds, 0: no Retry-After */
	bool to_head;
	const char *location; /* of a redirect; NULL: no Location */
};
ssize_t http1_emit_error(
	char *to, size_t size, const struct http1_error *e, const struct http1_reply *r);
const char *http1_reason(int status);

/* --- a proxy's request and response (http1_exchange.c) -------------------------------------- */

/* What goes on to the client, how it is framed there, and whether the connection stays open. The
 * owner moves the bytes and sets request_done; it may clear `keep`. All 0 at first. */
struct http1_exchange {
	struct http1_body up, down; /* of the request; of the response, once its head is emitted */
	struct buf trailers_up, trailers_down;
	struct http1_scan scan; /* of the response's head */
	uint8_t client_minor;
	bool is_head, upgrade; /* of the request */
	bool bound; /* the request logs the upstream's connection in (Negotiate, NTLM) */
	bool request_done; /* all of the request has passed */
	bool keep; /* the client's connection stays open afterwards */
	/* the upstream's, as far as its head says: not where a login belongs to the connection
	 * (Negotiate, NTLM), since others may get the connection next */
	bool reusable;
	bool last; /* the client has said that it sends no further request */
	bool chunked_down; /* the client gets `down` in chunks */
};
void http1_exchange_begin(struct http1_exchange *x, const struct http1_head *request);
void http1_exchange_fini(struct http1_exchange *x);

enum http1_answer {
	HTTP1_ANSWER_BAD, /* not to be forwarded: head.why */
	HTTP1_ANSWER_INCOMPLETE, /* read more */
	HTTP1_ANSWER_HIDDEN, /* 1xx, which an HTTP/1.0 client does not know: another head follows */
	HTTP1_ANSWER_INTERIM, /* 1xx: another head follows */
	HTTP1_ANSWER_SWITCH, /* 101, as asked: the bytes after it belong to the new protocol */
	HTTP1_ANSWER_FINAL,
};
/* Parses the head that begins the upstream's bytes; *used: its length. `clean`: an empty buffer,
 * which h may point into afterwards. */
enum http1_answer http1_exchange_read(struct http1_exchange *x, struct http1_head *h,
	struct http1_str data, struct buf *clean, size_t *used);
/* Writes this head for the client. A final one sets `down`, `chunked_down` and `keep`. Bytes
 * written, or -ENOBUFS. */
ssize_t http1_exchange_emit(
	struct http1_exchange *x, const struct http1_head *h, char *to, size_t size);

#endif
