/*
 * One Secret of the Kubernetes API, known as it is now and changed without losing what others
 * wrote:
 *
 *   hub/kube/follow.h reads it, listed and watched by its name alone
 *   write ──► POST when there is none (409 AlreadyExists: listed anew), else PATCH of our keys with the version that
 *             is known (409 Conflict: listed anew)
 *
 * Whoever writes builds the values on what `changed` told last; what somebody else wrote meanwhile
 * comes as -ESTALE and then by `changed`, to be built upon again. Labels and other keys of the
 * Secret stay as they are. Its values are texts and never logged.
 *
 * On the hub's loop. `changed` comes out of no call but from the loop: the content or its absence
 * is known anew, or reading has a problem (secret_problem).
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
	SECRET_ANSWER_MS = 8000, /* of a write; somebody is waiting */
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

/* 0; -ESTALE: somebody else wrote, `changed` follows; other: the server did not take it, err says
 * why. */
typedef void secret_written_fn(void *arg, int rc, const char *why);

struct secret *secret_start(const struct secret_config *config);
/* No callback comes any more. */
void secret_stop(struct secret **s);

/* Has it been read once, or its absence? Stays true while the server is away. */
bool secret_known(const struct secret *s);
bool secret_exists(const struct secret *s);
/* Of the key with this number; "" when there is none, or it is not base64 of a text. */
const char *secret_value(const struct secret *s, size_t key);
/* A value for each key. It must be known, and no write under way. */
void secret_write(
	struct secret *s, const char *const *values, secret_written_fn *written, void *arg);
bool secret_writing(const struct secret *s);
/* Why it cannot be read at the moment, with the remedy; "". */
const char *secret_problem(const struct secret *s);
/* {"name","known","exists","version","problem"} */
void secret_state(const struct secret *s, const char *problem, struct buf *out);

#endif
