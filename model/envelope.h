/*
 * CloudHub's JSON envelope, the only kind of text frame on the websocket (doc/protocol.md):
 * {"header":{"msg_id","parent_msg_id","timestamp","resourceversion","sync"},
 *  "route":{"source","group","operation","resource"},"content":...}
 *
 * The content is kept as raw JSON text: for our own messages view_parse and friends read it.
 * Peer input: bounded by ENVELOPE_MAX_BYTES, refused with a reason.
 */
#ifndef EDGEWAY_MODEL_ENVELOPE_H
#define EDGEWAY_MODEL_ENVELOPE_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "model/limits.h"

enum operation {
	OP_INSERT,
	OP_UPDATE,
	OP_DELETE,
	OP_QUERY,
	OP_RESPONSE,
	OP_ERROR,
	OP_KEEPALIVE,
};

struct envelope {
	char *id, *parent_id, *source, *group, *resource; /* never NULL, "" when absent */
	char *resource_version;
	uint64_t timestamp_ms;
	bool sync;
	enum operation operation;
	char *content; /* raw JSON text, "" when absent */
	size_t content_len;
};

const char *operation_name(enum operation op);
void envelope_fini(struct envelope *e);
int envelope_parse(struct envelope *e, const char *text, size_t len, struct err *err);
/* For a message that envelope_parse has refused: reads header and route, if they come first and are
 * valid, so that the answer can name the message. False: *e is empty. */
bool envelope_head(struct envelope *e, const char *text, size_t len);
/* Appends; NULL members are written as "". content must be valid JSON or NULL. */
void envelope_build(struct buf *out, const struct envelope *e);

/* A message of our own programs: group "resource", timestamp now. */
struct saying {
	const char *source; /* "edgeway-hub", "edgeway-agent" */
	enum operation operation;
	const char *resource, *parent; /* truncated to what peers accept; parent NULL: none */
	const char *content; /* JSON; NULL none */
	size_t content_len;
};
void envelope_say(struct buf *out, const struct saying *s, const char *id);

/* A fresh random UUID (RFC 9562 version 4) as text of 36 characters and NUL. */
void envelope_new_id(char id[37]);

#endif
