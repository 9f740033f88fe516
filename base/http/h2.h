/*
 * One HTTP/2 connection (RFC 9113) as a codec: bytes in, events out; calls in, bytes out. Used by
 * the proxy (lb/proxy), the tunnel (tunnel/h2) and health checks. nghttp2 does frames, HPACK (RFC
 * 7541), the states of streams, flow control, and refuses malformed messages (section 8.1.1); this
 * layer bounds header sections and frames that carry nothing (base/http/frame_budget.h). No socket,
 * no loop; the owner passes the time.
 *
 * Events come only from within h2_input and h2_output. Their functions may call everything here
 * but these two and h2_free. A stream is an object of the owner's, which it may forget after
 * `closed` or h2_forget. Bytes of a body are not kept here: what arrives is the owner's, and opens
 * the stream's window again when it says h2_consume or h2_hold; the connection's window never waits
 * for one stream. What is to be sent is asked for by `source` when there is room for it.
 *
 *	s = h2_new(&(struct h2_setup){.role = H2_SERVER, .events = &events, .arg = me}, now_ms);
 *	rc = h2_input(s, bytes, n, now_ms);
 *	id = h2_request(s, fields, false, stream), h2_resume(s, id);
 *	h2_output(s, &out, 65536);	// then: is h2_is_over(s)?
 */
#ifndef EDGEWAY_BASE_HTTP_H2_H
#define EDGEWAY_BASE_HTTP_H2_H

#include "base/core/buf.h"
#include "base/http/http1.h"

struct h2;

enum h2_role { H2_CLIENT, H2_SERVER };

enum {
	H2_STREAMS_MAX = 100, /* that a client may have open at once, RFC 9113 section 5.1.2 */
	H2_WINDOW = 65535, /* of a stream in the beginning */
	H2_WINDOW_MAX = 1 << 20, /* of the connection, and the most that h2_window may give */
	H2_FIELDS_MAX = HTTP1_FIELDS_MAX + 16, /* those of the message, pseudo-fields, and ours */
};

/* Codes of RFC 9113 section 7. */
enum h2_code {
	H2_NO_ERROR = 0,
	H2_PROTOCOL_ERROR = 1,
	H2_INTERNAL_ERROR = 2,
	H2_REFUSED_STREAM = 7, /* nothing was done: the request may be sent again */
	H2_CANCEL = 8,
	H2_COMPRESSION_ERROR = 9,
	H2_ENHANCE_YOUR_CALM = 11,
};

/* A header section as it came: for each field the lengths of name and value, then both, each with a
 * NUL behind it. */
struct h2_section {
	struct buf text;
	size_t n;
	bool too_large; /* more than h2_limits.head bytes or H2_FIELDS_MAX fields */
	bool secret; /* a field must never enter a table (RFC 7541 section 7.1.3) */
};

/* Fields to send, borrowed until the call returns; pseudo-header fields first. */
struct h2_field {
	struct http1_str name, value;
	bool secret; /* is not to enter a table, or is not worth it */
};
struct h2_fields {
	size_t n;
	struct h2_field list[H2_FIELDS_MAX];
};

enum h2_part { H2_RESPONSE, H2_INTERIM, H2_TRAILERS };

/* What follows the bytes of a body that are there. After a server's H2_LAST what is left of the
 * request is of no use; H2_HALF ends only this direction, as of a connection (section 8.5). */
enum h2_rest { H2_MORE, H2_LAST, H2_HALF, H2_THEN_TRAILERS };

enum { H2_FRAME_HEAD = 9, H2_PING_BYTES = 8 };

/* `end`, `settings` and `goaway` may be NULL; so may `request` at a client, and what concerns
 * bodies that are not there. */
