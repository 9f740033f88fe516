/*
 * The protocol with a KubeEdge CloudHub (doc/protocol.md, "CloudHub"): asks for the list of
 * services, then for the pods and endpoints of each, and handles what the hub sends in between.
 * meta/client/cloudhub_cache finds the differences from the store; they are passed to
 * meta/state/apply here. A message that the hub wants acknowledged is acknowledged once everything
 * before it is committed.
 *
 *	text ─ cloudhub_text ─► cache ─ cloudhub_pump ─► apply ─ committed ─► acknowledgements
 *
 * Shared by the files of this protocol: cloudhub.c (the connection, store and acknowledgements),
 * cloudhub_ask.c (questions) and cloudhub_told.c (messages). Not included elsewhere.
 */
#ifndef EDGEWAY_META_CLIENT_CLOUDHUB_PRIVATE_H
#define EDGEWAY_META_CLIENT_CLOUDHUB_PRIVATE_H

#include <sys/queue.h>

#include "meta/client/cloudhub_cache.h"
#include "meta/client/hub_client_private.h"

enum { CLOUDHUB_QUERIES = 16 }; /* open at the same time */

struct ack {
	TAILQ_ENTRY(ack) entry;
	/* number of the change that must be committed first; UINT64_MAX: not known yet */
	uint64_t after;
	char *id, *resource;
};

struct asked {
	char id[37]; /* "" free slot */
	enum kube_kind kind;
	uint64_t at_ms;
	char *ns, *service;
};

struct cloudhub {
	struct cloudhub_cache *mirror;
	TAILQ_HEAD(, ack) acks;
	size_t n_acks;
	struct asked asked[CLOUDHUB_QUERIES];
	unsigned n_silent, n_short, ticks, list_tick;
	uint64_t handed, committed, window; /* changes by number */
	char list_id[37];
	char refusal[160]; /* the hub's error in place of the list of services, "" */
	char problem[640]; /* why services may be missing or out of date, "" */
};

/* A message, borrowed from its tree. */
struct told {
	const char *operation, *id, *parent, *ns, *type, *name;
	const struct tree_node *content;
};

/* --- cloudhub.c ----------------------------------------------------------------------------- */
/* Acknowledges the message once all changes up to now are committed. */
void cloudhub_want_ack(struct cloudhub *c, const char *id, const char *resource);
/* Checks whether the list of services has come; if not, reports what that means. */
void cloudhub_judge_list(struct hub_client *f);
/* Passes differences from the store to apply, as far as there is room. */
void cloudhub_pump(struct hub_client *f);

/* --- cloudhub_ask.c ------------------------------------------------------------------------- */
void cloudhub_ask_list(struct hub_client *f);
/* Sends questions up to the limit of open ones. */
void cloudhub_ask(struct hub_client *f);
bool cloudhub_is_asking(const struct cloudhub *c);
/* The question that a message answers, by its parent; some answers come without one, they are
 * matched by subject. NULL: none. */
struct asked *cloudhub_find_asked(struct cloudhub *c, const struct told *t);
/* The question is answered. */
void cloudhub_forget(struct asked *a);
void cloudhub_forget_all(struct cloudhub *c);
/* The question will not be answered; the cache stops waiting for it. */
void cloudhub_give_up(struct hub_client *f, struct asked *a);
/* Gives up questions that were not answered in time. */
void cloudhub_expire(struct hub_client *f);

/* --- cloudhub_told.c ------------------------------------------------------------------------ */
/* `text` of hub_client_protocol. */
void cloudhub_text(struct hub_client *f, const char *text, size_t len);

#endif
