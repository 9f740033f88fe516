/*
 * A few objects of the API server, followed: listed, then watched from the list's version on, again
 * and again. For what is too little or too special for hub/kube/reflector.h; a list is one page.
 *
 *   LIST ──► WATCH ──came to its end──► WATCH      failed, 410, follow_anew: ──► LIST, after kube_wait_ms
 *
 * `object` comes for each object of a list and each change, out of a request: nothing may be
 * started or stopped there. `listed` then says that what has not come since the list began is not
 * there. `told` comes from the loop after either, and when there is a problem: the place to act. On
 * the hub's loop.
 *
 *	f = follow_start(&config);
 */
#ifndef EDGEWAY_HUB_KUBE_FOLLOW_H
#define EDGEWAY_HUB_KUBE_FOLLOW_H

#include "base/conf/tree.h"
#include "hub/kube/kube_api.h"

enum {
	FOLLOW_WATCH_S = 120,
	FOLLOW_SILENCE_MS = 130 * 1000,
	FOLLOW_ANSWER_MS = 8000, /* of a list */
	FOLLOW_VERSION_MAX = 63,
};

struct follow;

struct follow_config { /* texts are borrowed until follow_stop */
	struct loop *loop;
	struct kube_api *api;
	const char *path; /* with a selector: /api/v1/...?fieldSelector=... */
	const char *what; /* for logs and problems: "the Secret edgeway/edgeway-hub-ca" */
	const char *rights; /* that are missing when the server says 403 */
	void (*object)(void *arg, const struct tree_node *object, bool gone);
	loop_fn *listed;
	loop_fn *told;
	void *arg;
};

struct follow *follow_start(const struct follow_config *config);
/* No callback comes any more. */
void follow_stop(struct follow **f);
/* List once more: what is known is not what the server has. */
void follow_anew(struct follow *f);
/* Counts the lists begun. In `listed`: what has not come in this round is not there. */
unsigned follow_round(const struct follow *f);
/* Why it cannot be read at the moment, with the remedy; "". */
const char *follow_problem(const struct follow *f);

/* metadata.resourceVersion of the object. */
bool follow_version(char to[FOLLOW_VERSION_MAX + 1], const struct tree_node *object);
/* What an answer that is no success means; `rights` for 403. */
void follow_describe(const struct https_answer *answer, const char *what, const char *rights,
	char *to, size_t size);

#endif
