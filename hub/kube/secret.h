/*
 * One Secret of the Kubernetes API: keeps its current content, and changes it without losing what
 * others wrote:
 *
 *   hub/kube/follow.h reads it, listed and watched by its name alone
 *   write ──► POST when there is none (409 AlreadyExists: listed again), else PATCH of our keys
 *             with the known version (409 Conflict: listed again)
 *
 * A writer builds the values from what `changed` last reported. If somebody else wrote meanwhile,
 * the write ends with -ESTALE, and then `changed` comes, to build the values again. Labels and
 * other keys of the Secret stay as they are. Its values are texts and never logged.
 *
 * On the hub's loop. `changed` always comes from the loop, never from within a call: the content or
 * its absence has been read again, or reading has a problem (secret_problem).
 *
 *	s = secret_start(&config);
 *	if (secret_known(s) && secret_exists(s)) text = secret_value(s, 0);
 *	secret_write(s, values, on_written, arg);
 */
#ifndef EDGEWAY_HUB_KUBE_SECRET_H
#define EDGEWAY_HUB_KUBE_SECRET_H

#include "base/core/buf.h"
#include "hub/kube/kube_api.h"

enum {
	SECRET_KEYS_MAX = 2,
	SECRET_MOST = 1024 * 1024, /* bytes of all values: Kubernetes' limit */
	SECRET_ANSWER_MS = 8000, /* of a write; a node is waiting */
};

struct secret;

struct secret_config { /* texts are borrowed until secret_stop */
	struct loop *loop;
	struct kube_api *api;
	const char *ns, *name;
	const char *type; /* "Opaque" */
	const char *const *keys; /* ended by NULL, SECRET_KEYS_MAX at most */
	loop_fn *changed;
	void *arg;
};

/* 0; -ESTALE: somebody else wrote, `changed` follows; other: the server did not accept it, `why`
 * has the reason. */
typedef void secret_written_fn(void *arg, int rc, const char *why);

struct secret *secret_start(const struct secret_config *config);
/* After it no callback comes. */
void secret_stop(struct secret **s);

/* Returns true once it, or its absence, has been read. Stays true while the server is away. */
bool secret_known(const struct secret *s);
bool secret_exists(const struct secret *s);
/* The value of the key with this index; "" if there is none, or it is not the base64 of a text. */
const char *secret_value(const struct secret *s, size_t key);
/* values: one for each key. The Secret must be known, and no other write in progress. */
void secret_write(
	struct secret *s, const char *const *values, secret_written_fn *written, void *arg);
bool secret_writing(const struct secret *s);
/* Why it cannot be read now, with the remedy; "": it can. */
const char *secret_problem(const struct secret *s);
/* {"name","known","exists","version","problem"} */
void secret_state(const struct secret *s, const char *problem, struct buf *out);

#endif
