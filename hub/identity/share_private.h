/*
 * State shared by the files of hub/identity/share: share.c (the lists, start, stop, state) and
 * share_ca.c (the CA). No other file includes it.
 */
#ifndef EDGEWAY_HUB_IDENTITY_SHARE_PRIVATE_H
#define EDGEWAY_HUB_IDENTITY_SHARE_PRIVATE_H

#include "hub/identity/share.h"
#include "hub/identity/share_claims.h"
#include "hub/kube/follow.h"
#include "hub/kube/secret.h"

enum {
	SHARE_DOC_CA,
	SHARE_DOC_TOKENS,
	SHARE_DOC_NODES,
	/* archives of names (hub/identity/name_archive.h): the first of NAME_ARCHIVE_ARCHIVES */
	SHARE_DOC_ARCHIVE,
	SHARE_DOCS = SHARE_DOC_ARCHIVE + NAME_ARCHIVE_ARCHIVES
};

struct doc {
	struct share *share;
	struct secret *secret; /* NULL: not started */
	struct timer *retry;
	struct kube_wait wait;
	bool dirty; /* our state has entries that the Secret lacks */
	bool merged; /* the Secret's content has been merged into ours */
	bool stale; /* another replica wrote; it is being read again */
	uint64_t written, failed;
	char problem[400]; /* of the last write or merge, "" */
};

struct share {
	struct share_config config;
	struct doc docs[SHARE_DOCS];
	struct certs *certs;
	struct timer *work;
	struct share_claims claims;
	char *ca_pem, *ca_key; /* in use */
	bool had_ca; /* at the start, under data_dir */
	bool was_synced; /* synced once, maybe long ago: it knows the revocations until then */
	bool settled, synced;
	char full[300]; /* why claims were refused; told until full_until_ms */
	uint64_t full_until_ms;
};

/* --- share.c -------------------------------------------------------------------------------- */
/* The CA is there: reports it, once. */
void share_settle(struct share *s);
/* Keeps the error text, and logs it when it has changed. */
void share_complain(struct doc *d, const char *what, const struct err *err);

/* --- share_ca.c ----------------------------------------------------------------------------- */
/* Loads the CA under data_dir; false: there is none that can be used. */
bool share_load_ca(struct share *s);
/* The Secret of the CA has changed, or may be tried again. doc: its struct doc. */
void share_on_ca(void *doc);

#endif