struct h2_events {
	/* Server: a request; its stream object, or NULL: what else comes of it is dropped. `last`:
	 * there is no body. */
	void *(*request)(void *arg, int32_t id, struct h2_section *section, bool last);
	/* Client: a response's header section; both: trailers. `last`: nothing else comes. NULL: of
	 * no interest. */
	void (*head)(
		void *arg, void *stream, enum h2_part part, struct h2_section *section, bool last);
	/* Bytes of the body; the owner says h2_consume when they are gone. */
	void (*data)(void *arg, void *stream, const char *data, size_t n);
	/* The body has ended, and no trailers come. */
	void (*end)(void *arg, void *stream);
	/* The stream is over: H2_NO_ERROR, or why. */
	void (*closed)(void *arg, void *stream, uint32_t code);
	/* The first of the bytes to send now: their number, 0: none; and what comes after them. */
	size_t (*source)(void *arg, void *stream, const char **at, enum h2_rest *rest);
	/* They, or the first n of them, are sent. */
	void (*sent)(void *arg, void *stream, size_t n);
	/* NULL: h2_output copies them. Else instead of `sent`: puts the head of a frame and the
	 * first n of them behind the output so far. False: there is no room now, and h2_output
	 * ends. */
	bool (*send)(void *arg, void *stream, const uint8_t head[H2_FRAME_HEAD], size_t n);
	/* `source` has said H2_THEN_TRAILERS: they are to be given to h2_trailers now. */
	void (*trailers)(void *arg, void *stream);
	/* The other end's first SETTINGS have come; it takes no further streams. */
	void (*settings)(void *arg);
	void (*goaway)(void *arg, uint32_t code);
	/* A PING, which is answered here, or (ack) the answer to h2_ping; NULL: of no interest. */
	void (*ping)(void *arg, const uint8_t payload[H2_PING_BYTES], bool ack);
	/* A frame of the type h2_limits.extension. */
	void (*extension)(void *arg, void *stream, uint8_t flags);
};

struct h2_limits {
	uint32_t streams; /* that the other end may have open at once */
	uint32_t window; /* of a stream in the beginning */
	uint32_t head; /* bytes of a header section */
	uint32_t head_free; /* compressed ones that do not count as frames that carry nothing */
	uint32_t table; /* bytes of the table that compresses ours (RFC 7541 section 4.2) */
	/* frames that carry nothing, as which a stream counts that a client opens and resets */
	unsigned reset;
	size_t frames; /* that wait for the other end to read them */
	bool protocols; /* server: CONNECT may name a protocol */
	bool trusted; /* frames that carry nothing are not counted */
	uint8_t extension; /* a type of frames without payload (section 5.5), 0: none */
};

struct h2_setup {
	enum h2_role role;
	const struct h2_events *events;
	void *arg;
	const struct h2_limits *limits; /* NULL: those of a proxy */
};

struct h2_counts {
	uint64_t resets; /* of streams, by the other end */
	uint64_t refused; /* streams of the other end above h2_limits.streams */
	uint64_t useless; /* frames that carried nothing */
};

struct h2 *h2_new(const struct h2_setup *setup, uint64_t now_ms);
/* Without `closed` for the streams that are left. */
void h2_free(struct h2 **s);
/* 0, or -EPROTO: no HTTP/2, or an attack; what h2_output gives then tells the other end. */
int h2_input(struct h2 *s, const void *bytes, size_t n, uint64_t now_ms);
/* Appends what is to be sent, until `out` has about `most` bytes. Returns true if there is more. */
bool h2_output(struct h2 *s, struct buf *out, size_t most);
const struct h2_counts *h2_counts(struct h2 *s);
/* NULL: eight zeros. */
void h2_ping(struct h2 *s, const uint8_t payload[H2_PING_BYTES]);
/* It has been idle for a while, without streams: gives memory back, which the next call takes. */
void h2_rest(struct h2 *s);
/* Bytes of memory that it takes: frames for h2_output, header sections, HPACK's tables. */
size_t h2_held(const struct h2 *s);
/* Returns true if there is something for h2_output. */
bool h2_wants_output(const struct h2 *s);
/* Nothing is to be read or sent any more: the connection is to be closed. */
bool h2_is_over(const struct h2 *s);
/* Why h2_input failed or the connection ended; "" not known. */
const char *h2_why(const struct h2 *s);
/* With which code this end ends the connection for the other end's fault: H2_ENHANCE_YOUR_CALM if
 * there was too much of what is allowed; H2_NO_ERROR: it does not. */
