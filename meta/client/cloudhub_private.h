/*
 * The conversation with a KubeEdge CloudHub (doc/protocol.md, "CloudHub"): asks for the list of
 * services, then for the pods and endpoints of each, and takes what it is told in between.
 * meta/client/cloudhub_cache knows what differs from the store; here it goes to meta/state/apply,
 * and what the hub wants acknowledged is, once everything before it is committed.
 *
 *	text ─ cloudhub_told ─► mirror ─ cloudhub_pump ─► apply ─ committed ─► acknowledgements
 *
 * What the files of this conversation share: cloudhub.c (the connection, towards the store and
 * back), cloudhub_ask.c (questions) and cloudhub_told.c (messages). Nothing outside of these
 * includes it.
 */
#ifndef EDGEWAY_META_CLIENT_CLOUDHUB_PRIVATE_H
#define EDGEWAY_META_CLIENT_CLOUDHUB_PRIVATE_H

#include <sys/queue.h>

#include "meta/client/cloudhub_cache.h"
#include "meta/client/hub_client_private.h"

enum { CLOUDHUB_QUERIES = 16 }; /* at once */

struct ack {
	TAILQ_ENTRY(ack) entry;
	uint64_t after; /* number of the change that must be committed; UINT64_MAX: not known yet */
	char *id, *resource;
};

struct asked {
	char id[37]; /* "" free */
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
	char refusal[160]; /* what it said in place of the list of services, "" */
	char problem[640]; /* why services may be missing or out of date, "" */
};

/* A message, borrowed from its tree. */
struct told {
	const char *operation, *id, *parent, *ns, *type, *name;
	const struct tree_node *content;
};

/* --- cloudhub.c ----------------------------------------------------------------------------- */
/* Acknowledges the message once everything before now is committed. */
void cloudhub_want_ack(struct cloudhub *c, const char *id, const char *resource);
/* Has the list of services come? Says what it means when not. */
void cloudhub_judge_list(struct hub_client *f);
/* Hands on what differs from the store, as far as there is room. */
void cloudhub_pump(struct hub_client *f);

/* --- cloudhub_ask.c ------------------------------------------------------------------------- */
void cloudhub_ask_list(struct hub_client *f);
/* As many questions as may be open at once. */
void cloudhub_ask(struct hub_client *f);
bool cloudhub_is_asking(const struct cloudhub *c);
/* The question that a message answers, by its parent or, as some are told anyway, by what it is
 * about. NULL: none. */
struct asked *cloudhub_find_asked(struct cloudhub *c, const struct told *t);
/* It is answered. */
void cloudhub_forget(struct asked *a);
void cloudhub_forget_all(struct cloudhub *c);
/* It will not be answered, and nobody waits for it any more. */
void cloudhub_give_up(struct hub_client *f, struct asked *a);
/* Gives up what was not answered in time. */
void cloudhub_expire(struct hub_client *f);

/* --- cloudhub_told.c ------------------------------------------------------------------------ */
/* `text` of feed_protocol. */
void cloudhub_text(struct hub_client *f, const char *text, size_t len);

#endif
