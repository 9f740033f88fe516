/*
 * Summarises in few bytes which services a node holds, so that a reconnect transfers only what has
 * changed (doc/protocol.md, "Metadata"). Services fall into DIGEST_BUCKETS buckets by XXH64(ns "/"
 * name); a bucket's digest is the XOR over its services of XXH64(name key, seed = view digest). The
 * agent sends the buckets' digests, the hub answers with the numbers of those that differ, the
 * agent lists the services in them (key and digest), and the hub sends what is new and deletes what
 * is gone.
 */
#ifndef EDGEWAY_MODEL_DIGEST_H
#define EDGEWAY_MODEL_DIGEST_H

#include "base/core/buf.h"
#include "base/core/err.h"

enum { DIGEST_BUCKETS = 256 };

struct digests {
	uint64_t bucket[DIGEST_BUCKETS];
};

unsigned digest_bucket(const char *key, size_t key_len); /* key: "ns/name" */
/* XORs a service in; a second call with the same values removes it. */
void digest_toggle(struct digests *d, const char *key, size_t key_len, uint64_t view_digest);

struct digest_entry {
	char *key;
	uint64_t digest;
};

/* {"buckets":"<16 hex digits each>"} */
void digests_build(struct buf *out, const struct digests *d);
int digests_parse(struct digests *d, const char *json, size_t len, struct err *err);
/* {"buckets":[1,7]} -> true in want[] */
void digest_want_build(struct buf *out, const bool want[DIGEST_BUCKETS]);
int digest_want_parse(bool want[DIGEST_BUCKETS], const char *json, size_t len, struct err *err);
/* {"services":{"ns/name":"16 hex digits", ...}} with the buckets they answer for listed in
 * "buckets". */
void digest_entries_build(
	struct buf *out, const bool of[DIGEST_BUCKETS], const struct digest_entry *e, size_t n);
int digest_entries_parse(bool of[DIGEST_BUCKETS], struct digest_entry **e, size_t *n,
	const char *json, size_t len, struct err *err);
void digest_entries_free(struct digest_entry **e, size_t n);

#endif