uint32_t h2_code(const struct h2 *s);
/* Server: announces that no new streams are taken soon; later: that none is (section 6.8). */
void h2_drain(struct h2 *s);
void h2_goaway(struct h2 *s, enum h2_code code);

/* --- streams -------------------------------------------------------------------------------- */

/* Client: how many requests it may have open, as far as the other end has said; 0: none. */
uint32_t h2_streams_max(const struct h2 *s);
/* Client: the ids of all 2^30 requests of this connection are used up. */
bool h2_is_used_up(const struct h2 *s);
/* Has the other end said that CONNECT may name a protocol (RFC 8441)? */
bool h2_takes_protocols(const struct h2 *s);
/* Client: the stream's id, or -errno. `last`: without a body; else `source` is asked for it. */
int32_t h2_request(struct h2 *s, const struct h2_fields *f, bool last, void *stream);
/* Server: the final response, or one of 1xx. */
void h2_respond(struct h2 *s, int32_t id, const struct h2_fields *f, bool last);
void h2_inform(struct h2 *s, int32_t id, const struct h2_fields *f);
/* Within `trailers` only: the trailers that end the message. */
void h2_trailers(struct h2 *s, int32_t id, const struct h2_fields *f);
/* `source` has something to say again. */
void h2_resume(struct h2 *s, int32_t id);
/* Server: a code by which HTTP/2 accuses the client of a violation is sent as INTERNAL_ERROR: it
 * may come from an upstream. */
void h2_reset(struct h2 *s, int32_t id, uint32_t code);
/* Does a stream that is reset with this code say that the other end broke a rule in it? */
bool h2_is_violation(uint32_t code);
/* Client: has the head of the request gone out, or is it about to? */
bool h2_is_sent(const struct h2 *s, int32_t id);
/* The stream has no object any more: no events for it. */
void h2_forget(struct h2 *s, int32_t id);
/* n bytes of its body are not held any more: half a window of them is given back. */
void h2_consume(struct h2 *s, int32_t id, size_t n);
/* The same for who does not count: all of its body but `held` bytes is gone. Given back is an
 * eighth of the window, for writers that are far away. Returns true if h2_output has it now. */
bool h2_hold(struct h2 *s, int32_t id, size_t held);
/* Lets the other end send n bytes ahead, on all streams together if id is 0. A window that shrinks
 * does so by what is not opened again. */
void h2_window(struct h2 *s, int32_t id, size_t n);
/* How many bytes the other end lets us send now; id 0: on all streams together. */
int32_t h2_room(const struct h2 *s, int32_t id);
/* Sends a frame of the type h2_limits.extension. */
void h2_send_extension(struct h2 *s, int32_t id, uint8_t flags);

/* --- messages (h2_head.c) ------------------------------------------------------------------- */

/* The next field after *at bytes, 0 in the beginning. False: there is none. */
bool h2_section_next(const struct h2_section *section, size_t *at, struct h2_field *field);
/* A request or response in HTTP/1's terms, pointing into the section, as http1_parse_request would
 * give it: 0, or the status to refuse with and h->why. CONNECT with :protocol is an Upgrade, whose
 * target is the path. `last`: no body. */
int h2_head_request(struct http1_head *h, const struct h2_section *section, bool last);
int h2_head_response(struct http1_head *h, const struct h2_section *section, bool last);
/* The fields of a request as http1_emit_request has written it, whose names become lower-case; they
 * point into `head`. secret: no field enters a table. 0, or -1: it is none. */
int h2_fields_request(struct h2_fields *to, char *head, size_t len, bool secret);
/* Those of a response from h2_head_response; `status`: for its digits. */
void h2_fields_response(struct h2_fields *to, const struct http1_head *h, char status[4]);
/* Keeps the trailers that may be forwarded (http1_trailer_may_stand); `to` is empty. */
void h2_section_keep(struct h2_section *to, const struct h2_section *section);
void h2_fields_trailers(struct h2_fields *to, const struct h2_section *section);
/* Appends one; the texts are borrowed. */
void h2_fields_add(struct h2_fields *to, const char *name, const char *value);
/* Are these the first bytes of an HTTP/2 server (its SETTINGS, section 3.4)? */
bool h2_is_settings(const char *data, size_t len);

#endif
