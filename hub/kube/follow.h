/*
 * Follows a few objects of the API server: lists them, then watches from the list's version on, and
 * repeats this for ever. For resources too small or too special for hub/kube/reflector.h; a list is
 * one page.
 *
 *   LIST ──► WATCH ──ended──► WATCH      failed, 410, follow_anew: ──► LIST, after kube_wait_ms
 *
 * `object` is called for each object of a list and for each change, from within a request's
 * callback: nothing may be started or stopped there. `listed` then says that an object that has not
 * come since the list began does not exist. `told` is called from the loop after either, and when
 * there is a problem: act there. On the hub's loop.
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
	const char *rights; /* rights that are missing when the server answers 403 */
	void (*object)(void *arg, const struct tree_node *object, bool gone);
	loop_fn *listed;
	loop_fn *told;
	void *arg;
};

struct follow *follow_start(const struct follow_config *config);
/* After it no callback comes. */
void follow_stop(struct follow **f);
/* Lists again, because our copy does not match the server. */
void follow_anew(struct follow *f);
/* Counts the lists begun. In `listed`: an object that has not come in this round does not exist. */
unsigned follow_round(const struct follow *f);
/* Why it cannot be read now, with the remedy; "": it can. */
const char *follow_problem(const struct follow *f);

/* metadata.resourceVersion of the object. */
bool follow_version(char to[FOLLOW_VERSION_MAX + 1], const struct tree_node *object);
/* Describes a response that is not a success; `rights` for 403. */
void follow_describe(const struct https_answer *answer, const char *what, const char *rights,
	char *to, size_t size);

#endif
